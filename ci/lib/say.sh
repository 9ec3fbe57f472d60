# shellcheck shell=bash
# What ci/roce says goes to standard error: standard output belongs to the command it runs.

say() { printf 'roce: %s\n' "$*" >&2; }

detail() { [ "$VERBOSE" = no ] || say "$@"; }

fail() { # EXIT_CODE SENTENCE…
    local code=$1
    shift
    say "$@"
    exit "$code"
}

usage_error() { fail 64 "$* (ci/roce help)"; }

# Waits for a lock, not silently and not for ever.
take_lock() { # DESCRIPTOR WHO_HAS_IT
    flock -n "$1" && return
    say "waiting, as $2"
    flock -w 900 "$1" || fail 69 "$2, for 15 minutes now"
}

# Runs a command whose output matters only when it fails.
quietly() { # WHAT COMMAND…
    local what=$1 log
    shift
    log=$(mktemp)
    if [ "$VERBOSE" = yes ]; then
        "$@" >&2 || { rm -f "$log"; return 1; }
    elif ! "$@" >"$log" 2>&1; then
        say "$what failed:"
        tail -n 20 "$log" >&2
        rm -f "$log"
        return 1
    fi
    rm -f "$log"
}

# Ends with a sentence unless files can be made in a folder, and 16 bytes written: a full disk still makes empty files.
need_writable() { # FOLDER WHAT_IT_IS MEND
    local probe
    if probe=$(mkdir -p "$1" 2>&1 && mktemp "$1/.verbena.XXXXXX" 2>&1) && echo "is it full?...." 2>/dev/null >"$probe"; then
        rm -f "$probe"
        return
    fi
    [ ! -f "$probe" ] || { rm -f "$probe"; probe="the disk is full"; }
    fail 69 "$2, $1, cannot be written to (${probe##*: }): $3"
}
