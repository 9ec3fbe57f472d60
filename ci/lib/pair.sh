# shellcheck shell=bash
# Two micro VMs on one cable: a server in the one, a client in the other, each with one Soft-RoCE device.
#
# The guests of a pair have more in their folders than a single one:
#   cable    which end of the cable this is: 1 (server) or 2 (client)
#   netem    what tc is to do to that end, if anything
#   tc       what tc said when it refused that
# and their sessions report more events (see follow.sh):
#   up WHO               ready; its command starts when the line "start" comes, or never
#   refused WHO          tc did not take the netem arguments
#   listening WHO        a process in the guest waits for connections
#   not-listening WHO    none did so until the session stopped looking
# Both guests stay until the line "off" comes, command ended or not: the kernel of each still has to answer the other's last packets.
#
# Reads: RESULTS, NETEM, SERVER_DIES (roce), ROCE_ADDRESSES (devices.sh), RUN, WHO, PHASE, INTERRUPTED (follow.sh), UP (guest.sh), GRACE (signals.sh)
# Sets:  EVENT, VALUE       (follow.sh) those of the pair as a whole instead of a guest's
#        CLIENT_STARTED     yes or no
#        CODES              by guest: the exit code of its command, once it has ended
# For other files: run_pair; pair_event, ask_server_to_end, end_vm_of_server (follow.sh); options_of_cable (guest.sh)

PAIR_MEMORY=2G # each, as far as touched

CLIENT_STARTED=no
declare -A CODES=()

# Before 7.2 two QEMUs could only be joined by a TCP port, open to everybody on this machine.
why_no_pair() {
    qemu-system-x86_64 -netdev help 2>/dev/null | grep -x stream >/dev/null ||
        echo "two joined micro VMs need QEMU 7.2 or newer (-netdev stream), here is $(qemu-system-x86_64 --version | head -n 1)"
}

run_pair() { # NUMBER_OF_SERVER_WORDS SERVER_CMD… CLIENT_CMD…
    local why
    make_run_folder
    prepare_way vm
    why=$(why_no_pair)
    [ -z "$why" ] || fail 69 "$why"
    make_guest_of_pair server 1 2 "${@:2:$1}"
    make_guest_of_pair client 2 1 "${@:2+$1}"
    boot_guest server "$PAIR_MEMORY" 'server: '
    boot_guest client "$PAIR_MEMORY" 'client: '
    follow_guests pair
}

make_guest_of_pair() { # GUEST END OTHER_END COMMAND…
    local -x VERBENA_RESULTS=$RESULTS/$1 VERBENA_DEVICES=roce0
    local -x VERBENA_ADDRESS=${ROCE_ADDRESSES[$2 - 1]} VERBENA_PEER=${ROCE_ADDRESSES[$3 - 1]}
    mkdir -p "$VERBENA_RESULTS"
    make_guest "$1" "${@:4}"
    echo "$2" >"$RUN/$1/cable"
    [ -z "$NETEM" ] || echo "${NETEM//$'\n'/ }" >"$RUN/$1/netem"
}

# Prints QEMU's options for a guest's end of the cable. The client's QEMU tries to connect only once, so it comes second.
options_of_cable() { # GUEST
    local end server=on
    read -r end <"$RUN/$1/cable"
    if [ "$end" = 2 ]; then
        server=off
        until [ -e "$RUN/cable.socket" ]; do sleep 0.05; done
    fi
    printf '%s\n' -netdev "stream,id=cable,server=$server,addr.type=unix,addr.path=${RUN//,/,,}/cable.socket" \
        -device "virtio-net-pci,netdev=cable,mac=52:54:00:00:00:0$end,romfile="
}

# Turns an event of one guest into one of the pair as a whole.
pair_event() {
    case $EVENT in
        up)
            mark_up "$WHO"
            if [ ${#UP[@]} = 2 ]; then send_to_guest server start; fi
            ;;
        started) [ "$WHO" = server ] || EVENT=noted ;;
        refused)
            say "--netem '$NETEM' was refused: $(cat "$RUN/$WHO/tc")"
            EVENT=ended VALUE=64
            ;;
        listening) start_client ;;
        not-listening)
            say "the server listens nowhere so far: starting the client all the same"
            start_client
            ;;
        ended)
            EVENT=noted
            CODES[$WHO]=$VALUE
            case $WHO in
                server) server_ended ;;
                client) client_ended ;;
            esac
            [ ${#CODES[@]} -lt 2 ] || both_ended
            ;;
        gone)
            # The VM of a server that ignored TERM was ended on purpose (end_vm_of_server): it did not die.
            if [ "$PHASE" = server-asked ] && [ -z "$INTERRUPTED" ] && [ "$WHO" = server ]; then
                EVENT=ended VALUE=${CODES[client]}
            elif [ "$SERVER_DIES" = yes ] && [ "$CLIENT_STARTED" = yes ] && [ "$WHO" = server ]; then
                say "the server's VM has ended, the client goes on"
                EVENT=noted CODES[server]=0
                [ -z "${CODES[client]-}" ] || both_ended
            fi
            ;;
        # What passes on the output of a VM ends with it.
        unread) ! { [ "$SERVER_DIES" = yes ] && is_gone server; } || EVENT=noted ;;
    esac
}

start_client() {
    CLIENT_STARTED=yes
    send_to_guest client start
}

server_ended() {
    if [ "$CLIENT_STARTED" = no ] && [ -z "$INTERRUPTED" ] && [ "$PHASE" = running ]; then
        say "the server ended with exit code $VALUE before it listened: the client was not started"
        EVENT=ended
        [ "$VALUE" != 0 ] || VALUE=1
    elif [ "$VALUE" != 0 ] && [ -z "${CODES[client]-}" ] && [ "$PHASE" = running ]; then
        say "the server ended with exit code $VALUE, the client goes on"
    fi
}

client_ended() {
    [ "$PHASE" != running ] || enter_phase client-ended "$GRACE"
}

both_ended() {
    EVENT=ended VALUE=${CODES[client]}
    if [ "$VALUE" = 0 ] && [ "$PHASE" != server-asked ]; then VALUE=${CODES[server]}; fi
}

# When the server has not ended by itself in the phase client-ended.
ask_server_to_end() {
    say "the server did not end within $GRACE s of the client's end: ending it"
    enter_phase server-asked "$GRACE"
    send_to_guest server TERM
}

# When it has not ended in the phase server-asked either.
end_vm_of_server() {
    say "the server did not end when asked to: ending its VM"
    no_deadline
    kill_vm server
}
