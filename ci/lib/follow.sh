# shellcheck shell=bash
# Follows a command that runs elsewhere (in a process group here, or in guests) to its end: time limit, signals, death.
#
# Everything that happens is a line in one fifo, $RUN/events. WHO is the guest that the line comes from, or "here":
#   started WHO    the command runs; set-up and boot, which come before, do not count for the time limit
#   ended WHO N    the command has ended with exit code N
#   gone WHO       what the command ran in (its process group, or the VM) has ended
#   unread         nobody reads the command's output any more (as in ci/roce run -- yes | head)
#   signal         this script got a signal; the line only ends a wait
# The guests of a pair and of a container engine report more events; pair_event and engine_event turn those into the ones above.
#
# Reads: SCRATCH (say.sh), LIMIT (roce), GRACE (signals.sh), ROCE_LOCK (ways.sh)
# Sets:  RUN, EVENTS        the folder of this run, the descriptor of its fifo
#        EVENT, WHO, VALUE  the event at hand; pair_event and engine_event may change EVENT and VALUE
#        PHASE, DEADLINE    boot, running, late or interrupted, with a pair also client-ended and server-asked; when it is over, as a
#                           value of SECONDS, or empty
#        INTERRUPTED        the signal that this script got, or empty
#        HERE               the process group of a command on this machine, or empty
#        GONE               by WHO: what has ended
# For other files: make_run_folder, follow, start_here, deliver_to_command, next_event, enter_phase, no_deadline, is_gone

HERE=''
declare -A GONE=()

make_run_folder() {
    RUN=$(mktemp -d -p "$SCRATCH" run.XXXXXX)
    mkfifo "$RUN/events"
    exec {EVENTS}<>"$RUN/events"
}

# Waits for the end of the command and returns its exit code. KIND says what the events mean: those of one command, of the two guests
# of a pair, or of a guest with a container engine and a command here.
follow() { # command|pair|engine BOOT_LIMIT
    local code=''
    enter_phase boot "$2"
    INTERRUPTED=''
    trap 'interrupted INT' INT
    trap 'interrupted TERM' TERM
    trap 'interrupted HUP' HUP
    while [ -z "$code" ]; do
        next_event
        case $1 in
            command) ;;
            pair) pair_event ;;
            engine) engine_event ;;
        esac
        case $EVENT in
            started)
                PHASE=running DEADLINE=${LIMIT:+$((SECONDS + LIMIT))}
                detail "the command runs"
                ;;
            ended) code=$VALUE ;;
            gone) code=70 ;;
            unread) code=141; deliver_to_command KILL ;;
        esac
        if [ -z "$EVENT" ] && [ -n "$DEADLINE" ] && [ "$SECONDS" -ge "$DEADLINE" ]; then
            deadline_came "$2"
        fi
    done
    heed_signals
    [ "$PHASE" != late ] || code=124
    if [ "$code" = 70 ] && [ -n "$INTERRUPTED" ]; then code=$((128 + $(kill -l "$INTERRUPTED"))); fi
    return "$code"
}

# Sets EVENT, WHO and VALUE, or empties them when the deadline has come.
next_event() {
    EVENT='' WHO='' VALUE=''
    if [ -z "$DEADLINE" ]; then
        read -r EVENT WHO VALUE <&"$EVENTS" || true
    elif [ "$DEADLINE" -gt "$SECONDS" ]; then
        read -r -t "$((DEADLINE - SECONDS))" EVENT WHO VALUE <&"$EVENTS" || true
    fi
    [ "$EVENT" != gone ] || GONE[$WHO]=yes
}

is_gone() { # WHO
    [ -n "${GONE[$1]-}" ]
}

enter_phase() { # PHASE SECONDS : as long as it may take
    PHASE=$1 DEADLINE=$((SECONDS + $2))
}

no_deadline() { DEADLINE=''; }

deadline_came() { # BOOT_LIMIT
    case $PHASE in
        boot)
            say "nothing came up within $1 s"
            no_deadline
            deliver_to_command KILL
            ;;
        running)
            say "the command did not end within its limit of $LIMIT s: ending it"
            enter_phase late "$GRACE"
            deliver_to_command TERM
            ;;
        late | interrupted)
            no_deadline
            deliver_to_command KILL
            ;;
        client-ended) ask_server_to_end ;;
        server-asked) end_vm_of_server ;;
    esac
}

interrupted() { # SIGNAL
    echo signal >"$RUN/events" # bash goes on with the read that the signal interrupted, deadline and all
    if [ -n "$INTERRUPTED" ] || [ "$PHASE" = boot ]; then # asked twice, or no command to ask yet
        INTERRUPTED=$1
        deliver_to_command KILL
    else
        INTERRUPTED=$1
        [ "$1" = INT ] || enter_phase interrupted "$GRACE"
        deliver_to_command "$1"
    fi
}

# To a command on this machine if there is one, otherwise to those in the guests. After KILL a line "gone" comes.
deliver_to_command() { # SIGNAL
    if [ -n "$HERE" ]; then signal_here "$1"; else signal_guests "$1"; fi
}

# Starts a command in a process group of its own on this machine.
start_here() { # COMMAND…
    set -m
    (
        trap : INT TERM HUP # for the command itself; this shell goes on, to report how it ended
        code=0
        echo started here >"$RUN/events"
        (
            [ -z "${ROCE_LOCK-}" ] || exec {ROCE_LOCK}<&- # processes that the command leaves behind must not hold it
            exec "$@"
        ) </dev/null {EVENTS}<&- || code=$?
        echo "ended here $code" >"$RUN/events"
    ) &
    HERE=$!
    set +m
}

signal_here() { # SIGNAL
    kill -s "$1" -- "-$HERE" 2>/dev/null || true
    [ "$1" != KILL ] || echo gone here >"$RUN/events"
}
