# shellcheck shell=bash
# INT, TERM and HUP while ci/roce itself is at work: it ends what it runs, removes what it began, and exits with 130, 143 or 129.
# While a command runs on devices, follow.sh handles these signals instead.
#
# bash handles a signal only when the command in the foreground has ended. What may take long therefore runs as a step, in the
# background. Installing packages does not: half installed ones are worse than waiting, and apt and dpkg ignore Ctrl-C for the same
# reason.
#
# Reads: nothing of other files
# Sets:  GRACE      seconds between asking something to end (TERM) and ending it (KILL)
#        STEP       the process group of the step that runs, or empty; "inside" within a step
#        MESSAGES   the descriptor of standard error: a trap runs with the redirections of the command that was waited for
#        AT_EXIT    the commands that undo what this run has begun
# For other files: at_exit, nothing_to_undo, heed_signals, step, kill_group, await_end_of_group

GRACE=10
STEP=''
MESSAGES=''
AT_EXIT=()

at_exit() { # COMMAND… : undone last first
    AT_EXIT=("$(printf '%q ' "$@")" "${AT_EXIT[@]}")
    trap run_at_exit EXIT
}

# In a subshell: undoing is the caller's business.
nothing_to_undo() { AT_EXIT=(); }

run_at_exit() {
    local undo
    trap '' INT TERM HUP
    for undo in "${AT_EXIT[@]}"; do eval "$undo" || true; done
}

heed_signals() {
    [ -n "$MESSAGES" ] || exec {MESSAGES}>&2
    trap 'end_by INT' INT
    trap 'end_by TERM' TERM
    trap 'end_by HUP' HUP
}

end_by() { # SIGNAL
    trap '' INT TERM HUP
    say "interrupted by $1" 2>&"$MESSAGES"
    [ -z "$STEP" ] || end_group "$STEP"
    exit $((128 + $(kill -l "$1")))
}

# Runs a command or a function in a process group of its own, and returns its exit code. A step within a step is part of it.
# Do not redirect the output of `step`: the message about a signal would go there too. Redirect inside (`into`, `quietly`).
step() { # COMMAND…
    local code=0
    if [ "$STEP" = inside ]; then
        "$@"
        return
    fi
    set -m
    (
        nothing_to_undo
        STEP=inside
        "$@"
    ) </dev/null &
    STEP=$!
    set +m
    wait "$STEP" || code=$?
    STEP=''
    return "$code"
}

end_group() { # PROCESS_GROUP
    signal_group TERM "$1"
    { wait "$1" || true; } 2>/dev/null # bash would remark on its death
    await_end_of_group "$1" || kill_group "$1"
}

# When this returns, nothing of the group runs, unless the kernel does not let it die.
kill_group() { # PROCESS_GROUP
    is_alive "$1" || return 0
    signal_group KILL "$1"
    await_end_of_group "$1" || true
}

# Returns 1 when something of the group still runs after the grace.
await_end_of_group() { # PROCESS_GROUP
    local until=$((SECONDS + GRACE))
    while is_alive "$1"; do # the end of a group is no event
        [ "$SECONDS" -lt "$until" ] || return 1
        sleep 0.1
    done
}

# Whether any process of a group still runs. Zombies do not count: in a container there may be no init that reaps them.
is_alive() { # PROCESS_GROUP
    local file line fields
    for file in /proc/[0-9]*/stat; do
        { read -r line <"$file"; } 2>/dev/null || continue
        read -ra fields <<<"${line##*) }" # state, parent, process group
        [ "${fields[2]}" != "$1" ] || [ "${fields[0]}" = Z ] || return 0
    done
    return 1
}

# Processes under sudo belong to root. The shell's own kill: a minimal system has no program of that name.
signal_group() { # SIGNAL PROCESS_GROUP
    kill -s "$1" -- "-$2" 2>/dev/null || true
    [ "$(id -u)" = 0 ] || sudo -n sh -c 'kill -s "$0" -- "-$1"' "$1" "$2" 2>/dev/null || true
}
