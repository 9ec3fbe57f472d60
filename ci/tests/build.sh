# shellcheck shell=bash
# Tests of what ci/roce shows of Maven.
#
# Reads: BOX (run)
# Sets:  nothing
# For other files: nothing but tests

test_what_Maven_prints_is_passed_on_but_for_its_remarks_on_itself() {
    fake mvn <<'LINES'
echo "WARNING: A terminally deprecated method in sun.misc.Unsafe has been called"
echo "WARNING: Please consider reporting this to the maintainers of class com.google.common.util.concurrent.AbstractFuture"
echo "[INFO] Building Verbena core 0.1      [3/5]"
echo "[INFO] Downloading from central: https://x/y.jar"
printf "\033[1m[ERROR] a test failed\033[m\n"
printf "the end, without a newline"
exit 3
LINES
    with_lib <<<'maven verify'
    exits_with 3
    prints $'[ERROR] a test failed\nthe end, without a newline'
    [ ! -s "$BOX/err" ]
}

test_a_build_that_is_silent_for_long_says_how_far_it_is() {
    fake mvn <<'LINES'
echo "[INFO] Building Verbena core 0.1      [3/5]"
echo "[INFO] Downloaded from central: https://x/y.jar (1 kB at 1 kB/s)"
echo "[INFO] Downloaded from central: https://x/z.jar (1 kB at 1 kB/s)"
printf "hal"
sleep 2.5
echo f
LINES
    with_lib <<<'PROGRESS_INTERVAL=1; maven verify'
    exits_with 0
    prints half
    grep -qE '^roce: still building Verbena core 0\.1: [1-9] s, 2 files downloaded$' "$BOX/err"
}

test_a_build_that_fails() {
    fake mvn <<'LINES'
echo "[ERROR] no"
exit 1
LINES
    roce demo
    exits_with 1
    says "[ERROR] no"
    says "the build failed"
}

test_a_build_that_fails_ends_bench() {
    fake_packages
    fake mvn <<<'exit 1'
    roce bench -- post-poll
    exits_with 1
    says "the build failed"
}

test_a_change_of_any_module_is_built() {
    local pom module
    for pom in "$CI_DIR"/../{*,*/*}/pom.xml; do
        module=$BOX/checkout/$(realpath --relative-to="$CI_DIR/.." "${pom%/*}")
        mkdir -p "$module/src/main" "$module/target"
        touch -d '2 hours ago' "$module/pom.xml" "$module/src/main"
    done
    touch -d '2 hours ago' "$BOX/checkout/pom.xml"
    touch -d '1 hour ago' "$BOX/checkout/native-test/tools/target/verbena-tools.jar" \
        "$BOX/checkout/native-test/bench/target/bench-is-built"
    with_lib <<<'up_to_date && bench_is_built'
    exits_with 0
    for pom in "$BOX/checkout"/{*,*/*}/pom.xml; do
        touch "$pom"
        with_lib <<<'up_to_date || bench_is_built'
        exits_with 1
        touch -d '2 hours ago' "$pom"
    done
}

test_a_build_that_fails_ends_test() {
    fake_packages
    fake mvn <<<'exit 1'
    roce test
    exits_with 1
    says "the build failed"
}

# As Maven takes them: a class with those nested in it, a method, stars, several; and no more than that.
test_a_filter_names_the_same_methods_on_devices_as_in_unit_tests() {
    local filter expected
    while IFS='|' read -r filter expected; do
        with_lib <<LINES
pattern=\$(method_pattern '$filter')
for method in x.AbcTest#m 'x.AbcTest\$Nested#m' x.AbcTest#k x.AbcdTest#m x.XAbcTest#m y.OtherTest#m; do
    if [[ \$method =~ \$pattern ]]; then printf '%s ' "\$method"; fi
done
LINES
        [ "$(<"$BOX/out")" = "$expected" ] || { echo "$filter: $(<"$BOX/out")"; return 1; }
    done <<'LINES'
|x.AbcTest#m x.AbcTest$Nested#m x.AbcTest#k x.AbcdTest#m x.XAbcTest#m y.OtherTest#m 
AbcTest|x.AbcTest#m x.AbcTest$Nested#m x.AbcTest#k 
AbcTest#k|x.AbcTest#k 
Abc*#m|x.AbcTest#m x.AbcTest$Nested#m x.AbcdTest#m 
AbcTest#k,Other*|x.AbcTest#k y.OtherTest#m 
LINES
}

# A fake ci/roce that writes what it was asked for to $BOX/calls, and a run of all tests with it, on a machine with two processors.
two_vms() { # LINES_FOR_RUN LINES_FOR_ENGINE
    mkdir -p "$BOX/nested"
    PATH=$BOX/nested:$PATH
    fake nproc <<<'echo 2'
    fake nested-roce <<LINES
echo "\$1" >>"\$BOX/calls"
reports() { mkdir -p "\$BOX/results/\$1"; echo "<testsuite tests=\"\$2\" failures=\"0\" errors=\"0\" skipped=\"1\">" >"\$BOX/results/\$1/TEST-a.xml"; }
case \$1 in
    run) $1 ;;
    engine) $2 ;;
esac
LINES
    mv "$BOX/bin/nested-roce" "$BOX/nested/roce"
    cat <<LINES
heed_signals
CI_DIR='$BOX/nested' CONTAINERS=yes VM='$BOX/vm' RXE_IN_CONTAINERS=6.0
mkdir -p "\$VM" && echo 6.1 >"\$VM/version"
need_writable_checkout() { :; }
need_jdk() { JDK='$BOX/jdk'; }
need() { :; }
build() { :; }
test_this_script() { :; }
junit() { printf '%s\n' test "\$1"; }
collect_trust_rows() { :; }
choose_way() { WAY=vm; }
prepare_vm() { ACCELERATOR=tcg; }
prepare_engine() { :; }
way_with_engine_here() { :; }
available_mebibytes() { echo "\${MEBIBYTES-20000}"; }
LINES
}

test_tests_on_devices_run_beside_those_in_containers() {
    {
        # shellcheck disable=SC2016 # for the fake program
        two_vms 'echo of devices; read -r -t 60 _ <"$BOX/go" && reports native-reports 5' \
            'reports containers-6.1-reports 3; echo of containers; echo go >"$BOX/go"'
        echo run_tests
    } >"$BOX/lines"
    with_lib <"$BOX/lines"
    exits_with 0
    prints $'of containers\nof devices\n6 passed, 0 failed, 2 skipped'
    [ "$(sort "$BOX/calls")" = $'engine\nrun' ]
}

test_tests_on_devices_run_alone_where_memory_is_scarce() {
    {
        two_vms 'echo not this way' 'reports containers-6.1-reports 3'
        echo 'tests_on_devices() { WAY=vm; echo alone; }'
        echo 'MEBIBYTES=9000 run_tests'
    } >"$BOX/lines"
    with_lib <"$BOX/lines"
    exits_with 0
    prints $'alone\n2 passed, 0 failed, 1 skipped'
}

test_a_signal_during_the_tests_on_devices_ends_the_run() {
    local code
    for code in 129 141 143; do
        {
            two_vms 'echo not this way' 'echo no containers'
            echo "tests_on_devices() { return $code; }; test_pair() { echo no pair; }"
            echo 'PAIR=yes MEBIBYTES=9000 run_tests'
        } >"$BOX/lines"
        with_lib <"$BOX/lines"
        exits_with "$code"
        prints '0 passed, 0 failed, 0 skipped'
    done
}

test_a_failure_on_devices_beside_containers_counts() {
    {
        two_vms 'echo no report; exit 70' 'reports containers-6.1-reports 3'
        echo run_tests
    } >"$BOX/lines"
    with_lib <"$BOX/lines"
    exits_with 1
    prints $'no report\n2 passed, 1 failed, 1 skipped'
    says "tests on devices: the run ended with exit code 70, counted as one failure"
}

# Maven is told to ignore failures, so a module that is not counted could fail unnoticed.
test_failed_unit_tests_of_each_module_count() {
    local modules=0 pom
    {
        two_vms 'reports native-reports 5' 'reports containers-6.1-reports 3'
        echo 'build() {'
        for pom in "$CI_DIR"/../{*,*/*}/pom.xml; do
            modules=$((modules + 1))
            echo "local reports=\$PROJECT/$(realpath --relative-to="$CI_DIR/.." "${pom%/*}")/target/surefire-reports"
            echo "mkdir -p \"\$reports\""
            echo "echo '<testsuite tests=\"1\" failures=\"1\" errors=\"0\" skipped=\"0\">' >\"\$reports/TEST-x.xml\""
        done
        printf '}\nrun_tests\n'
    } >"$BOX/lines"
    with_lib <"$BOX/lines"
    exits_with 1
    prints "6 passed, $modules failed, 2 skipped"
}

test_an_engine_that_does_not_come_up_gets_a_second_try() {
    {
        # shellcheck disable=SC2016 # for the fake program
        two_vms 'reports native-reports 5' \
            'if [ ! -e "$BOX/tried" ]; then echo yes >"$BOX/tried"; exit 70; fi; reports containers-6.1-reports 3'
        echo run_tests
    } >"$BOX/lines"
    with_lib <"$BOX/lines"
    exits_with 0
    prints '6 passed, 0 failed, 2 skipped'
    says "once more, with another VM"
}

test_an_engine_that_never_comes_up_is_a_failure() {
    {
        two_vms 'reports native-reports 5' 'exit 70'
        echo run_tests
    } >"$BOX/lines"
    with_lib <"$BOX/lines"
    exits_with 1
    prints '4 passed, 1 failed, 1 skipped'
    says "tests in containers: the run ended with exit code 70, counted as one failure"
}

test_what_failed_is_named_at_the_end() {
    mkdir -p "$BOX/ci-reports"
    cat >"$BOX/ci-reports/TEST-a.xml" <<'LINES'
<testsuite name="a" tests="4" failures="2" errors="1" skipped="0">
<testcase name="passes()" classname="x.ATest" time="1"/>
<testcase name="fails()" classname="x.ATest" time="1">
<failure message="&#10;Expecting:&#10; &lt;1&gt; &amp; more" type="y"><![CDATA[at x.ATest.fails]]></failure>
</testcase>
<testcase classname="ci" name="of_scripts" time="1"><failure message="exit code 1">+ false</failure></testcase>
<testcase name="ends()" classname="x.ATest" time="1"><error type="y">java.lang.Error</error></testcase>
</testsuite>
LINES
    {
        two_vms 'exit 70' 'reports containers-6.1-reports 3'
        # shellcheck disable=SC2016 # for the fake
        echo 'test_this_script() { count "tests of ci/roce" 1 "$BOX"/ci-reports/TEST-*.xml; }'
        echo run_tests
    } >"$BOX/lines"
    with_lib <"$BOX/lines"
    exits_with 1
    prints $'3 passed, 4 failed, 1 skipped'
    [[ $(<"$BOX/err") == *$'what failed, in short:
x.ATest#fails(): Expecting: <1> & more
ci#of_scripts: exit code 1
x.ATest#ends()
tests on devices: the run ended with exit code 70' ]] || { cat "$BOX/err"; return 1; }
}

test_TERM_while_two_VMs_run() {
    {
        # shellcheck disable=SC2016 # for the fake program
        two_vms 'trap "echo ended >\"$BOX/ended\"; exit 143" TERM; echo $$ >"$BOX/pids"; echo begun >"$BOX/begun"; while :; do sleep 0.1; done' \
            'read -r -t 60 _ <"$BOX/go"'
        echo run_tests
    } >"$BOX/lines"
    start_with_lib <"$BOX/lines"
    await_begun
    await_line "services in containers"
    send_to_roce TERM
    exits_with 143
    [ "$(cat "$BOX/ended")" = ended ]
    nothing_is_left
}
