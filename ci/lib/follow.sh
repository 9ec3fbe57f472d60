# shellcheck shell=bash
# Starting a command elsewhere (a process group here, or a guest), and following it to its end: time limit, Ctrl-C, death.
#
# Everything that happens comes as a line through one fifo, $RUN/control.out:
#   started    the command runs; until then, it is set-up that takes time
#   ended N    the command's exit code
#   gone       what it ran in (the VM) is no more
#   unheard    nobody reads its output any more (as in ci/roce run -- yes | head)
#   signal     this script got one; only to end a wait
# A way to devices that starts a command defines deliver_to_command SIGNAL; after KILL it must see to a line "gone".

GRACE=10 # seconds between asking a command to end and ending it

make_run_folder() {
    RUN=$(mktemp -d "${TMPDIR:-/tmp}/verbena-roce.XXXXXX")
    mkfifo "$RUN/control.in" "$RUN/control.out"
    exec {EVENTS}<>"$RUN/control.out"
    at_exit rm -rf "$RUN"
}

AT_EXIT=()
at_exit() { # COMMAND… : undone last first
    AT_EXIT=("$(printf '%q ' "$@")" "${AT_EXIT[@]}")
    trap run_at_exit EXIT
}

run_at_exit() {
    local undo
    trap '' INT TERM HUP
    for undo in "${AT_EXIT[@]}"; do eval "$undo" || true; done
}

# Waits for the command's end and returns its exit code; FOLLOWED_TO is then the event that ended it.
follow() { # BOOT_LIMIT
    local event value code=''
    PHASE=boot DEADLINE=$((SECONDS + $1)) INTERRUPTED=''
    trap 'interrupted INT' INT
    trap 'interrupted TERM' TERM
    trap 'interrupted HUP' HUP
    while [ -z "$code" ]; do
        event='' value=''
        next_event
        case $event in
            started) PHASE=running DEADLINE=${LIMIT:+$((SECONDS + LIMIT))} ;;
            ended) code=$value ;;
            gone) code=70 ;;
            unheard) code=141; deliver_to_command KILL ;;
        esac
        if [ -z "$event" ] && [ -n "$DEADLINE" ] && [ "$SECONDS" -ge "$DEADLINE" ]; then
            deadline_came "$1"
        fi
    done
    trap - INT TERM HUP
    # shellcheck disable=SC2034 # for wait_for_power_off
    FOLLOWED_TO=$event
    [ "$PHASE" != late ] || code=124
    if [ "$code" = 70 ] && [ -n "$INTERRUPTED" ]; then code=$((128 + $(kill -l "$INTERRUPTED"))); fi
    return "$code"
}

# Sets event and value, or leaves them empty when the deadline has come.
next_event() {
    if [ -z "$DEADLINE" ]; then
        read -r event value <&"$EVENTS" || true
    elif [ "$DEADLINE" -gt "$SECONDS" ]; then
        read -r -t "$((DEADLINE - SECONDS))" event value <&"$EVENTS" || true
    fi
}

deadline_came() { # BOOT_LIMIT
    case $PHASE in
        boot)
            say "nothing came up within $1 s"
            DEADLINE=''
            deliver_to_command KILL
            ;;
        running)
            say "the command did not end within its limit of $LIMIT s: ending it"
            PHASE=late DEADLINE=$((SECONDS + GRACE))
            deliver_to_command TERM
            ;;
        late | interrupted)
            DEADLINE=''
            deliver_to_command KILL
            ;;
    esac
}

interrupted() { # SIGNAL
    echo signal >"$RUN/control.out" # bash goes on with the read that the signal interrupted, deadline and all
    if [ -n "$INTERRUPTED" ] || [ "$PHASE" = boot ]; then # asked twice, or nothing to ask yet
        INTERRUPTED=$1
        deliver_to_command KILL
    else
        INTERRUPTED=$1
        [ "$1" = INT ] || PHASE=interrupted DEADLINE=$((SECONDS + GRACE))
        deliver_to_command "$1"
    fi
}

# A command in a process group of its own on this machine.
start_here() { # COMMAND…
    set -m
    (
        trap : INT TERM HUP # the command itself gets them; this shell lives on to tell its end
        code=0
        echo started >"$RUN/control.out"
        (
            [ -z "${ROCE_LOCK-}" ] || exec {ROCE_LOCK}<&- # what the command leaves behind shall not keep it
            exec "$@"
        ) </dev/null {EVENTS}<&- || code=$?
        echo "ended $code" >"$RUN/control.out"
    ) &
    HERE=$!
    set +m
    # shellcheck disable=SC2317 # follow calls it
    deliver_to_command() {
        kill -s "$1" -- "-$HERE" 2>/dev/null || true
        [ "$1" != KILL ] || echo gone >"$RUN/control.out"
    }
}
