# shellcheck shell=bash
# Tests of a command that runs on this machine: its exit code and output, time limits, signals.
#
# Reads: BOX (run)
# Sets:  nothing
# For other files: nothing but tests

# Prints lines that run a command as ci/roce does where the devices are this machine's own, without asking for devices.
run_on_host() { # LIMIT COMMAND…
    echo "LIMIT=$1 GRACE=4 VERBOSE=yes
        make_run_folder
        heed_signals
        run_here $(printf '%q ' "${@:2}")"
}

test_exit_codes_of_a_command_pass() {
    local code
    for code in 0 3 255; do
        with_lib < <(run_on_host '' bash -c "exit $code")
        exits_with "$code"
    done
}

test_a_command_that_does_not_exist() {
    with_lib < <(run_on_host '' no-such-command)
    exits_with 127
    says "no-such-command: not found"
}

test_a_command_killed_by_a_signal() {
    fake crash <<'LINES'
kill -s SEGV $$
LINES
    with_lib < <(run_on_host '' crash)
    exits_with 139
}

test_output_and_errors_of_a_command_stay_apart() {
    with_lib < <(run_on_host '' bash -c 'echo out; echo err >&2')
    exits_with 0
    prints out
    says err
}

test_a_command_has_no_input() {
    with_lib < <(run_on_host '' cat)
    exits_with 0
    prints ''
}

test_a_command_within_its_limit() {
    with_lib < <(run_on_host 60 true)
    exits_with 0
}

test_a_command_beyond_its_limit() {
    with_lib < <(run_on_host 1 sleep 60)
    exits_with 124
    says "roce: the command did not end within its limit of 1 s: ending it"
}

test_a_command_beyond_its_limit_that_ignores_TERM() {
    with_lib < <(run_on_host 1 bash -c 'trap "" TERM; while true; do sleep 1; done')
    exits_with 124
}

test_children_of_a_command_end_with_it() {
    fake_endless parent
    with_lib < <(run_on_host 1 parent)
    exits_with 124
    nothing_is_left
}

command_gets() { # SIGNAL EXIT_CODE
    fake_endless parent
    start_with_lib < <(run_on_host '' parent)
    await_begun
    await_line "roce: the command runs"
    send_to_roce "$1"
    exits_with "$2"
    nothing_is_left
}

test_TERM_while_a_command_runs() { command_gets TERM 143; }
test_INT_while_a_command_runs() { command_gets INT 130; }
test_HUP_while_a_command_runs() { command_gets HUP 129; }

test_Ctrl_C_while_a_command_runs() {
    fake_endless parent
    start_with_lib < <(run_on_host '' parent)
    await_begun
    await_line "roce: the command runs"
    press_ctrl_c
    exits_with 130
    nothing_is_left
}

test_a_command_may_handle_TERM_itself() {
    fake handler <<'LINES'
trap 'echo cleaned up; exit 7' TERM
echo begun >"$BOX/begun"
while true; do sleep 0.1; done
LINES
    start_with_lib < <(run_on_host '' handler)
    await_begun
    await_line "roce: the command runs"
    send_to_roce TERM
    exits_with 7
    prints "cleaned up"
}

test_a_second_Ctrl_C_kills_a_command_that_ignores_the_first() {
    fake stubborn <<'LINES'
trap 'echo begun >"$BOX/begun"' INT
echo $$ >"$BOX/pids"
echo begun >"$BOX/begun"
while true; do sleep 0.1; done
LINES
    start_with_lib < <(run_on_host '' stubborn)
    await_begun
    await_line "roce: the command runs"
    kill -s INT "$RUNNING"
    await_begun # the first has arrived
    send_to_roce INT
    exits_with 130
    nothing_is_left
}

test_a_command_that_ignores_TERM_is_killed_after_a_signal() {
    fake stubborn <<'LINES'
trap '' TERM
echo $$ >"$BOX/pids"
echo begun >"$BOX/begun"
while true; do sleep 0.1; done
LINES
    start_with_lib < <(run_on_host '' stubborn)
    await_begun
    await_line "roce: the command runs"
    send_to_roce TERM
    exits_with 143
    nothing_is_left
}
