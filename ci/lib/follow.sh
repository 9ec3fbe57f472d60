# shellcheck shell=bash
# Starting a command elsewhere (a process group here, or a guest), and following it to its end: time limit, Ctrl-C, death.
#
# Everything that happens comes as a line through one fifo, $RUN/events; WHO is the guest it comes from, or "here":
#   started WHO    the command runs; until then, it is set-up that takes time
#   ended WHO N    the command's exit code
#   gone WHO       what it ran in (the VM) is no more
#   unheard        nobody reads its output any more (as in ci/roce run -- yes | head)
#   signal         this script got one; only to end a wait
# A way to devices that starts a command defines deliver_to_command SIGNAL; after KILL it must see to a line "gone".

make_run_folder() {
    RUN=$(mktemp -d -p "$SCRATCH" run.XXXXXX)
    mkfifo "$RUN/events"
    exec {EVENTS}<>"$RUN/events"
}

# Waits for the command's end and returns its exit code.
follow() { # BOOT_LIMIT
    local event who value code=''
    PHASE=boot DEADLINE=$((SECONDS + $1)) INTERRUPTED=''
    trap 'interrupted INT' INT
    trap 'interrupted TERM' TERM
    trap 'interrupted HUP' HUP
    while [ -z "$code" ]; do
        next_event
        retell_event
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
    heed_signals
    [ "$PHASE" != late ] || code=124
    if [ "$code" = 70 ] && [ -n "$INTERRUPTED" ]; then code=$((128 + $(kill -l "$INTERRUPTED"))); fi
    return "$code"
}

# Where one command is made of several, this turns event, who and value into those of the whole (see pair.sh).
retell_event() { :; }

declare -A GONE=() # by who is no more

# Sets event, who and value, or empties them when the deadline has come.
next_event() {
    event='' who='' value=''
    if [ -z "$DEADLINE" ]; then
        read -r event who value <&"$EVENTS" || true
    elif [ "$DEADLINE" -gt "$SECONDS" ]; then
        read -r -t "$((DEADLINE - SECONDS))" event who value <&"$EVENTS" || true
    fi
    # shellcheck disable=SC2034 # for guest.sh
    [ "$event" != gone ] || GONE[$who]=yes
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
        *) "deadline_in_$PHASE" ;;
    esac
}

interrupted() { # SIGNAL
    echo signal >"$RUN/events" # bash goes on with the read that the signal interrupted, deadline and all
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
        echo started here >"$RUN/events"
        (
            [ -z "${ROCE_LOCK-}" ] || exec {ROCE_LOCK}<&- # what the command leaves behind shall not keep it
            exec "$@"
        ) </dev/null {EVENTS}<&- || code=$?
        echo "ended here $code" >"$RUN/events"
    ) &
    HERE=$!
    set +m
    # shellcheck disable=SC2317 # follow calls it
    deliver_to_command() {
        kill -s "$1" -- "-$HERE" 2>/dev/null || true
        [ "$1" != KILL ] || echo gone here >"$RUN/events"
    }
}
