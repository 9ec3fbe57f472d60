# shellcheck shell=bash
# shellcheck disable=SC2016,SC2034 # what is played expands its variables itself; the tests read CODE and GO
# What tests of ci/roce are made with.

PARTS=(say signals packages follow devices vm guest pair image engine ways headers project bench doctor)
PATIENCE=60 # seconds for what should take one

make_box() {
    mkdir -p "$BOX"/{bin,checkout,home,tmp,jdk/bin}
    ln -s "$CI_DIR" "$BOX/checkout/ci"
    touch "$BOX/checkout/pom.xml"
    printf 'JAVA_VERSION="25.0.1"\n' >"$BOX/jdk/release"
    printf '#!/bin/sh\n' >"$BOX/jdk/bin/javac"
    chmod 755 "$BOX/jdk/bin/javac"
    unset "${!VERBENA_@}" "${!JAVA@}" XDG_CACHE_HOME
    export HOME=$BOX/home TMPDIR=$BOX/tmp VERBENA_CACHE=$BOX/cache JAVA_HOME=$BOX/jdk PATH=$BOX/bin:$PATH
    RUNNING=''
    mkfifo "$BOX/begun" "$BOX/go"
    exec {BEGUN}<>"$BOX/begun" {GO}<>"$BOX/go"
    play sudo 'exec "$@"'
}

end_box() {
    [ -z "$RUNNING" ] || kill -s KILL -- "-$RUNNING" 2>/dev/null || true
    [ ! -e "$BOX/pids" ] || xargs -r kill -s KILL <"$BOX/pids" 2>/dev/null || true
}

# A program that a few lines play.
play() { # NAME LINES
    printf '#!/usr/bin/env bash\nBOX=%q\n%s\n' "$BOX" "$2" >"$BOX/bin/$1"
    chmod 755 "$BOX/bin/$1"
}

# A program with a child that both go on until they are ended, as Maven and a compiler.
play_endless() { # NAME [CONDITION]
    play "$1" "${2:-true} || exit 0
        sleep 1000 &
        echo \$\$ \$! >\"\$BOX/pids\"
        echo begun >\"\$BOX/begun\"
        wait"
}

# Sets CODE, and leaves what was printed in $BOX/out and $BOX/err.
roce() { # WORDS…
    CODE=0
    "$BOX/checkout/ci/roce" "$@" >"$BOX/out" 2>"$BOX/err" </dev/null || CODE=$?
}

# The same with lines of shell that use the parts of ci/roce.
in_parts() { # LINES
    local part lines
    lines="set -euo pipefail; CI_DIR=\$0 PROJECT=\$1 CACHE=\$2 VERBOSE=no INSTALL=yes COMMAND=test ON=auto; "
    for part in "${PARTS[@]}"; do lines+=". \$0/lib/$part.sh; "; done
    CODE=0
    bash -c "$lines make_scratch; $1" "$CI_DIR" "$BOX/checkout" "$VERBENA_CACHE" >"$BOX/out" 2>"$BOX/err" </dev/null || CODE=$?
}

# Begins ci/roce as a terminal would: in a process group, with signals as they are by default.
roce_begins() { # WORDS…
    set -m
    "$BOX/checkout/ci/roce" "$@" >"$BOX/out" 2>"$BOX/err" </dev/null &
    RUNNING=$!
    set +m
}

# Until a played program says that it has begun.
await_begun() {
    read -r -t "$PATIENCE" _ <&"$BEGUN"
}

await_line() { # TEXT : until it is in what ci/roce says
    timeout "$PATIENCE" grep -qF -m1 -- "$1" <(tail -n +1 -f "$BOX/err")
}

# Sets CODE to that of what roce_begins began.
roce_ends() {
    CODE=0
    wait "$RUNNING" || CODE=$?
    RUNNING=''
}

says() { # TEXT
    grep -qF -- "$1" "$BOX/err" || { cat "$BOX/err"; return 1; }
}

says_nothing_of() { # TEXT
    if grep -F -- "$1" "$BOX/err"; then return 1; fi
}

# Nothing is left of what was played, nor of this run's own folders.
nothing_is_left() {
    local pid pids
    if [ -e "$BOX/pids" ]; then
        read -ra pids <"$BOX/pids"
        for pid in "${pids[@]}"; do
            # In a container, nobody may take notice of one that has ended.
            if grep -H '^State:[[:space:]]*[^Z[:space:]]' "/proc/$pid/status" 2>/dev/null; then return 1; fi
        done
    fi
    [ -z "$(find "$BOX/tmp" "$BOX/cache" -mindepth 1 \( -name 'verbena-roce.*' -o -name 'making.*' \) 2>/dev/null)" ]
}

# Debian's packages as far as ci/roce asks: all are installed, or none of those whose names are given.
play_packages() { # [MISSING…]
    play dpkg-query "for word; do [[ ' $* ' != *\" \${word%t64} \"* || -e \$BOX/installed ]] || exit 1; done; echo ' installed '"
    play apt-cache 'case $1 in
        depends) [[ $* != *linux-image-amd64* ]] || echo "  Depends: linux-image-6.1.0-1-amd64" ;;
        policy) echo "  Candidate: 1.0" ;;
    esac'
    play uname '[ "$1" != -m ] || exec echo x86_64; PATH=${PATH#*:} exec uname "$@"'
    play modprobe 'exit 1'
}
