# shellcheck shell=bash
# Tests of what ci/roce does where something is missing: it says so in a sentence, and ends with exit code 69.
#
# Reads: BOX (run)
# Sets:  nothing
# For other files: nothing but tests

test_a_command_with_fresh_package_lists_runs_once_if_it_succeeds() {
    fake once <<'LINES'
echo call >>"$BOX/calls"
LINES
    with_lib <<<'with_fresh_lists once'
    exits_with 0
    [ "$(<"$BOX/calls")" = call ]
}

test_no_home() {
    unset HOME VERBENA_CACHE
    roce doctor
    says_nothing_of unbound
    roce help
    exits_with 0
}

test_no_folder_for_temporary_files() {
    export TMPDIR=$BOX/nowhere
    roce run -- true
    exits_with 69
    says "TMPDIR is $BOX/nowhere, and there is no such folder"
}

test_a_folder_for_temporary_files_that_cannot_be_written() {
    export TMPDIR=/proc
    roce run -- true
    exits_with 69
    says "the folder for temporary files, /proc, cannot be written to"
    says "point TMPDIR at another"
}

test_a_full_disk() {
    fake mktemp <<'LINES'
ln -s /dev/full "$BOX/full"
echo "$BOX/full"
LINES
    with_lib <<'LINES'
need_writable "$CACHE/vm" "the cache" "point VERBENA_CACHE at another folder"
LINES
    exits_with 69
    says "roce: the folder for temporary files, $BOX/tmp, cannot be written to (the disk is full): point TMPDIR at another"
}

test_a_cache_that_cannot_be_written() {
    fake_packages
    export VERBENA_CACHE=$BOX/checkout/pom.xml/cache
    roce run --on vm -- true
    exits_with 69
    says "roce: the cache, $VERBENA_CACHE/vm, cannot be written to (Not a directory): point VERBENA_CACHE at another folder"
}

test_a_cache_without_room() {
    fake_packages
    fake df <<'LINES'
printf "Filesystem 1048576-blocks Used Available Capacity Mounted on\n/dev/x 100 95 5 95%% /\n"
LINES
    roce run --on vm -- true
    exits_with 69
    says "the cache, $VERBENA_CACHE/vm, has 5 MiB of room"
}

test_a_folder_for_results_that_cannot_be_written() {
    fake_packages
    roce run --on vm --results "$BOX/checkout/pom.xml/results" -- true
    exits_with 69
    says "the folder for results, $BOX/checkout/pom.xml/results, cannot be written to (Not a directory): name another with --results"
}

test_a_checkout_that_cannot_be_written() {
    with_lib <<<'PROJECT=/proc build'
    exits_with 69
    says "this checkout, /proc, cannot be written to"
    with_lib <<'LINES'
PROJECT=/proc RESULTS=$TMPDIR run_tests
LINES
    exits_with 69
    says "this checkout, /proc, cannot be written to"
}

# As apt does it, an update that reached nothing succeeds unless an option says otherwise.
fake_no_network() {
    fake apt-get <<'LINES'
case "$*" in
    *update*)
        echo "E: Failed to fetch http://archive/InRelease  Temporary failure resolving archive" >&2
        [[ $* != *Error-Mode=any* ]] || exit 100
        ;;
    *)
        echo "E: Unable to locate package" >&2
        exit 100
        ;;
esac
LINES
}

test_no_network_and_no_jdk() {
    fake_packages
    fake_no_network
    fake apt-cache </dev/null
    unset JAVA_HOME
    hide javac
    with_lib <<<'JDK_PLACES=(); need_jdk'
    exits_with 69
    says "the package archives did not answer (Failed to fetch http://archive/InRelease  Temporary failure resolving archive)"
}

test_no_network_and_a_package_missing() {
    fake_packages qemu-system-x86
    fake_no_network
    roce run --on vm -- true
    exits_with 69
    says "package archives may be out of reach (is there a network?): Failed to fetch"
    says "the micro VM needs packages that could not be installed: apt-get install qemu-system-x86"
}

test_one_archive_of_several_is_silent() {
    fake_packages
    fake apt-get <<'LINES'
case "$*" in
    *update*)
        echo "E: Failed to fetch http://other/InRelease" >&2
        touch "$BOX/updated"
        exit 100
        ;;
    *install*) [ -e "$BOX/updated" ] ;;
esac
LINES
    with_lib <<<'install_packages maven'
    exits_with 0
    says "Failed to fetch http://other/InRelease"
}

test_another_apt_has_the_lists() {
    fake_packages
    fake apt-get <<'LINES'
case "$*" in
    *update*)
        echo x >>"$BOX/updates"
        [ "$(wc -l <"$BOX/updates")" -lt 3 ] || exit 0
        echo "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 1" >&2
        exit 100
        ;;
    *install*) [ "$(cat "$BOX/updates" 2>/dev/null | wc -l)" -ge 3 ] ;;
esac
LINES
    with_lib <<<'install_packages maven'
    exits_with 0
    says "another apt-get has the package lists"
}

test_another_apt_keeps_the_lists() {
    fake_packages
    fake apt-get <<'LINES'
echo "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 1" >&2
exit 100
LINES
    with_lib <<<'LISTS_LIMIT=1; install_packages maven'
    [ "$CODE" != 0 ]
    says "another apt-get has had the package lists for 1 s"
    says_nothing_of "out of reach"
}

test_a_jdk_that_is_too_old_is_named() {
    printf 'JAVA_VERSION="17.0.9"\n' >"$BOX/jdk/release"
    hide javac
    with_lib <<<'INSTALL=no; JDK_PLACES=(); need_jdk'
    exits_with 69
    says "(JDK 17 in $BOX/jdk is too old)"
}

test_a_jdk_that_is_incomplete_is_named() {
    : >"$BOX/jdk/release"
    hide javac
    with_lib <<<'INSTALL=no; JDK_PLACES=(); need_jdk'
    exits_with 69
    says "of the one in $BOX/jdk, the file \"release\" does not say which it is"
}

test_a_qemu_that_aborts_in_the_trial_of_kvm() {
    fake qemu-system-x86_64 <<'LINES'
kill -ABRT $$
LINES
    with_lib <<'LINES'
VM=$TMPDIR
probe_kvm
LINES
    exits_with 0
    prints "QEMU ended with exit code 134 before a guest had booted"
    [ ! -s "$BOX/err" ]
}

test_a_qemu_that_hangs_in_the_trial_of_kvm() {
    fake_endless qemu-system-x86_64
    with_lib <<'LINES'
VM=$TMPDIR KVM_PROBE_LIMIT=1
probe_kvm
LINES
    exits_with 0
    prints "it booted no guest within 1 s"
    [ ! -s "$BOX/err" ]
}

test_a_package_missing_with_no_install() {
    fake_packages qemu-system-x86
    fake apt-get <<'LINES'
touch "$BOX/called"
LINES
    roce run --on vm --no-install -- true
    exits_with 69
    says "the micro VM needs packages that --no-install says not to install: apt-get install qemu-system-x86"
    [ ! -e "$BOX/called" ]
}

test_no_apt() {
    hide apt-get
    fake uname <<'LINES'
[ "$1" = -m ] && echo x86_64 || echo 6.1.0
LINES
    roce run --on vm -- true
    exits_with 69
    says "the kernel is taken from a Debian or Ubuntu package, and there is no apt here"
}

test_another_processor_than_x86_64() {
    fake_packages
    fake uname <<<'echo aarch64'
    roce run --on vm -- true
    exits_with 69
    says "the micro VM is made for x86_64 only, this is aarch64"
}

test_a_kernel_without_rdma_rxe() {
    [ ! -e /sys/module/rdma_rxe ] || skip "rdma_rxe is loaded here"
    fake_packages
    roce run --on rxe -- true
    exits_with 69
    says "--on rxe cannot be had here: kernel $(uname -r) has no module rdma_rxe"
}

test_neither_root_nor_sudo() {
    fake id <<<'echo 1000'
    hide sudo
    with_lib <<<'as_root true || exit 69'
    exits_with 69
    says "this needs root, and there is no sudo here: true"
}

test_no_way_at_all_gives_every_reason() {
    if [ -e /sys/class/infiniband ] || [ -e /sys/module/rdma_rxe ]; then skip "this kernel has RDMA"; fi
    fake_packages
    fake uname <<<'echo riscv64'
    roce run -- true
    exits_with 69
    says "no way to RDMA devices here: host: no device with an active port in /sys/class/infiniband; rxe: "
    says "; vm: the micro VM is made for x86_64 only, this is riscv64"
}

test_no_container_engine_to_make_an_image_in() {
    fake docker <<<'exit 1'
    roce image
    exits_with 69
    says "no container engine answers (docker version)"
}

test_a_qemu_that_cannot_join_two_guests() {
    fake_vm
    fake qemu-system-x86_64 <<<'echo "QEMU emulator version 6.2.0"'
    roce pair -- true -- true
    exits_with 69
    says "two joined micro VMs need QEMU 7.2 or newer (-netdev stream), here is QEMU emulator version 6.2.0"
}

test_headers_of_other_releases_on_another_distribution() {
    [ "$(sed -n 's/^ID=//p' /etc/os-release)" != debian ] || hide apt-get
    with_lib <<<fetch_headers
    exits_with 69
    says "--headers takes packages of other Debian releases, which takes a Debian"
}

test_doctor_without_any_tool_changes_nothing() {
    hide apt-get mvn javac docker qemu-system-x86_64
    with_lib <<<'JDK_PLACES=(); doctor || true'
    exits_with 0
    grep -qF "unknown, there is no apt here" "$BOX/out"
    grep -qE '^Maven: +none$' "$BOX/out"
    [ ! -e "$VERBENA_CACHE" ]
}
