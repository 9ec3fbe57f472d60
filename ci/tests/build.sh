# shellcheck shell=bash
# shellcheck disable=SC2016 # what is played expands its variables itself
# What is seen of Maven.

test_what_Maven_prints_is_passed_on_but_for_its_remarks_on_itself() {
    play mvn 'echo "WARNING: A terminally deprecated method in sun.misc.Unsafe has been called"
        echo "WARNING: Please consider reporting this to the maintainers of class com.google.common.util.concurrent.AbstractFuture"
        echo "[INFO] Building Verbena core 0.1      [3/5]"
        echo "[INFO] Downloading from central: https://x/y.jar"
        printf "\033[1m[ERROR] a test failed\033[m\n"
        printf "the end, without a newline"
        exit 3'
    in_parts 'maven verify'
    [ "$CODE" = 3 ]
    [ "$(cat "$BOX/out")" = $'[ERROR] a test failed\nthe end, without a newline' ]
    [ ! -s "$BOX/err" ]
}

test_a_build_that_is_silent_for_long_says_how_far_it_is() {
    play mvn 'echo "[INFO] Building Verbena core 0.1      [3/5]"
        echo "[INFO] Downloaded from central: https://x/y.jar (1 kB at 1 kB/s)"
        echo "[INFO] Downloaded from central: https://x/z.jar (1 kB at 1 kB/s)"
        printf "hal"
        sleep 2.5
        echo f'
    in_parts 'BUILD_PATIENCE=1; maven verify'
    [ "$CODE" = 0 ]
    [ "$(cat "$BOX/out")" = half ]
    grep -qE '^roce: still building Verbena core 0\.1: [1-9] s, 2 files downloaded$' "$BOX/err"
}

test_a_build_that_fails() {
    play mvn 'echo "[ERROR] no"; exit 1'
    roce demo
    [ "$CODE" = 1 ]
    says "[ERROR] no"
    says "the build failed"
}
