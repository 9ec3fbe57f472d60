# shellcheck shell=bash
# Running the micro VM that vm.sh makes: what goes into a guest, its output, its end.

VM_BOOT_LIMIT=180 # seconds; 6 to 10 are usual under software emulation, a busy two-core machine may need many more
VM_MEMORY=${VERBENA_VM_MEMORY:-4G}

# Starts the guest: FRONT is where the command's terminal goes (stdio) or empty.
qemu() { # FRONT
    local machine=(-M q35 -accel "tcg,thread=multi,tb-size=512" -cpu max)
    [ "$ACCELERATOR" = tcg ] || machine=(-M q35 -accel kvm -cpu host)
    local front=()
    [ -z "$1" ] || front=(-chardev "stdio,id=terminal,signal=off" -device "virtconsole,chardev=terminal")
    share() { # TAG PATH [OPTIONS]
        printf '%s\n' -fsdev "local,id=$1,path=${2//,/,,},security_model=none,multidevs=remap${3-}" \
            -device "virtio-9p-pci,fsdev=$1,mount_tag=$1"
    }
    local shares
    mapfile -t shares < <(share host / ,readonly=on; share run "$RUN"; share results "$RESULTS")
    qemu-system-x86_64 "${machine[@]}" -m "$VM_MEMORY" -smp "$(($(nproc) < 8 ? $(nproc) : 8))" -kernel "$VM/kernel" -initrd "$VM/initramfs" \
        -append "console=ttyS0 panic=-1 oops=panic quiet mitigations=off" \
        -display none -nic none -no-reboot -serial "file:$RUN/console" -device virtio-rng-pci -device virtio-serial-pci \
        "${front[@]}" -chardev "pipe,id=control,path=$RUN/control" \
        -device virtserialport,chardev=control,name=verbena.control "${shares[@]}"
}

# What the guest is to do, as a script it runs: this folder, this environment, that command.
write_guest_command() { # COMMAND…
    {
        export -p | grep -vE '^declare -x (BASH[A-Z_]*|SHLVL|PWD|OLDPWD|_)(=|$)'
        printf 'export PATH=%q\n' "$PATH:/usr/local/sbin:/usr/sbin:/sbin"
        printf 'cd %q || exit 126\nexec' "$PWD"
        printf ' %q' "$@"
        printf '\n'
    } >"$RUN/command"
    printf '%s\n' "$RESULTS" >"$RUN/results"
    printf '%s\n' "$CI_DIR" >"$RUN/ci"
}

run_in_vm() { # COMMAND…
    write_guest_command "$@"
    : >"$RUN/console"
    : >"$RUN/stdout"
    : >"$RUN/stderr"
    set -m # process groups of their own: Ctrl-C is for this script, which passes it to the command in the guest
    {
        qemu '' </dev/null >"$RUN/qemu" 2>&1
        echo gone >"$RUN/control.out"
    } &
    VM_GROUP=$!
    local tails=()
    pass_on "$RUN/stdout" 2>/dev/null &
    tails+=($!)
    pass_on "$RUN/stderr" >&2 2>/dev/null &
    tails+=($!)
    [ "$VERBOSE" = no ] || { tail -s 0.1 --pid="$VM_GROUP" -n +1 -f "$RUN/console" >&2 & }
    set +m
    at_exit kill_vm
    # shellcheck disable=SC2317 # follow calls it
    deliver_to_command() {
        if [ "$1" = KILL ]; then kill_vm; else echo "$1" >"$RUN/control.in"; fi
    }
    local code=0
    follow "$VM_BOOT_LIMIT" || code=$?
    wait_for_power_off
    wait "${tails[@]}" 2>/dev/null || true
    [ "$code" != 70 ] || explain_dead_vm
    return "$code"
}

# Ends with the VM, or before it when nobody reads what it prints.
pass_on() { # FILE
    tail -s 0.1 --pid="$VM_GROUP" -n +1 -f "$1" || true
    echo unheard >"$RUN/control.out"
}

wait_for_power_off() {
    local event=$FOLLOWED_TO
    DEADLINE=$((SECONDS + GRACE))
    while [ "$event" != gone ] && [ "$SECONDS" -lt "$DEADLINE" ]; do
        next_event
    done
    kill_vm
    { wait "$VM_GROUP" || true; } 2>/dev/null # bash would remark on a job that was killed
}

kill_vm() {
    if kill -s KILL -- "-$VM_GROUP" 2>/dev/null; then echo gone >"$RUN/control.out"; fi
}

explain_dead_vm() {
    say "the end of the guest's console:"
    if [ -s "$RUN/console" ]; then tail -n 40 "$RUN/console" | tr -d '\r' >&2; else echo "(it printed nothing)" >&2; fi
    sed 's/^/qemu: /' "$RUN/qemu" >&2
    if grep -aq 'Kernel panic' "$RUN/console"; then
        say "the guest's kernel panicked (see above)"
    elif [ "$PHASE" = boot ]; then
        say "the micro VM did not come up (its console is above)"
    else
        say "the micro VM ended before the command did (its console is above)"
    fi
}

# The same on the terminal. QEMU has to be in the foreground to read it, so the boot limit is watched from the background.
interactive_in_vm() { # COMMAND…
    local settings code PHASE=running
    write_guest_command "$@"
    stty size >"$RUN/terminal"
    settings=$(stty -g)
    : >"$RUN/console"
    at_exit stty "$settings"
    say "booting; the shell's files live in memory, only those in $RESULTS stay"
    (
        trap '' INT
        read -r -t "$VM_BOOT_LIMIT" _ <"$RUN/control.out" || pkill -KILL -f "path=$RUN/control" || true
    ) &
    stty raw -echo
    qemu stdio 2>"$RUN/qemu" || true
    stty "$settings"
    read -r code 2>/dev/null <"$RUN/exit" || code=70
    [ "$code" != 70 ] || explain_dead_vm
    return "$code"
}
