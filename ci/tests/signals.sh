# shellcheck shell=bash
# Tests of a signal while ci/roce itself is at work: the exit code is 128 and the signal's number, and nothing is left.
#
# Reads: BOX (run), RUNNING (tools.sh)
# Sets:  nothing
# For other files: nothing but tests

roce_gets() { # SIGNAL EXIT_CODE
    send_to_roce "$1"
    exits_with "$2"
    says "interrupted by $1"
    nothing_is_left
}

roce_gets_ctrl_c() {
    press_ctrl_c
    exits_with 130
    says "interrupted by INT"
    nothing_is_left
}

building() {
    fake_endless mvn
    start_roce demo
    await_begun
}

test_TERM_during_the_build() { building; roce_gets TERM 143; }
test_INT_during_the_build() { building; roce_gets INT 130; }
test_HUP_during_the_build() { building; roce_gets HUP 129; }
test_Ctrl_C_during_the_build() { building; roce_gets_ctrl_c; }

making_the_vm() {
    fake_packages
    fake_endless apt-get '[[ "$*" == *download* ]]'
    start_roce run --on vm -- true
    await_begun
}

test_TERM_while_the_VM_is_made() { making_the_vm; roce_gets TERM 143; }
test_Ctrl_C_while_the_VM_is_made() { making_the_vm; roce_gets_ctrl_c; }

test_TERM_while_another_makes_the_VM() {
    fake_packages
    mkdir -p "$VERBENA_CACHE/vm"
    exec {lock}>"$VERBENA_CACHE/vm/lock"
    flock "$lock"
    start_roce run --on vm -- true
    await_line "another ci/roce is making the micro VM"
    roce_gets TERM 143
}

# Half installed packages are worse than waiting: apt goes on, and ci/roce ends after it.
test_Ctrl_C_while_a_package_is_installed() {
    fake_packages qemu-system-x86
    fake apt-get <<'LINES'
trap "" INT
[[ $* == *install* ]] || exit 0
echo begun >"$BOX/begun"
read -r _ <"$BOX/go"
touch "$BOX/installed"
LINES
    start_roce run --on vm -- true
    await_begun
    kill -s INT -- "-$RUNNING"
    let_go_on
    await_end
    exits_with 130
    [ -e "$BOX/installed" ]
    says "interrupted by INT"
    says_nothing_of "making the micro VM"
    nothing_is_left
}

test_TERM_while_package_lists_are_fetched() {
    fake_packages qemu-system-x86
    fake_endless apt-get '[[ $* != *install* ]] || exit 1; [[ $* == *update* ]]'
    start_roce run --on vm -- true
    await_begun
    roce_gets TERM 143
}

test_what_heeds_no_TERM_is_killed() {
    fake mvn <<'LINES'
trap "" TERM
echo $$ >"$BOX/pids"
echo begun >"$BOX/begun"
while true; do sleep 1; done
LINES
    start_roce demo
    await_begun
    roce_gets TERM 143
}

test_the_exit_code_of_a_step() {
    with_lib <<'LINES'
code=0
step bash -c "exit 3" || code=$?
echo "$code"
step true
echo "$STEP."
LINES
    exits_with 0
    prints $'3\n.'
}
