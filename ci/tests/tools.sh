# shellcheck shell=bash
# What the tests of ci/roce are made with: a folder for each test, fake programs, ci/roce in it, and checks.
#
# Reads: BOX (run), CI_DIR (run)
# Sets:  CODE, and $BOX/out, $BOX/err   exit code and output of what ran last
#        RUNNING                        the process group of what was started and not awaited yet
#        BEGUN, GO                      descriptors of fifos: a fake program writes to the one, and may read from the other
#        PATH, HOME, TMPDIR, VERBENA_CACHE, JAVA_HOME   in the environment of the test
# For other files: make_box, end_box (run); all others (tests)

LIB=(say signals packages follow devices vm guest pair image engine ways headers project trust bench doctor)
EVENT_LIMIT=60 # seconds for what should take one

make_box() {
    mkdir -p "$BOX"/{bin,checkout,home,tmp,jdk/bin}
    ln -s "$CI_DIR" "$BOX/checkout/ci"
    touch "$BOX/checkout/pom.xml"
    printf 'JAVA_VERSION="25.0.1"\n' >"$BOX/jdk/release"
    printf '#!/bin/sh\n' >"$BOX/jdk/bin/javac"
    chmod 755 "$BOX/jdk/bin/javac"
    unset "${!VERBENA_@}" "${!JAVA@}" "${!DOCKER_@}" XDG_CACHE_HOME
    export HOME=$BOX/home TMPDIR=$BOX/tmp VERBENA_CACHE=$BOX/cache JAVA_HOME=$BOX/jdk PATH=$BOX/bin:$PATH
    RUNNING=''
    mkfifo "$BOX/begun" "$BOX/go"
    exec {BEGUN}<>"$BOX/begun" {GO}<>"$BOX/go"
    fake sudo <<'LINES'
exec "$@"
LINES
}

end_box() {
    local pids
    [ -z "$RUNNING" ] || kill -s KILL -- "-$RUNNING" 2>/dev/null || true
    # The shell's own kill: a minimal Debian has no program of that name.
    [ ! -e "$BOX/pids" ] || { read -ra pids <"$BOX/pids" && kill -s KILL "${pids[@]}" 2>/dev/null; } || true
}

# Ends the test, which the report then counts as skipped.
skip() { # REASON
    printf '%s\n' "$1" >"$BOX/skipped"
    exit 0
}

# Puts a program first on the PATH: lines of bash from standard input, which find the test's folder in $BOX.
fake() { # NAME
    printf '#!/usr/bin/env bash\nBOX=%q\n%s\n' "$BOX" "$(</dev/stdin)" >"$BOX/bin/$1"
    chmod 755 "$BOX/bin/$1"
}

# The same with a child: both go on until they are ended, as Maven and a compiler. Where the condition fails, it ends at once.
fake_endless() { # NAME [CONDITION]
    fake "$1" <<LINES
${2:-true} || exit 0
sleep 1000 &
echo \$\$ \$! >"\$BOX/pids"
echo begun >"\$BOX/begun"
wait
LINES
}

# Debian's packages, as far as ci/roce asks: all are installed except those named.
fake_packages() { # [MISSING…]
    fake dpkg-query <<LINES
for word; do
    if [[ \$word != *t64 && (' $* ' != *" \$word "* || -e \$BOX/installed) ]]; then echo "installed \$word"; fi
done
LINES
    fake apt-get </dev/null
    fake apt-cache <<'LINES'
case $1 in
    depends) [[ $* != *linux-image-amd64* ]] || echo "  Depends: linux-image-6.1.0-1-amd64" ;;
    policy) echo "  Candidate: 1.0" ;;
esac
LINES
    fake uname <<'LINES'
[ "$1" != -m ] || exec echo x86_64
PATH=${PATH#*:} exec uname "$@"
LINES
    fake modprobe <<'LINES'
exit 1
LINES
}

# Leaves programs of this machine out of the PATH, as if they were not installed.
hide() { # PROGRAM…
    local folder folders name
    IFS=: read -ra folders <<<"$PATH"
    mkdir -p "$BOX/system"
    for folder in "${folders[@]}"; do
        [ "$folder" = "$BOX/bin" ] || find -L "$folder" -maxdepth 1 -type f -executable -print0 2>/dev/null
    done | xargs -0 -r ln -s -t "$BOX/system" 2>/dev/null || true # of two with one name, the first is taken
    for name in "$@"; do rm -f "$BOX/system/$name" "$BOX/bin/$name"; done
    PATH=$BOX/bin:$BOX/system
}

# Sets CODE, and leaves what was printed in $BOX/out and $BOX/err.
roce() { run_program roce "$@"; } # WORDS…

fresh() { run_program fresh "$@"; } # WORDS…

run_program() { # NAME WORDS…
    CODE=0
    "$BOX/checkout/ci/$1" "${@:2}" >"$BOX/out" 2>"$BOX/err" </dev/null || CODE=$?
}

# The same with lines of bash from standard input that call functions of ci/lib.
with_lib() {
    write_script
    CODE=0
    bash "$BOX/script" >"$BOX/out" 2>"$BOX/err" </dev/null || CODE=$?
}

# The same where standard input and output are a terminal.
with_lib_on_terminal() {
    write_script
    CODE=0
    timeout "$EVENT_LIMIT" script -qec "bash '$BOX/script' 2>'$BOX/err'" /dev/null >"$BOX/out" </dev/null || CODE=$?
}

write_script() {
    local part
    {
        printf '%s=%q\n' CI_DIR "$CI_DIR" PROJECT "$BOX/checkout" CACHE "$VERBENA_CACHE" RESULTS "$BOX/results"
        echo "set -euo pipefail
            VERBOSE=no INSTALL=yes COMMAND=test ON=auto LIMIT='' QUICK=no WHOLE=no SOAK='' RESULTS_GIVEN=no HEADERS=no PAIR=no CONTAINERS=no NETEM=''"
        for part in "${LIB[@]}"; do printf '. %q\n' "$CI_DIR/lib/$part.sh"; done
        echo make_scratch
        cat
    } >"$BOX/script"
}

# Starts ci/roce as a terminal would: in a process group of its own, with signals as they are by default.
start_roce() { # WORDS…
    start_group "$BOX/checkout/ci/roce" "$@"
}

# The same with lines as of with_lib.
start_with_lib() {
    write_script
    start_group bash "$BOX/script"
}

start_group() { # COMMAND…
    : >"$BOX/out" # here, as the test may read them before the command has started
    : >"$BOX/err"
    set -m
    "$@" >>"$BOX/out" 2>>"$BOX/err" </dev/null &
    RUNNING=$!
    set +m
}

# Sends a signal to the process that was started, as kill does, and waits for its end.
send_to_roce() { # SIGNAL
    kill -s "$1" "$RUNNING"
    await_end
}

# The same to its process group, as a terminal does to all processes in the foreground.
press_ctrl_c() {
    kill -s INT -- "-$RUNNING"
    await_end
}

# Until a fake program writes that it has begun.
await_begun() {
    read -r -t "$EVENT_LIMIT" _ <&"$BEGUN"
}

let_go_on() { echo go >&"$GO"; }

await_line() { # TEXT : until ci/roce has printed it
    timeout "$EVENT_LIMIT" grep -qF -m1 -- "$1" <(tail -n +1 -f "$BOX/err")
}

# Sets CODE to that of what was started.
await_end() {
    CODE=0
    wait "$RUNNING" || CODE=$?
    RUNNING=''
}

exits_with() { # EXIT_CODE
    [ "$CODE" = "$1" ] || { echo "exit code $CODE instead of $1"; cat "$BOX/err"; return 1; }
}

says() { # TEXT
    grep -qF -- "$1" "$BOX/err" || { cat "$BOX/err"; return 1; }
}

says_nothing_of() { # TEXT
    if grep -F -- "$1" "$BOX/err"; then return 1; fi
}

prints() { # TEXT : that, and nothing else, on standard output
    [ "$(cat "$BOX/out")" = "$1" ] || { cat "$BOX/out"; return 1; }
}

# No fake program runs any more, and no folder of this run is left.
nothing_is_left() {
    local pid pids
    if [ -e "$BOX/pids" ]; then
        read -ra pids <"$BOX/pids"
        for pid in "${pids[@]}"; do
            # Zombies do not count: in a container there may be no init that reaps them.
            if grep -H '^State:[[:space:]]*[^Z[:space:]]' "/proc/$pid/status" 2>/dev/null; then return 1; fi
        done
    fi
    [ -z "$(find "$BOX/tmp" "$BOX/cache" -mindepth 1 \( -name 'verbena-roce.*' -o -name 'making.*' \) 2>/dev/null)" ]
}
