# shellcheck shell=bash
# The trust suite: the tests tagged "trust", of this machine and on devices, and the figures that they report.
#
# Reads: PROJECT, RESULTS, RESULTS_GIVEN, LIMIT, WHOLE, SOAK (roce), ROCE_ADDRESSES (devices.sh),
#        JDK, FILTER, TEST_TOOLS, RDMA_TOOLS, FAILED, BRISK_JVM, PAIR_LIMIT (project.sh)
# Sets:  TRUST_OPTIONS  what the JVMs of tests are told: the folder for rows, and whether the whole suite runs
#        FILTER         (project.sh) which tests to run, or empty
#        LIMIT, RESULTS (roce): a default, an absolute path
# For other files: trust, TRUST_OPTIONS, begin_trust_rows, collect_trust_rows

TRUST_LIMIT=14400 # seconds where the devices are, of the whole suite on emulated processors
MORTAL_TEST=MachineKilledTest
MORTAL_PORT=7471
SOAK_MORE=300 # seconds, for the beginning and the last round
TRUST_COLUMNS='check | requests | messages | faults | inputs | losses | leaks | longest wait | seed | time'

trust() { # [FILTER]
    local code=0 launcher options=() published=$PROJECT/native-test/trust/results.txt
    [ "$WHOLE" = no ] || published=${published%/*}/whole.txt
    FILTER=${1-}
    if [ -n "$SOAK" ]; then
        soak
        return
    fi
    prepare_tests
    [ -z "$FILTER" ] || options=("-Dtest=$FILTER")
    build package -Dgroups=trust -Dverbena.headers=required -Dmaven.source.skip -Dmaven.javadoc.skip -Dnative-test.skip \
        -Dmaven.test.failure.ignore -Dsurefire.failIfNoSpecifiedTests=false "${options[@]}" "${TRUST_OPTIONS[@]}"
    count "checks on this machine" 0 "$PROJECT"/{*,*/*}/target/surefire-reports/TEST-*.xml
    LIMIT=${LIMIT:-$TRUST_LIMIT}
    mapfile -t launcher < <(junit native verbena.device=required --include-tag=trust)
    run_with_devices "${launcher[@]}" || code=$?
    count "checks on devices" "$code" "$RESULTS"/native-reports/TEST-*.xml
    if [ "$WHOLE" = yes ] && [ "${FILTER:-$MORTAL_TEST}" = "$MORTAL_TEST" ] && ! interrupted_by "$code"; then
        mortal_pair || code=$?
    fi
    collect_trust_rows
    cat "$RESULTS/trust/results.txt"
    if [ "$RESULTS_GIVEN" = yes ] || [ -n "$FILTER" ]; then
        :
    elif [ "$code" != 0 ] || [ "${COUNTED[1]}" != 0 ]; then
        say "$published stays as it is: not all checks ran and passed"
    else
        cp "$RESULTS/trust/results.txt" "$published"
        say "the figures are in $published"
    fi
    report_tests "$code"
}

# The machine of a peer dies: the VM of a pair's server.
mortal_pair() {
    local FILTER=$MORTAL_TEST launcher code=0 server=("${ROCE_ADDRESSES[0]}" "$MORTAL_PORT")
    mapfile -t launcher < <(junit mortal "verbena.trust.mortal=${server[*]}")
    nested pair --server-dies --timeout "$PAIR_LIMIT" --results "$RESULTS" \
        -- "$JDK/bin/java" "${BRISK_JVM[@]}" --enable-native-access=ALL-UNNAMED \
        -cp "$PROJECT/native-test/tests/target/test-classes:$(cat "$PROJECT/native-test/tests/target/test-class-path")" \
        dev.verbena.nativetest.EchoProgram "${server[@]}" mortal \
        -- "${launcher[@]}" || code=$?
    count "checks beside a machine that dies" "$code" "$RESULTS"/mortal-reports/TEST-*.xml
    return "$code"
}

# The same work on devices for some time, and a plot of what the process and the kernel hold meanwhile.
soak() {
    local code=0 launcher
    FILTER=SoakTest
    prepare_tests
    TRUST_OPTIONS+=("-Dverbena.trust.soak=$SOAK")
    build package -DskipTests -Dmaven.source.skip -Dmaven.javadoc.skip
    LIMIT=${LIMIT:-$((SOAK * 60 + SOAK_MORE))}
    mapfile -t launcher < <(junit native verbena.device=required)
    run_with_devices "${launcher[@]}" || code=$?
    count "soak" "$code" "$RESULTS"/native-reports/TEST-*.xml
    plot_soak "$RESULTS/trust/soak.csv" "$RESULTS/trust/soak.svg"
    say "the figures are in $RESULTS/trust: soak.csv, soak.svg"
    report_tests "$code"
}

plot_soak() { # CSV SVG
    "$JDK/bin/java" -cp "$PROJECT/native-test/bench/target/classes" dev.verbena.bench.report.SoakPlot "$@"
}

# Makes the folder that the checks of this run put their rows into.
begin_trust_rows() {
    rm -rf "$RESULTS/trust"
    mkdir -p "$RESULTS/trust"
    TRUST_OPTIONS=("-Dverbena.trust=$RESULTS/trust")
    [ "$WHOLE" = no ] || TRUST_OPTIONS+=(-Dverbena.trust.whole=true)
}

# Writes the rows into one table, $RESULTS/trust/results.txt.
collect_trust_rows() {
    local commit changed=''
    commit=$(git -C "$PROJECT" rev-parse --short HEAD 2>/dev/null) || commit=unknown
    [ -z "$(git -C "$PROJECT" status --porcelain -uno 2>/dev/null)" ] || changed=' with changes'
    {
        echo "$([ "$WHOLE" = yes ] && echo "The whole suite" || echo "The part of each CI run"), commit $commit$changed," \
            "$(date -u +%Y-%m-%d), $(uname -sr) $(uname -m), $(nproc) processors"
        echo
        { echo "$TRUST_COLUMNS"; { cat "$RESULTS"/trust/*.row 2>/dev/null || true; } | LC_ALL=C sort; } | aligned
    } >"$RESULTS/trust/results.txt"
}

# Pads the columns of a table whose cells are separated by " | ".
aligned() {
    awk -F ' [|] ' '
        { lines[NR] = $0; for (i = 1; i <= NF; i++) if (length($i) > width[i]) width[i] = length($i) }
        END {
            for (line = 1; line <= NR; line++) {
                cells = split(lines[line], cell, / [|] /); text = ""
                for (i = 1; i <= cells; i++) text = text (i == 1 ? "" : " | ") sprintf(i == 1 ? "%-*s" : "%*s", width[i], cell[i])
                print text
            }
        }'
}
