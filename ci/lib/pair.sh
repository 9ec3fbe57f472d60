# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # variables of ci/roce, guest.sh and follow.sh are set here and read there, and the reverse
# Two micro VMs on one cable: a server in the one, a client in the other, each with one Soft-RoCE device.
#
# The guests of a pair have more in their folders than a single one:
#   cable    which end of the cable this is: 1 (server) or 2 (client)
#   netem    what tc is to do to that end, if anything
#   tc       what tc said when it refused that
# and their sessions say more (see follow.sh):
#   up WHO           ready; its command starts with the line "start", or never
#   refused WHO      tc did not take the netem arguments
#   listening WHO    somebody in there waits for connections
#   deaf WHO         nobody did so in all the time that the session looked
# Both stay until told "off", command ended or not: the kernel of each still has to answer the other's last packets.

PAIR_MEMORY=2G # each; what a guest never touches is never taken from this machine

CLIENT_STARTED=no
declare -A CODES=() # by guest: the exit code of its command, once it has ended

# Before 7.2 two QEMUs could only be joined by a TCP port, open to everybody on this machine.
why_no_pair() {
    qemu-system-x86_64 -netdev help 2>/dev/null | grep -x stream >/dev/null ||
        echo "two joined micro VMs need QEMU 7.2 or newer (-netdev stream), here is $(qemu-system-x86_64 --version | head -n 1)"
}

run_pair() { # NUMBER_OF_SERVER_WORDS SERVER_CMD… CLIENT_CMD…
    local why
    ON=vm
    VM_MEMORY=${VERBENA_VM_MEMORY:-$PAIR_MEMORY}
    make_run_folder
    prepare_way
    why=$(why_no_pair)
    [ -z "$why" ] || fail 69 "$why"
    make_guest_of_pair server 1 2 "${@:2:$1}"
    make_guest_of_pair client 2 1 "${@:2+$1}"
    boot_guest server
    boot_guest client
    # shellcheck disable=SC2317 # follow calls it
    retell_event() {
        case $event in up | started | refused | listening | deaf | ended | gone) "pair_$event" ;; esac
    }
    follow_guests
}

make_guest_of_pair() { # GUEST END OTHER_END COMMAND…
    local -x VERBENA_RESULTS=$RESULTS/$1 VERBENA_DEVICES=roce0
    local -x VERBENA_ADDRESS=${ROCE_ADDRESSES[$2 - 1]} VERBENA_PEER=${ROCE_ADDRESSES[$3 - 1]}
    mkdir -p "$VERBENA_RESULTS"
    make_guest "$1" "${@:4}"
    PREFIX[$1]="$1: "
    echo "$2" >"$RUN/$1/cable"
    [ -z "$NETEM" ] || echo "${NETEM//$'\n'/ }" >"$RUN/$1/netem"
}

# Prints QEMU's options for a guest's end of the cable. The client's QEMU tries to connect only once, so it comes second.
cable_of() { # GUEST
    local end server=on
    read -r end <"$RUN/$1/cable"
    if [ "$end" = 2 ]; then
        server=off
        until [ -S "$RUN/cable.socket" ]; do sleep 0.05; done
    fi
    printf '%s\n' -netdev "stream,id=cable,server=$server,addr.type=unix,addr.path=${RUN//,/,,}/cable.socket" \
        -device "virtio-net-pci,netdev=cable,mac=52:54:00:00:00:0$end,romfile="
}

# What the events of two guests mean for the whole: each may turn event and value into those of a single command.

pair_up() {
    UP["$who"]=yes
    if [ ${#UP[@]} = 2 ]; then tell_guest server start; fi
}

pair_started() {
    [ "$who" = server ] || event=noted
}

pair_refused() {
    say "--netem '$NETEM' was refused: $(cat "$RUN/$who/tc")"
    event=ended value=64
}

pair_listening() {
    CLIENT_STARTED=yes
    tell_guest client start
}

pair_deaf() {
    say "the server listens nowhere so far: starting the client all the same"
    pair_listening
}

pair_ended() {
    event=noted
    CODES[$who]=$value
    "pair_ended_$who"
    [ ${#CODES[@]} -lt 2 ] || both_ended
}

pair_ended_server() {
    if [ "$CLIENT_STARTED" = no ] && [ -z "$INTERRUPTED" ] && [ "$PHASE" = running ]; then
        say "the server ended with exit code $value before it listened: the client was not started"
        event=ended
        [ "$value" != 0 ] || value=1
    elif [ "$value" != 0 ] && [ -z "${CODES[client]-}" ] && [ "$PHASE" = running ]; then
        say "the server ended with exit code $value, the client goes on"
    fi
}

pair_ended_client() {
    [ "$PHASE" = running ] || return 0
    PHASE=grace DEADLINE=$((SECONDS + GRACE))
}

both_ended() {
    event=ended value=${CODES[client]}
    if [ "$value" = 0 ] && [ "$PHASE" != asked ]; then value=${CODES[server]}; fi
}

# A server that heeds nothing is ended with its VM, and that VM is then no dead one.
pair_gone() {
    if [ "$PHASE" = asked ] && [ -z "$INTERRUPTED" ] && [ "$who" = server ]; then
        event=ended value=${CODES[client]}
    fi
}

deadline_in_grace() {
    say "the server did not end within $GRACE s of the client's end: ending it"
    PHASE=asked DEADLINE=$((SECONDS + GRACE))
    tell_guest server TERM
}

deadline_in_asked() {
    say "the server did not end when asked to: ending its VM"
    DEADLINE=''
    kill_vm server
}
