# shellcheck shell=bash
# shellcheck disable=SC2016 # what is played expands its variables itself
# A signal while ci/roce is at work: 128 + its number, and nothing is left.

# The signal goes to ci/roce alone, as from kill.
roce_is_told() { # SIGNAL EXIT_CODE
    kill -s "$1" "$RUNNING"
    roce_ends
    [ "$CODE" = "$2" ]
    says "interrupted by $1"
    nothing_is_left
}

# And here to all that the terminal has in the foreground.
roce_gets_ctrl_c() {
    kill -s INT -- "-$RUNNING"
    roce_ends
    [ "$CODE" = 130 ]
    says "interrupted by INT"
    nothing_is_left
}

building() {
    play_endless mvn
    roce_begins demo
    await_begun
}

test_TERM_during_the_build() { building; roce_is_told TERM 143; }
test_INT_during_the_build() { building; roce_is_told INT 130; }
test_HUP_during_the_build() { building; roce_is_told HUP 129; }
test_Ctrl_C_during_the_build() { building; roce_gets_ctrl_c; }

making_the_vm() {
    play_packages
    play_endless apt-get '[[ $* == *download* ]]'
    roce_begins run --on vm -- true
    await_begun
}

test_TERM_while_the_VM_is_made() { making_the_vm; roce_is_told TERM 143; }
test_Ctrl_C_while_the_VM_is_made() { making_the_vm; roce_gets_ctrl_c; }

test_TERM_while_another_makes_the_VM() {
    play_packages
    mkdir -p "$VERBENA_CACHE/vm"
    exec {lock}>"$VERBENA_CACHE/vm/lock"
    flock "$lock"
    roce_begins run --on vm -- true
    await_line "another ci/roce is making the micro VM"
    roce_is_told TERM 143
}

# Half installed packages are worse than waiting: apt goes on, as it does, and ci/roce ends after it.
test_Ctrl_C_while_a_package_is_installed() {
    play_packages qemu-system-x86
    play apt-get 'trap "" INT
        [[ $* == *install* ]] || exit 0
        echo begun >"$BOX/begun"
        read -r _ <"$BOX/go"
        touch "$BOX/installed"'
    roce_begins run --on vm -- true
    await_begun
    kill -s INT -- "-$RUNNING"
    echo go >&"$GO"
    roce_ends
    [ "$CODE" = 130 ]
    [ -e "$BOX/installed" ]
    says "interrupted by INT"
    says_nothing_of "making the micro VM"
    nothing_is_left
}

test_TERM_while_package_lists_are_fetched() {
    play_packages qemu-system-x86
    play_endless apt-get '[[ $* != *install* ]] || exit 1; [[ $* == *update* ]]'
    roce_begins run --on vm -- true
    await_begun
    roce_is_told TERM 143
}

test_what_heeds_no_TERM_is_killed() {
    play mvn 'trap "" TERM
        echo $$ >"$BOX/pids"
        echo begun >"$BOX/begun"
        while true; do sleep 1; done'
    roce_begins demo
    await_begun
    roce_is_told TERM 143
}

test_the_exit_code_of_a_step() {
    in_parts 'code=0; step bash -c "exit 3" || code=$?; echo "$code"; step true; echo "$STEP."'
    [ "$CODE" = 0 ]
    [ "$(cat "$BOX/out")" = $'3\n.' ]
}
