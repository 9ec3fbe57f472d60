# shellcheck shell=bash
# Tests of the command line: every option, and every way to use one wrongly, which gives exit code 64 and a sentence.
#
# Reads: BOX (run)
# Sets:  nothing
# For other files: nothing but tests

# Runs ci/roce, which must refuse its words.
refuses() { # SENTENCE WORDS…
    roce "${@:2}"
    exits_with 64
    says "roce: $1 (ci/roce help)"
    [ ! -s "$BOX/out" ]
}

test_no_word_shows_the_usage() {
    roce
    exits_with 64
    says "Usage: ci/roce [OPTIONS] COMMAND"
}

test_help() {
    local word
    for word in help -h --help; do
        roce "$word"
        exits_with 0
        grep -qF "Usage: ci/roce [OPTIONS] COMMAND" "$BOX/out"
    done
    roce run --help -- true
    exits_with 0
    grep -qF "Usage: ci/roce [OPTIONS] COMMAND" "$BOX/out"
}

test_help_names_every_command_and_option() {
    local word
    roce help
    for word in $(sed -nE 's/^            (--?[a-z-]+( \| --?[a-z-]+)*|[a-z]+)\).*/\1/p' "$CI_DIR/roce" | tr -d '|'); do
        case $word in -- | -h | --help) continue ;; esac
        grep -qwF -e "$word" "$BOX/out" || { echo "help does not name $word"; return 1; }
    done
}

test_a_word_that_is_none_is_a_usage_error() {
    refuses "unknown command rum" rum
}

test_unknown_options() {
    refuses "unknown option --quik" --quik run -- true
    refuses "unknown option -x" run -x -- true
}

test_a_word_too_many() {
    refuses "a word too many: true (what is to be run comes after --)" run true
}

test_options_without_their_value() {
    local option
    for option in --on --timeout --results --netem; do
        refuses "$option wants a value" run "$option"
    done
}

test_on() {
    refuses "--on xen: it is one of auto, host, rxe, vm" run --on xen -- true
    refuses "--on : it is one of auto, host, rxe, vm" run --on '' -- true
}

test_timeout() {
    local value
    for value in 0 -1 1.5 5s x; do
        refuses "--timeout $value: a whole number of seconds, 1 or more" run --timeout "$value" -- true
    done
}

test_netem_without_a_pair() {
    refuses "--netem is for the cable between two VMs: ci/roce pair" run --netem 'loss 1%' -- true
    refuses "--netem is for the cable between two VMs: ci/roce pair" --netem 'loss 1%' test --pair
}

test_options_of_other_commands() {
    refuses "--pair is for ci/roce test; the command is ci/roce pair" run --pair -- true
    refuses "--containers is for ci/roce test; the command is ci/roce engine" run --containers -- true
    refuses "--headers is for ci/roce test" demo --headers
    refuses "--quick is for ci/roce bench" test --quick
    refuses "--whole is for ci/roce trust" test --whole
    refuses "--soak is for ci/roce trust" test --soak 5
    refuses "--soak runs one test alone: it takes neither --whole nor a FILTER" trust --soak 5 --whole
    refuses "--soak runs one test alone: it takes neither --whole nor a FILTER" trust --soak 5 -- LedgerTest
    refuses "--timeout is not for ci/roce shell, which ends when its user does" shell --timeout 60
    refuses "--soak 0: a whole number of minutes, 1 or more" trust --soak 0
}

test_nothing_to_run() {
    refuses "run what? ci/roce run -- CMD…" run
    refuses "run what? ci/roce run -- CMD…" run --
    refuses "run what? ci/roce engine -- CMD…" engine
}

test_half_a_pair() {
    local words
    for words in '' '-- a' '-- a --' '-- -- b' '--'; do
        # shellcheck disable=SC2086 # the words
        refuses "a pair of what? ci/roce pair -- SERVER_CMD… -- CLIENT_CMD…" pair $words
    done
}

test_a_pair_elsewhere_than_in_VMs() {
    refuses "--on host: a pair is two kernels with a cable between, which only two VMs give" pair --on host -- a -- b
    refuses "--on rxe: a pair is two kernels with a cable between, which only two VMs give" --on rxe pair -- a -- b
}

test_a_shell_without_a_terminal() {
    refuses "shell wants a terminal; ci/roce run -- CMD… does not" shell
}

test_results_in_a_folder_that_the_VM_has_itself() {
    fake_packages
    refuses "--results /dev/shm: not there, the VM has its own" run --on vm --results /dev/shm -- true
}

test_options_may_follow_the_command() {
    fake_vm
    roce run --on vm --timeout 60 --results "$BOX/kept" --no-install -v -- true
    exits_with 0
    [ -d "$BOX/kept" ]
    roce --timeout 60 --on vm --results "$BOX/before" --no-install --verbose run -- true
    exits_with 0
    [ -d "$BOX/before" ]
}

test_options_behind_the_dashes_are_the_commands() {
    fake_vm
    roce run --on vm -- echo --timeout x -- --on y
    exits_with 0
    prints "--timeout x -- --on y"
}
