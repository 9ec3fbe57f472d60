# shellcheck shell=bash
# Messages, failures, and the folder for temporary files. Messages go to standard error: standard output belongs to the command.
#
# Reads: VERBOSE (roce), PROGRAM (fresh), TMPDIR
# Sets:  SCRATCH   this run's folder for temporary files, removed at its end
# For other files: say, detail, fail, usage_error, take_lock, into, quietly, make_scratch, need_room, need_writable

say() { printf '%s: %s\n' "${PROGRAM:-roce}" "$*" >&2; }

detail() { [ "$VERBOSE" = no ] || say "$@"; }

fail() { # EXIT_CODE SENTENCE…
    local code=$1
    shift
    say "$@"
    exit "$code"
}

usage_error() { fail 64 "$* (ci/${PROGRAM:-roce} help)"; }

# Waits for a lock, not silently and not for ever.
take_lock() { # DESCRIPTOR WHO_HAS_IT
    flock -n "$1" && return
    say "waiting, as $2"
    step flock -w 900 "$1" || fail 69 "$2, for 15 minutes now"
}

into() { # OUTPUT ERRORS COMMAND…
    "${@:3}" >>"$1" 2>>"$2"
}

# Runs a command whose output matters only when it fails.
quietly() { # WHAT COMMAND…
    local what=$1 log
    shift
    log=$(mktemp -p "${SCRATCH:-/tmp}")
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

make_scratch() {
    local place=${TMPDIR:-/tmp}
    [ -d "$place" ] || fail 69 "TMPDIR is $place, and there is no such folder"
    need_writable "$place" "the folder for temporary files" "point TMPDIR at another"
    SCRATCH=$(mktemp -d "$place/verbena-roce.XXXXXX")
    at_exit rm -rf "$SCRATCH"
}

need_room() { # FOLDER WHAT_IT_IS MEBIBYTES WHAT_FOR MEND
    local room
    room=$(df -Pm "$1" 2>/dev/null | awk 'NR == 2 { print $4 }')
    [[ $room =~ ^[0-9]+$ ]] || return 0 # it is not known
    [ "$room" -ge "$3" ] || fail 69 "$2, $1, has $room MiB of room, and $4 takes up to $3: $5"
}

# Ends with a sentence unless files can be made in a folder, and 16 bytes written: a full disk still makes empty files.
need_writable() { # FOLDER WHAT_IT_IS MEND
    local probe
    if probe=$(mkdir -p "$1" 2>&1 && mktemp "$1/.verbena.XXXXXX" 2>&1) && echo "is it full?...." 2>/dev/null >"$probe"; then
        rm -f "$probe"
        return
    fi
    [ ! -e "$probe" ] || { rm -f "$probe"; probe="the disk is full"; }
    fail 69 "$2, $1, cannot be written to (${probe##*: }): $3"
}
