# shellcheck shell=bash
# Running the micro VM that vm.sh makes: what goes into a guest, its output, its end.
#
# Each guest has a name and a folder $RUN/NAME, which it sees as /run/verbena:
#   name, ci, results   what it is called, where it finds the folder ci and the results
#   command             the script it runs
#   terminal            rows and columns, if the command is to have the terminal
#   stdout, stderr      what the command prints; with a terminal, neither
#   exit                its exit code
#   counted             what QEMU's plugin writes, where PLUGIN names one
# vm/session reads and writes these, and a few more for a pair (pair.sh) and for an engine (engine.sh). The rest is QEMU's: its own messages, the guest's console,
# and two fifos for lines to the guest (control.in: a signal for the command) and from all of them ($RUN/events, see follow.sh).

VM_BOOT_LIMIT=180 # seconds; 6 to 10 are usual under software emulation, a busy two-core machine may need many more
VM_MEMORY=${VERBENA_VM_MEMORY:-4G}

GUESTS=() TAILS=()
# By guest: QEMU's process group, the descriptor of control.in, what each line of output begins with, whether it is ready, whether
# we ended it.
declare -A VM_GROUP=() TO_GUEST=() PREFIX=() UP=() KILLED=()

make_guest() { # GUEST COMMAND…
    local guest=$1 to
    shift
    GUESTS+=("$guest")
    mkdir "$RUN/$guest"
    mkfifo "$RUN/$guest/control.in"
    ln -s ../events "$RUN/$guest/control.out"
    exec {to}<>"$RUN/$guest/control.in" # open at both ends: a line to a guest that is no more must not wait for a reader
    TO_GUEST[$guest]=$to
    printf '%s\n' "$guest" >"$RUN/$guest/name"
    printf '%s\n' "$CI_DIR" >"$RUN/$guest/ci"
    printf '%s\n' "$RESULTS" >"$RUN/$guest/results"
    write_guest_command "$@" >"$RUN/$guest/command"
    : >"$RUN/$guest/console"
}

# What the guest is to do, as a script it runs: this folder, this environment, that command.
write_guest_command() { # COMMAND…
    export -p | grep -vE '^declare -x (BASH[A-Z_]*|SHLVL|PWD|OLDPWD|_)(=|$)'
    printf 'export PATH=%q\n' "$PATH:/usr/local/sbin:/usr/sbin:/sbin"
    printf 'cd %q || exit 126\nexec' "$PWD"
    printf ' %q' "$@"
    printf '\n'
}

# One emulated processor, unless more are asked for. A kernel writes over its own code at run time (jump labels, while containers come up
# for instance), and so does a JVM. With two processors QEMU 7.2 let the other one go on in the middle of what was being written: a panic
# with its RIP one byte into a patched no-op, both spinning for ever, JVMs with SIGILL; in about one run of ten.
processors_of_vm() {
    local most
    most=$(($(nproc) < 8 ? $(nproc) : 8))
    if [ -n "${VERBENA_VM_PROCESSORS-}" ]; then
        echo "$VERBENA_VM_PROCESSORS"
    elif [ "$ACCELERATOR" = kvm ]; then
        echo "$most"
    else
        echo 1
    fi
}

# Starts the guest: FRONT is where the command's terminal goes (stdio) or empty.
qemu() { # GUEST FRONT
    local run=$RUN/$1
    local machine=(-M q35 -accel "tcg,thread=multi,tb-size=512" -cpu max)
    [ "$ACCELERATOR" = tcg ] || machine=(-M q35 -accel kvm -cpu host)
    local front=()
    [ -z "$2" ] || front=(-chardev "stdio,id=terminal,signal=off" -device "virtconsole,chardev=terminal")
    share() { # TAG PATH [OPTIONS]
        printf '%s\n' -fsdev "local,id=$1,path=${2//,/,,},security_model=none,multidevs=remap${3-}" \
            -device "virtio-9p-pci,fsdev=$1,mount_tag=$1"
    }
    local shares more=() words=''
    [ ! -e "$run/cable" ] || mapfile -t more < <(cable_of "$1")
    if [ -e "$run/engine" ]; then
        mapfile -t more < <(engine_of "$1")
        words=' verbena.engine'
    fi
    if [ -n "${PLUGIN-}" ] && [ "$ACCELERATOR" = tcg ]; then more+=(-plugin "file=${PLUGIN//,/,,},to=${run//,/,,}/counted"); fi
    mapfile -t shares < <(share host / ,readonly=on; share run "$run"; share results "$RESULTS")
    # tsc=reliable: under emulation Linux mistrusts the processor's counter and takes hpet, where each look at the clock leaves the
    # emulator's loop (2 us; a round trip of 64 bytes took 90 us instead of 40).
    qemu-system-x86_64 "${machine[@]}" -m "$VM_MEMORY" -smp "$(processors_of_vm)" -kernel "$VM/kernel" -initrd "$VM/initramfs" \
        -append "console=ttyS0 panic=-1 oops=panic quiet mitigations=off tsc=reliable$words" \
        -display none -nic none -no-reboot -serial "file:$run/console" -device virtio-rng-pci -device virtio-serial-pci \
        "${front[@]}" -chardev "pipe,id=control,path=$run/control" \
        -device virtserialport,chardev=control,name=verbena.control "${more[@]}" "${shares[@]}"
}

run_in_vm() { # COMMAND…
    make_guest vm "$@"
    boot_guest vm
    follow_guests
}

# Its output and its end go their ways from then on.
boot_guest() { # GUEST
    local run=$RUN/$1
    : >"$run/stdout"
    : >"$run/stderr"
    set -m # process groups of their own: Ctrl-C is for this script, which passes it to the command in the guest
    {
        qemu "$1" '' </dev/null >"$run/qemu" 2>&1 || true # its death is told by the next line, and so must not end this
        echo "gone $1" >"$RUN/events"
    } &
    VM_GROUP[$1]=$!
    pass_on "$1" stdout 2>/dev/null &
    TAILS+=($!)
    pass_on "$1" stderr >&2 2>/dev/null &
    TAILS+=($!)
    [ "$VERBOSE" = no ] || { tail -s 0.1 --pid="${VM_GROUP[$1]}" -n +1 -f "$run/console" >&2 & }
    set +m
    at_exit kill_vm "$1"
}

# Ends with the VM, or before it when nobody reads what it prints.
pass_on() { # GUEST FILE
    local file=$RUN/$1/$2 prefix=${PREFIX[$1]-}
    local follow=(tail -s 0.1 --pid="${VM_GROUP[$1]}" -n +1 -f "$file")
    if [ -z "$prefix" ]; then
        "${follow[@]}" || true
    else # a last line without an end is given one: the other guest's next line would continue it
        { "${follow[@]}" && { [ -z "$(tail -c 1 "$file" | tr -d '\0')" ] || echo; }; } | sed -u "s/^/$prefix/" || true
    fi
    echo unheard >"$RUN/events"
}

# To the end of the command and of the guests; returns the command's exit code.
follow_guests() {
    # shellcheck disable=SC2317 # follow calls it
    deliver_to_command() {
        local guest
        for guest in "${GUESTS[@]}"; do
            if [ "$1" = KILL ]; then kill_vm "$guest"; else tell_guest "$guest" "$1"; fi
        done
    }
    local guest dead=() code=0
    follow "$VM_BOOT_LIMIT" || code=$?
    if [ "$code" = 70 ]; then mapfile -t dead < <(dead_guests); fi
    [ ${#dead[@]} = 0 ] || deliver_to_command KILL
    wait_for_power_off
    wait "${TAILS[@]}" 2>/dev/null || true
    for guest in "${dead[@]}"; do explain_dead_guest "$guest"; done
    return "$code"
}

tell_guest() { # GUEST LINE
    echo "$2" >&"${TO_GUEST[$1]}"
}

wait_for_power_off() {
    # shellcheck disable=SC2034 # next_event sets them
    local guest event who value
    for guest in "${GUESTS[@]}"; do tell_guest "$guest" off; done # a single one does so unasked, a pair's waits for it
    DEADLINE=$((SECONDS + GRACE))
    while [ ${#GONE[@]} -lt ${#GUESTS[@]} ] && [ "$SECONDS" -lt "$DEADLINE" ]; do
        next_event
    done
    for guest in "${GUESTS[@]}"; do kill_vm "$guest"; done
}

kill_vm() { # GUEST
    if kill -s KILL -- "-${VM_GROUP[$1]}" 2>/dev/null; then
        KILLED[$1]=yes
        { wait "${VM_GROUP[$1]}" || true; } 2>/dev/null # bash would remark on a job that was killed
        echo "gone $1" >"$RUN/events"
    fi
}

# Prints which ended by themselves, or else did not come up in time.
dead_guests() {
    local guest dead=()
    for guest in "${GUESTS[@]}"; do
        if [ -n "${GONE[$guest]-}" ] && [ -z "${KILLED[$guest]-}" ]; then dead+=("$guest"); fi
    done
    if [ ${#dead[@]} = 0 ] && [ "$PHASE" = boot ]; then
        for guest in "${GUESTS[@]}"; do
            [ -n "${UP[$guest]-}" ] || dead+=("$guest")
        done
    fi
    [ ${#dead[@]} = 0 ] || printf '%s\n' "${dead[@]}"
}

explain_dead_guest() { # GUEST
    local run=$RUN/$1 guest=guest vm='the micro VM'
    [ "$1" = vm ] || guest=$1 vm="the $1's micro VM"
    say "the end of the $guest's console:"
    if [ -s "$run/console" ]; then tail -n 40 "$run/console" | tr -d '\r' >&2; else echo "(it printed nothing)" >&2; fi
    sed 's/^/qemu: /' "$run/qemu" >&2
    if grep -aq 'Kernel panic' "$run/console"; then
        say "the $guest's kernel panicked (see above)"
    elif [ "$PHASE" = boot ] && [ -z "${UP[$1]-}" ]; then
        say "$vm did not come up (its console is above)"
    else
        say "$vm ended before the command did (its console is above)"
    fi
}

# The same on the terminal. QEMU has to be in the foreground to read it, so the boot limit is watched from the background.
interactive_in_vm() { # COMMAND…
    local settings code PHASE=running
    make_guest vm "$@"
    stty size >"$RUN/vm/terminal"
    settings=$(stty -g)
    at_exit stty "$settings"
    say "booting; the shell's files live in memory, only those in $RESULTS stay"
    (
        trap '' INT
        read -r -t "$VM_BOOT_LIMIT" _ <"$RUN/events" || pkill -KILL -f "path=$RUN/vm/control" || true
    ) &
    stty raw -echo
    qemu vm stdio 2>"$RUN/vm/qemu" || true
    stty "$settings"
    read -r code 2>/dev/null <"$RUN/vm/exit" || code=70
    [ "$code" != 70 ] || explain_dead_guest vm
    return "$code"
}
