# shellcheck shell=bash
# A micro VM is made here and run by guest.sh: QEMU, a distribution kernel, an initramfs of our own making, and this machine's
# root file system read-only under a tmpfs. Nothing is installed into it and no image is downloaded.
#
# The kernel comes from the distribution's package, which is unpacked and not installed. What is made of it is kept in
# $CACHE/vm, outside the checkout.
#
# Reads: CI_DIR, CACHE (roce), SCRATCH (say.sh), VERBENA_KERNEL_PACKAGE, VERBENA_KERNEL_SUITE
# Sets:  VM            the folder with kernel, initramfs and version
#        ACCELERATOR   kvm or tcg
#        WHY_NO_KVM    why it is not kvm
# For other files: VM_TOOLS, why_no_vm, prepare_vm, uses_kvm, vm_recipe, kernel_meta_package, why_kvm_cannot_be_tried, kvm_verdict_file

VM_TOOLS=(qemu-system-x86 kmod xz-utils zstd)
VM_ROOM=1000       # MiB while it is made, most of that for the kernel's package unpacked
KVM_PROBE_LIMIT=15 # seconds for a guest that powers off at once; a working KVM needs 1 or 2

# Modules the guest loads, in this order, each after what it depends on. Those a kernel does not have are built in or not
# needed there: 6.1 wants crc32_generic (without it `rdma link add` fails with ENOENT), newer kernels have none.
VM_MODULES=(virtio_pci virtio_console virtio_rng 9pnet_virtio 9p overlay
    crc32_generic crc32c_generic crc32_pclmul veth virtio_net sch_netem ib_uverbs rdma_ucm rdma_rxe)
# And when a container engine is to run in it: its disk, its networks. Not loaded otherwise, as each takes its time under emulation.
VM_ENGINE_MODULES=(virtio_blk ext4 bridge nf_tables nft_compat nft_chain_nat xt_nat)
# And those that a command may load by modprobe: the kernel's NVMe over RDMA, both ends, and a file system on top.
VM_SPARE_MODULES=(nvme_rdma nvmet_rdma ext4)

# Says why there can be no VM here, or nothing.
why_no_vm() {
    if [ "$(uname -m)" != x86_64 ]; then
        echo "the micro VM is made for x86_64 only, this is $(uname -m)"
    elif ! have_apt; then
        echo "the kernel is taken from a Debian or Ubuntu package, and there is no apt here"
    fi
}

prepare_vm() {
    local why
    why=$(why_no_vm)
    [ -z "$why" ] || fail 69 "no micro VM: $why"
    need "the micro VM" "${VM_TOOLS[@]}"
    local recipe
    recipe=$(vm_recipe)
    VM=$CACHE/vm/$recipe
    need_writable "$CACHE/vm" "the cache" "point VERBENA_CACHE at another folder"
    # Two runs may start at once on a new machine: one makes it, the other waits for that.
    local lock
    exec {lock}>"$CACHE/vm/lock"
    take_lock "$lock" "another ci/roce is making the micro VM"
    if [ ! -e "$VM/complete" ]; then
        need_room "$CACHE/vm" "the cache" "$VM_ROOM" "making the micro VM" "point VERBENA_CACHE at another folder"
        step make_vm || fail 69 "the micro VM could not be made"
    fi
    touch "$VM/complete" # when last used
    find_accelerator "$lock"
    flock -u "$lock" # not only closed: a QEMU that hangs may still hold the descriptor
    exec {lock}>&-
}

# Prints a name that changes whenever what is made here would: the kernel asked for, the modules, this file, the guest's init.
vm_recipe() {
    printf '%s-%s\n' "$(kernel_meta_package)${VERBENA_KERNEL_SUITE:+-$VERBENA_KERNEL_SUITE}" \
        "$({ echo "${VM_MODULES[@]}" "${VM_ENGINE_MODULES[@]}" "${VM_SPARE_MODULES[@]}"; cat "$CI_DIR/lib/vm.sh" "$CI_DIR/vm/init"; } | sha256sum | cut -c1-12)"
}

kernel_meta_package() {
    if [ -n "${VERBENA_KERNEL_PACKAGE-}" ]; then
        echo "$VERBENA_KERNEL_PACKAGE"
    elif grep -qs '^ID=ubuntu' /etc/os-release; then
        echo linux-image-generic
    else
        echo linux-image-amd64
    fi
}

# Prints the package with the kernel itself, and on Ubuntu those with its modules: META only depends on the newest.
kernel_packages() { # META
    local found image
    found=$(apt-cache depends --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances "$1" 2>/dev/null |
        sed -nE 's/^ *Depends: (linux-(image|modules|modules-extra)-[0-9].*)$/\1/p')
    if [[ $1 =~ ^linux-image-[0-9] ]]; then # a kernel by its own name
        apt-cache show "$1" >/dev/null 2>&1 || return 1
        found+=$'\n'$1
        if apt-cache show "linux-modules-extra-${1#linux-image-}" >/dev/null 2>&1; then
            found+=$'\n'linux-modules-extra-${1#linux-image-}
        fi
    fi
    image=$(grep -m1 '^linux-image-' <<<"$found") || return 1
    # Ubuntu's linux-image-… depends on linux-modules-… itself; Debian's, from 7.2 on, on that and more, and is empty.
    { echo "$found"; apt-cache depends "$image" | sed -nE 's/^ *Depends: (linux-(modules|binary|base)-[0-9].*)$/\1/p'; } | sed '/^$/d' | sort -u
}

# Its caller tests the outcome, which switches `set -e` off in here: every step says what happens when it fails.
make_vm() {
    local made packages meta deb
    meta=$(kernel_meta_package)
    if [ -n "${VERBENA_KERNEL_SUITE-}" ]; then
        local -x APT_CONFIG
        APT_CONFIG=$(apt_of_suite "$VERBENA_KERNEL_SUITE") || return
    fi
    # Package lists of another suite are read only here: they are as old as the last run.
    [ -z "${APT_CONFIG-}" ] || update_lists || return
    packages=$(kernel_packages "$meta") || {
        update_lists || return
        packages=$(kernel_packages "$meta") || {
            say "apt knows no package $meta"
            return 1
        }
    }
    say "making the micro VM from packages (once): ${packages//$'\n'/ }, busybox-static"
    made=$(mktemp -d "$CACHE/vm/making.XXXXXX") || return
    at_exit rm -rf "$made"
    mkdir "$made/debs" "$made/unpacked" "$made/busybox" || return
    # shellcheck disable=SC2086 # $packages is a list of words
    (cd "$made/debs" && with_fresh_lists apt-get -q download $packages && unset APT_CONFIG &&
        with_fresh_lists apt-get -q download busybox-static) || return
    for deb in "$made"/debs/*.deb; do
        case $deb in
            */busybox-static_*) dpkg-deb -x "$deb" "$made/busybox" ;;
            *) dpkg-deb -x "$deb" "$made/unpacked" ;;
        esac || return
    done
    find "$made/busybox" -path '*bin/busybox' -type f -exec cp {} "$made/busybox-static" \; || return
    # Debian's are beside the modules from 7.2 on, others in /boot.
    unpack_kernel "$made/kernel" "$made"/unpacked/{boot/vmlinuz-*,usr/lib/modules/*/vmlinuz} || return
    make_initramfs "$made" || return
    rm -rf "$made/debs" "$made/unpacked" "$made/busybox" "$made/initramfs.d"
    touch "$made/complete" || return
    rm -rf "$VM" && mv "$made" "$VM" || return
    forget_old_vms
}

# Each takes tens of MB, and one of an older recipe is seldom used again.
forget_old_vms() {
    find "$CACHE/vm" -mindepth 2 -maxdepth 2 -name complete -mtime +30 -printf '%h\0' | xargs -0 -r rm -rf
    find "$CACHE/vm" -mindepth 1 -maxdepth 1 -name 'making.*' -mtime +1 -print0 | xargs -0 -r rm -rf
}

# A kernel unpacks itself at boot, which takes emulation 8 seconds of 15 (xz, measured); unpacked here it is an ELF file that
# QEMU starts directly, where the kernel was built with CONFIG_PVH. Otherwise it stays as it is.
unpack_kernel() { # TO PLACE… : the first of the places where there is one
    local image offset magic unpack
    for image in "${@:2}"; do
        [ ! -e "$image" ] || break
    done
    if grep -qs '^CONFIG_PVH=y' "${image/vmlinuz/config}"; then
        for unpack in 'xz -dc:\xfd7zXZ\x00' 'zstd -dcq:\x28\xb5\x2f\xfd' 'gzip -dcq:\x1f\x8b\x08'; do
            magic=${unpack#*:}
            offset=$(LC_ALL=C grep -obUaP -m1 "$magic" "$image" | head -n 1 | cut -d: -f1) || continue
            # Each complains of what follows in the file, after all of the kernel has come out.
            tail -c "+$((offset + 1))" "$image" | ${unpack%%:*} >"$1" 2>/dev/null || true
            [ "$(head -c 4 "$1" | tr -d '\177')" != ELF ] || return 0
        done
    fi
    cp "$image" "$1"
}

make_initramfs() { # FOLDER
    local root=$1/initramfs.d lib kernel
    lib=$1/unpacked
    [ -d "$lib/lib/modules" ] || lib=$lib/usr
    kernel=$(basename "$lib"/lib/modules/*)
    echo "$kernel" >"$1/version" || return
    mkdir -p "$root"/{bin,modules,proc,sys,dev,host,scratch,root} || return
    cp "$1/busybox-static" "$root/bin/busybox" && cp "$CI_DIR/vm/init" "$root/init" || return
    chmod 755 "$root/init" "$root/bin/busybox" || return
    PATH=$PATH:/usr/sbin:/sbin depmod -b "$lib" "$kernel" || return
    modules_of "$lib" "$kernel" "${VM_MODULES[@]}" >"$1/modules"
    if ! grep -q '/rdma_rxe\.ko' "$1/modules"; then
        say "kernel $kernel has no module rdma_rxe (Debian's cloud kernels have none, for instance)"
        return 1
    fi
    modules_of "$lib" "$kernel" "${VM_ENGINE_MODULES[@]}" | grep -vxFf "$1/modules" >"$1/engine-modules" || true
    unpack_modules "$root/modules" <"$1/modules" >"$root/modules/order" || return
    unpack_modules "$root/modules" <"$1/engine-modules" >"$root/modules/engine" || return
    modules_of "$lib" "$kernel" "${VM_SPARE_MODULES[@]}" | grep -vxFf "$1/modules" >"$1/spare-modules" || true
    mkdir -p "$root/spare/lib/modules/$kernel" || return
    unpack_modules "$root/spare/lib/modules/$kernel" <"$1/spare-modules" >/dev/null || return
    touch "$root/spare/lib/modules/$kernel"/modules.{order,builtin,builtin.modinfo} || return # depmod warns without
    PATH=$PATH:/usr/sbin:/sbin depmod -b "$root/spare" "$kernel" || return
    (cd "$root" && find . | "$1/busybox-static" cpio -o -H newc 2>/dev/null | gzip -1 >"$1/initramfs")
}

# Prints the files of modules, each after those it depends on.
modules_of() { # LIB KERNEL MODULE…
    local name
    for name in "${@:3}"; do
        PATH=$PATH:/usr/sbin:/sbin modprobe -d "$1" -S "$2" --show-depends "$name" 2>/dev/null || true
    done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }'
}

unpack_modules() { # TO, and their files on standard input; prints their names there
    local module name
    while read -r module; do
        name=$(basename "$module")
        case $name in
            *.xz) xz -dc "$module" >"$1/${name%.xz}" ;;
            *.zst) zstd -dcq "$module" >"$1/${name%.zst}" ;;
            *.gz) gzip -dc "$module" >"$1/${name%.gz}" ;;
            *) cp "$module" "$1/$name" ;;
        esac || return
        echo "${name%%.*}.ko"
    done
}

# Sets ACCELERATOR: kvm where it was seen to boot a guest, else tcg. /dev/kvm alone proves nothing: it can exist, accept a
# guest, and never run it.
find_accelerator() { # LOCK_DESCRIPTOR
    local verdict made lock=$1
    ACCELERATOR=tcg
    WHY_NO_KVM=$(why_kvm_cannot_be_tried)
    [ -z "$WHY_NO_KVM" ] || return 0
    verdict=$(kvm_verdict_file)
    if [ ! -e "$verdict" ]; then
        made=$(mktemp -p "$SCRATCH")
        say "trying out /dev/kvm (once, $KVM_PROBE_LIMIT s at most)"
        step probe_kvm {lock}>&- >"$made"
        mv "$made" "$verdict"
    fi
    WHY_NO_KVM=$(cat "$verdict")
    [ "$WHY_NO_KVM" != works ] || ACCELERATOR=kvm WHY_NO_KVM=''
}

uses_kvm() { [ "$ACCELERATOR" = kvm ]; }

why_kvm_cannot_be_tried() {
    if [ ! -e /dev/kvm ]; then
        echo "there is no /dev/kvm"
    elif [ ! -r /dev/kvm ] || [ ! -w /dev/kvm ]; then
        echo "/dev/kvm may not be used by $(id -un)"
    fi
}

# The answer holds until the machine boots anew or QEMU changes.
kvm_verdict_file() {
    echo "$CACHE/vm/kvm-$({ cat /proc/sys/kernel/random/boot_id; qemu-system-x86_64 --version; } | sha256sum | cut -c1-12)"
}

# Prints "works", or why not: boots the real kernel with an init that powers off at once, under a limit. A QEMU that hangs in the kernel
# may live on after KILL for some time, so nothing waits for it beyond the limit. It runs in a shell of its own, whose messages about a
# QEMU that aborts are discarded.
probe_kvm() {
    local console code=0
    console=$(mktemp -p "$SCRATCH")
    (
        timeout --foreground -k 2 "$KVM_PROBE_LIMIT" qemu-system-x86_64 -M q35 -accel kvm -cpu host -m 512M -kernel "$VM/kernel" \
            -initrd "$VM/initramfs" -append "console=ttyS0 panic=-1 quiet verbena.probe" -display none -nic none -no-reboot \
            -serial "file:$console" </dev/null
        exit
    ) >/dev/null 2>&1 || code=$?
    if [ "$code" = 0 ] && grep -q 'verbena: alive' "$console"; then
        echo works
    elif [ "$code" = 124 ] || [ "$code" = 137 ]; then
        echo "it booted no guest within $KVM_PROBE_LIMIT s"
    else
        echo "QEMU ended with exit code $code before a guest had booted"
    fi
    rm -f "$console"
}
