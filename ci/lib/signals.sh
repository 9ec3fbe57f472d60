# shellcheck shell=bash
# INT, TERM and HUP while ci/roce itself is at work: it ends what it runs, removes what it began, and answers 130, 143 or 129.
# While a command runs on devices, follow.sh has these signals instead.
#
# bash looks at a signal only when the command in the foreground has ended. What may take long therefore runs as a step, in the background.
# Installing packages does not: half installed ones are worse than waiting, and apt and dpkg ignore Ctrl-C for the same reason.

GRACE=10 # seconds between asking what runs to end and ending it
STEP=''  # the process group of the step that runs
TOLD=''  # standard error: a trap runs with the redirections of the command that was waited for

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

heed_signals() {
    [ -n "$TOLD" ] || exec {TOLD}>&2
    trap 'end_by INT' INT
    trap 'end_by TERM' TERM
    trap 'end_by HUP' HUP
}

end_by() { # SIGNAL
    trap '' INT TERM HUP
    say "interrupted by $1" 2>&"$TOLD"
    [ -z "$STEP" ] || end_group "$STEP"
    exit $((128 + $(kill -l "$1")))
}

# Runs a command or a function, in a process group of its own, and returns its exit code. A step within a step is part of it.
# Where it prints is up to what runs in it: what is redirected here swallows the word on a signal.
step() { # COMMAND…
    local code=0
    if [ "$STEP" = inside ]; then
        "$@"
        return
    fi
    set -m
    (
        AT_EXIT=() STEP=inside # what the caller has to undo is not this shell's
        "$@"
    ) </dev/null &
    STEP=$!
    set +m
    wait "$STEP" || code=$?
    STEP=''
    return "$code"
}

end_group() { # PROCESS_GROUP
    local until=$((SECONDS + GRACE))
    signal_group TERM "$1"
    { wait "$1" || true; } 2>/dev/null # bash would remark on its death
    while is_alive "$1"; do # no event tells the end of a group
        if [ "$SECONDS" -ge "$until" ]; then
            signal_group KILL "$1"
            return
        fi
        sleep 0.1
    done
}

# Whether any process of a group still runs. In a container, nobody may take notice of those that have ended: they do not count.
is_alive() { # PROCESS_GROUP
    local file line fields
    for file in /proc/[0-9]*/stat; do
        { read -r line <"$file"; } 2>/dev/null || continue
        read -ra fields <<<"${line##*) }" # state, parent, process group
        [ "${fields[2]}" != "$1" ] || [ "${fields[0]}" = Z ] || return 0
    done
    return 1
}

# What runs under sudo is root's.
signal_group() { # SIGNAL PROCESS_GROUP
    kill -s "$1" -- "-$2" 2>/dev/null || true
    [ "$(id -u)" = 0 ] || sudo -n kill -s "$1" -- "-$2" 2>/dev/null || true
}
