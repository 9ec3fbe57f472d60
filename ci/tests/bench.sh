# shellcheck shell=bash
# Tests of `ci/roce bench` up to its build: which rows it takes, and what it does where they cannot be measured. And where
# native-test/beside-nvmet writes its report.
#
# Reads: BOX (run)
# Sets:  nothing
# For other files: nothing but tests

test_bench_has_no_such_row() {
    roce bench -- post-pole
    exits_with 64
    says "bench has no row post-pole; it has post-poll post-poll-confined chain chain-confined batch-confined prepared-confined arm-await message allocation two-threads two-pollers idle-queue-pair idle-channel idle-netty cold-start load-queue-pairs load-depth peers-one peers-chain peers-queue-pairs peers-message-64 peers-message-65536 peers-message-1048576 peers-connections-1 peers-connections-5000 peers-netty-64 peers-netty-65536 peers-netty-1048576 peers-netty-grpc peers-netty-flight send-latency"
}

test_bench_asks_for_devices_before_it_builds() {
    fake_packages
    fake uname <<<'echo riscv64'
    fake mvn <<'LINES'
touch "$BOX/built"
LINES
    roce bench --on vm -- post-poll connect
    exits_with 69
    says "--on vm cannot be had here"
    [ ! -e "$BOX/built" ]
}

test_bench_on_the_stand_in_alone_asks_for_no_devices() {
    fake_packages
    fake uname <<<'echo riscv64'
    fake mvn <<<'exit 1'
    roce bench --on vm -- post-poll
    exits_with 1
    says "the build failed"
}

test_bench_counts_on_emulated_processors_and_times_nothing_there() {
    local quick
    fake_vm
    fake mvn <<<'exit 1'
    for quick in '' --quick; do
        roce bench $quick --on vm
        exits_with 1
        says "instructions are counted, and nothing is timed there; name a row to time it: send-latency"
    done
}

test_bench_times_rows_by_name_on_emulated_processors() {
    fake_vm
    fake mvn <<<'exit 1'
    roce bench --on vm -- send-latency
    exits_with 1
    says_nothing_of "nothing is timed"
}

test_bench_counts_nothing_of_a_program_that_failed() {
    with_lib <<LINES
outputs='$BOX/outputs' programs='$BOX' FIXED_ADDRESSES=()
mkdir "\$outputs"
bench_one row-c-1.txt bash -c 'echo RESULT; exit 3'
LINES
    exits_with 0
    says "bash failed, exit code 3"
    [ ! -e "$BOX/outputs/row-c-1.txt" ]
    [ "$(cat "$BOX/outputs/row-c-1.txt.failed")" = RESULT ]
}

# With a fake ci/roce, whose exit code is that of each measurement; the report's folder is in $BOX/report.
beside_nvmet() { # EXIT_CODE WORDS…
    local checkout=$BOX/checkout
    rm "$checkout/ci"
    mkdir -p "$checkout"/{ci,native-test/bench/c}
    cp "$CI_DIR/../native-test/beside-nvmet" "$checkout/native-test"
    fake fio </dev/null
    fake report <<'LINES'
[[ $* != *NvmeReport* ]] || echo "${!#}" >"$BOX/report"
LINES
    mv "$BOX/bin/report" "$BOX/jdk/bin/java"
    fake stub <<<"exit $1"
    mv "$BOX/bin/stub" "$checkout/ci/roce"
    fake stub </dev/null
    mv "$BOX/bin/stub" "$checkout/native-test/bench/c/build"
    run_program ../native-test/beside-nvmet "${@:2}"
}

test_beside_nvmet_replaces_the_committed_results_after_a_whole_run() {
    beside_nvmet 0
    exits_with 0
    [ "$(cat "$BOX/report")" = native-test/bench/results/nvme ]
}

test_beside_nvmet_keeps_the_committed_results_when_a_measurement_failed() {
    beside_nvmet 1
    exits_with 2
    says "native-test/bench/results/nvme stays as it is"
    [ "$(cat "$BOX/report")" = target/nvme ]
}

test_beside_nvmet_has_three_parts() {
    beside_nvmet 0 --only times
    exits_with 64
    says "usage: native-test/beside-nvmet"
}
