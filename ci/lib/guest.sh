# shellcheck shell=bash
# Runs the micro VM that vm.sh makes: what goes into a guest, its output, its end.
#
# Each guest has a name and a folder $RUN/NAME, which it sees as /run/verbena:
#   name, ci, results   what it is called, where it finds the folder ci and the results
#   command             the script it runs
#   terminal            rows and columns, if the command is to have the terminal
#   stdout, stderr      what the command prints; with a terminal, neither
#   exit                its exit code
#   counted             what QEMU's plugin writes, where PLUGIN names one
#   pid                 QEMU's process id
# vm/session reads and writes these, and a few more for a pair (pair.sh) and for an engine (engine.sh). The rest is QEMU's: its own
# messages, the guest's console, and two fifos, one for lines to the guest (control.in: a signal for the command) and one for lines
# from all guests ($RUN/events, see follow.sh).
#
# Reads: CI_DIR, RESULTS, VERBOSE (roce), GRACE (signals.sh), VM, ACCELERATOR (vm.sh), RUN, PHASE, DEADLINE (follow.sh),
#        PLUGIN (bench.sh), VERBENA_VM_MEMORY, VERBENA_VM_PROCESSORS and the environment, which the command gets
# Sets:  GUESTS             the names of the guests
#        TAILS              the processes that pass on their output
#        VM_GROUP           by guest: the process group of QEMU
#        TO_GUEST           by guest: the descriptor of control.in
#        UP                 by guest: that it is ready
#        KILLED             by guest: that this script ended it
# For other files: run_in_vm, interactive_in_vm, make_guest, boot_guest, follow_guests, send_to_guest, signal_guests, kill_vm, mark_up,
#        show_end_of_console

VM_BOOT_LIMIT=180 # seconds; 6 to 10 are usual under software emulation, a busy two-core machine may need many more
VM_MEMORY=4G      # as far as touched; VERBENA_VM_MEMORY goes first

GUESTS=() TAILS=()
declare -A VM_GROUP=() TO_GUEST=() UP=() KILLED=()

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
    elif uses_kvm; then
        echo "$most"
    else
        echo 1
    fi
}

# Prints QEMU's options for a folder that the guest sees.
options_of_share() { # TAG PATH [OPTIONS]
    printf '%s\n' -fsdev "local,id=$1,path=${2//,/,,},security_model=none,multidevs=remap${3-}" \
        -device "virtio-9p-pci,fsdev=$1,mount_tag=$1"
}

# Runs QEMU: FRONT is where the command's terminal goes (stdio) or empty.
qemu() { # GUEST MEMORY FRONT
    local run=$RUN/$1
    local machine=(-M q35 -accel "tcg,thread=multi,tb-size=512" -cpu max)
    ! uses_kvm || machine=(-M q35 -accel kvm -cpu host)
    local front=()
    [ -z "$3" ] || front=(-chardev "stdio,id=terminal,signal=off" -device "virtconsole,chardev=terminal")
    local shares more=() words=''
    [ ! -e "$run/cable" ] || mapfile -t more < <(options_of_cable "$1")
    if [ -e "$run/engine" ]; then
        mapfile -t more < <(options_of_engine "$1")
        words=' verbena.engine'
    fi
    if [ -n "${PLUGIN-}" ] && ! uses_kvm; then more+=(-plugin "file=${PLUGIN//,/,,},to=${run//,/,,}/counted"); fi
    mapfile -t shares < <(
        options_of_share host / ,readonly=on
        options_of_share run "$run"
        options_of_share results "$RESULTS"
    )
    # tsc=reliable: under emulation Linux mistrusts the processor's counter and takes hpet, where each look at the clock leaves the
    # emulator's loop (2 us; a round trip of 64 bytes took 90 us instead of 40). no_timer_check: on a machine with much else to do Linux
    # saw too few ticks of the emulated timer in the moment that it looks at, and panicked (IO-APIC + timer doesn't work).
    qemu-system-x86_64 "${machine[@]}" -m "${VERBENA_VM_MEMORY:-$2}" -smp "$(processors_of_vm)" -kernel "$VM/kernel" -initrd "$VM/initramfs" \
        -append "console=ttyS0 panic=-1 oops=panic quiet mitigations=off tsc=reliable no_timer_check$words" \
        -display none -nic none -no-reboot -pidfile "$run/pid" -serial "file:$run/console" -device virtio-rng-pci -device virtio-serial-pci \
        "${front[@]}" -chardev "pipe,id=control,path=$run/control" \
        -device virtserialport,chardev=control,name=verbena.control "${more[@]}" "${shares[@]}"
}

run_in_vm() { # COMMAND…
    make_guest vm "$@"
    boot_guest vm "$VM_MEMORY"
    follow_guests command
}

# Starts a guest in the background. From then on its output is passed on, each line behind PREFIX, and its end is an event.
boot_guest() { # GUEST MEMORY [PREFIX]
    local run=$RUN/$1
    : >"$run/stdout"
    : >"$run/stderr"
    set -m # process groups of their own: Ctrl-C is for this script, which passes it to the command in the guest
    {
        qemu "$1" "$2" '' </dev/null >"$run/qemu" 2>&1 || true # the next line reports its death
        echo "gone $1" >"$RUN/events"
    } &
    VM_GROUP[$1]=$!
    pass_on "$1" stdout "${3-}" 2>/dev/null &
    TAILS+=($!)
    pass_on "$1" stderr "${3-}" >&2 2>/dev/null &
    TAILS+=($!)
    [ "$VERBOSE" = no ] || { tail -s 0.1 --pid="${VM_GROUP[$1]}" -n +1 -f "$run/console" >&2 & }
    set +m
    at_exit kill_vm "$1"
}

# Ends with the VM, or before it when nobody reads what it prints.
pass_on() { # GUEST FILE PREFIX
    local file=$RUN/$1/$2 prefix=$3
    local follow=(tail -s 0.1 --pid="${VM_GROUP[$1]}" -n +1 -f "$file")
    if [ -z "$prefix" ]; then
        "${follow[@]}" || true
    else # a last line without an end is given one: the other guest's next line would continue it
        { "${follow[@]}" && { [ -z "$(tail -c 1 "$file" | tr -d '\0')" ] || echo; }; } | sed -u "s/^/$prefix/" || true
    fi
    echo unread >"$RUN/events"
}

# Waits for the end of the command and of the guests; returns the command's exit code.
follow_guests() { # command|pair|engine
    local guest dead=() code=0
    follow "$1" "$VM_BOOT_LIMIT" || code=$?
    if [ "$code" = 70 ]; then mapfile -t dead < <(dead_guests); fi
    [ ${#dead[@]} = 0 ] || deliver_to_command KILL
    wait_for_power_off
    wait "${TAILS[@]}" 2>/dev/null || true
    for guest in "${dead[@]}"; do explain_dead_guest "$guest"; done
    return "$code"
}

send_to_guest() { # GUEST LINE
    echo "$2" >&"${TO_GUEST[$1]}"
}

# To the commands in all guests; KILL ends the VMs.
signal_guests() { # SIGNAL
    local guest
    for guest in "${GUESTS[@]}"; do
        if [ "$1" = KILL ]; then kill_vm "$guest"; else send_to_guest "$guest" "$1"; fi
    done
}

mark_up() { # GUEST
    UP[$1]=yes
}

wait_for_power_off() {
    local guest
    for guest in "${GUESTS[@]}"; do send_to_guest "$guest" off; done # a single one does so unasked, a pair's waits for it
    enter_phase "$PHASE" "$GRACE"
    until guests_are_gone || [ "$SECONDS" -ge "$DEADLINE" ]; do next_event; done
    for guest in "${GUESTS[@]}"; do kill_vm "$guest"; done
}

guests_are_gone() {
    local guest
    for guest in "${GUESTS[@]}"; do is_gone "$guest" || return; done
}

kill_vm() { # GUEST
    if kill -s 0 -- "-${VM_GROUP[$1]}" 2>/dev/null; then
        KILLED[$1]=yes
        echo "gone $1" >"$RUN/events" # before "unread", which its end brings about
        kill -s KILL -- "-${VM_GROUP[$1]}" 2>/dev/null || true
        { wait "${VM_GROUP[$1]}" || true; } 2>/dev/null # bash would remark on a job that was killed
        await_end_of_group "${VM_GROUP[$1]}" || true
    fi
}

# Prints which ended by themselves, or else did not come up in time.
dead_guests() {
    local guest dead=()
    for guest in "${GUESTS[@]}"; do
        if is_gone "$guest" && [ -z "${KILLED[$guest]-}" ]; then dead+=("$guest"); fi
    done
    if [ ${#dead[@]} = 0 ] && [ "$PHASE" = boot ]; then
        for guest in "${GUESTS[@]}"; do
            [ -n "${UP[$guest]-}" ] || dead+=("$guest")
        done
    fi
    [ ${#dead[@]} = 0 ] || printf '%s\n' "${dead[@]}"
}

show_end_of_console() { # GUEST WHAT_IT_IS
    say "the end of the $2's console:"
    if [ -s "$RUN/$1/console" ]; then tail -n 40 "$RUN/$1/console" | tr -d '\r' >&2; else echo "(it printed nothing)" >&2; fi
}

explain_dead_guest() { # GUEST
    local run=$RUN/$1 guest=guest vm='the micro VM'
    [ "$1" = vm ] || guest=$1 vm="the $1's micro VM"
    show_end_of_console "$1" "$guest"
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
        read -r -t "$VM_BOOT_LIMIT" _ <"$RUN/events" || kill -s KILL "$(cat "$RUN/vm/pid")" || true
    ) &
    stty raw -echo
    qemu vm "$VM_MEMORY" stdio 2>"$RUN/vm/qemu" || true
    stty "$settings"
    read -r code 2>/dev/null <"$RUN/vm/exit" || code=70
    [ "$code" != 70 ] || explain_dead_guest vm
    return "$code"
}
