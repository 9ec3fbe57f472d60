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
