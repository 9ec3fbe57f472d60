# shellcheck shell=bash
# Tests of `ci/roce trust`: what it runs, and the table of figures; and of the mutants of the suite.
#
# Reads: BOX, CI_DIR (run)
# Sets:  nothing
# For other files: nothing but tests

# Prints lines that run the suite with a fake build and fake devices, each of which writes one row.
fake_checks() { # EXIT_CODE_ON_DEVICES
    cat <<LINES
prepare_vm() { :; }
need() { :; }
build() { echo "\$*" >"$BOX/built"; echo 'requests, fake device | 1000000 | - | 7 | - | 0 | - | - | 42 | 9.0 s' >"\$RESULTS/trust/a.row"; }
junit() { echo true; }
count() { COUNTED[0]=\$((COUNTED[0] + 1)); }
run_with_devices() { echo 'messages, devices | - | 4000 | 3 | - | 0 | - | - | -1 | 9.0 s' >"\$RESULTS/trust/b.row"; return $1; }
mkdir -p "$BOX/checkout/native-test/trust"
LINES
}

test_trust_prints_and_publishes_a_table() {
    with_lib < <(fake_checks 0; echo trust)
    exits_with 0
    grep -qF -e '-Dgroups=trust' "$BOX/built"
    if grep -qF whole "$BOX/built"; then return 1; fi
    cmp <(head -n -1 "$BOX/out") "$BOX/checkout/native-test/trust/results.txt"
    grep -qE '^The part of each CI run, commit unknown, 20[0-9-]+, Linux ' "$BOX/out"
    diff - <(tail -n +3 "$BOX/checkout/native-test/trust/results.txt") <<'LINES'
check                 | requests | messages | faults | inputs | losses | leaks | longest wait | seed |  time
messages, devices     |        - |     4000 |      3 |      - |      0 |     - |            - |   -1 | 9.0 s
requests, fake device |  1000000 |        - |      7 |      - |      0 |     - |            - |   42 | 9.0 s
LINES
}

test_the_whole_of_trust() {
    with_lib < <(fake_checks 0; echo 'mortal_pair() { :; }; WHOLE=yes; trust')
    exits_with 0
    grep -qF -e '-Dverbena.trust.whole=true' "$BOX/built"
    grep -q '^The whole suite, ' "$BOX/checkout/native-test/trust/whole.txt"
    [ ! -e "$BOX/checkout/native-test/trust/results.txt" ]
}

test_figures_of_a_run_that_failed_or_was_interrupted_are_not_published() {
    local code
    for code in 1 124 130; do
        with_lib < <(fake_checks "$code"; echo 'mortal_pair() { echo mortal; }; COUNTED[1]=0; WHOLE=yes; trust')
        [ ! -e "$BOX/checkout/native-test/trust/whole.txt" ]
        grep -q 'whole.txt stays as it is' "$BOX/err"
        if [ "$code" = 1 ]; then grep -qx mortal "$BOX/out"; elif grep -qx mortal "$BOX/out"; then return 1; fi
    done
    with_lib < <(fake_checks 0; echo 'COUNTED[1]=1; trust')
    [ ! -e "$BOX/checkout/native-test/trust/results.txt" ]
}

test_a_part_of_trust_is_not_published() {
    with_lib < <(fake_checks 0; echo 'trust LedgerTest')
    exits_with 0
    grep -qF -e '-Dtest=LedgerTest' "$BOX/built"
    [ ! -e "$BOX/checkout/native-test/trust/results.txt" ]
}

# As `ci/roce test -- FILTER` of tests that print no figures.
test_a_table_without_rows_is_no_failure() {
    with_lib <<'LINES'
begin_trust_rows
collect_trust_rows
tail -n 1 "$RESULTS/trust/results.txt"
LINES
    exits_with 0
    grep -q '^check | requests ' "$BOX/out"
}

test_a_soak_runs_that_test_alone_and_plots_it() {
    with_lib < <(fake_checks 0; cat <<LINES
junit() { printf '%s\\n' "\$FILTER" "\${TRUST_OPTIONS[@]}" >"$BOX/junit"; echo true; }
plot_soak() { echo "\$*" >"$BOX/plotted"; }
SOAK=7
trust
echo "limit \$LIMIT" >&2
LINES
)
    exits_with 0
    grep -qx SoakTest "$BOX/junit"
    grep -qx -e '-Dverbena.trust.soak=7' "$BOX/junit"
    grep -q '/soak.csv .*/soak.svg$' "$BOX/plotted"
    grep -qF -e '-DskipTests' "$BOX/built"
    grep -qx 'limit 720' "$BOX/err"
    [ ! -e "$BOX/checkout/native-test/trust/results.txt" ]
}

# They run seldom: without this test, nobody would notice a patch of lines that have changed since.
test_each_mutant_of_the_trust_suite_applies_to_the_library_of_today() {
    local mutants=native-test/trust/mutants patch name stale='' missing=''
    command -v git >/dev/null || skip "git is not installed" # it needs no repository
    cd "$CI_DIR/.." || return
    for patch in "$mutants"/*.patch; do
        name=$(basename -s .patch "$patch")
        git apply --check "$patch" || stale+=" $name"
        grep -qF "\`$name\`" "$mutants/../README.md" || missing+=" $name"
    done
    [ -z "$stale" ] || { echo "in $mutants, to be rewritten with the same meaning for the code of today:$stale"; return 1; }
    [ -z "$missing" ] || { echo "not in the table of native-test/trust/README.md:$missing"; return 1; }
}
