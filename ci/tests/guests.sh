# shellcheck shell=bash
# Tests of ci/roce with micro VMs, played by a fake QEMU that runs the command on this machine: boot, end, time limits, signals, two
# guests, a container engine.
#
# Reads: BOX (run), RUNNING (tools.sh)
# Sets:  nothing
# For other files: fake_vm, fake_qemu (tests)

# A micro VM that is made already, and a QEMU for it.
fake_vm() {
    local vm
    fake_packages
    fake_qemu <<<run_command
    with_lib <<'LINES'
echo "$CACHE/vm/$(vm_recipe)"
LINES
    read -r vm <"$BOX/out"
    mkdir -p "$vm"
    echo 6.1.0-1-amd64 >"$vm/version"
    touch "$vm/complete" "$vm/kernel" "$vm/initramfs"
}

# A QEMU whose guest does what lines from standard input say, with the functions below; without control over its processes it is as
# vm/session: `report EVENT [VALUE]` to the host, `read_word` from it (sets WORD), and `run_command`.
fake_qemu() {
    fake qemu-system-x86_64 < <(
        cat <<'LINES'
case $* in
    --version) echo "QEMU emulator version 7.2.0"; exit ;;
    *'-netdev help') echo stream; exit ;;
    *verbena.probe*) exit ;; # the trial of KVM: no guest boots
esac
for word; do
    if [[ $word == pipe,id=control,path=* ]]; then run=${word#*path=} run=${run%/control}; fi
done
read -r name <"$run/name"
exec {control}<>"$run/control.in"

report() { echo "$1 $name${2:+ $2}" >"$run/control.out"; }

read_word() { read -r WORD <&"$control"; }

run_command() {
    local command reader code
    report started
    env --default-signal=INT,TERM,HUP bash "$run/command" >>"$run/stdout" 2>>"$run/stderr" </dev/null &
    command=$!
    while read_word; do kill -s "$WORD" "$command"; done 2>/dev/null &
    reader=$!
    wait "$command"
    code=$?
    kill "$reader"
    echo "$code" >"$run/exit"
    report ended "$code"
}

LINES
        cat
    )
}

test_a_guest_runs_the_command_and_gives_its_exit_code() {
    fake_vm
    roce run --on vm -- bash -c 'echo out; echo err >&2; exit 3'
    exits_with 3
    prints out
    says err
    says "roce: micro VM, kernel 6.1.0-1-amd64, software emulation ("
    nothing_is_left
}

test_a_command_in_a_guest_has_the_environment() {
    fake_vm
    fake show <<'LINES'
echo "$PWD $VERBENA_DEVICES $VERBENA_RESULTS $OF_CALLER"
LINES
    export OF_CALLER='a b'
    cd "$BOX/home" || return
    roce run --on vm --results "$BOX/kept" -- show
    exits_with 0
    prints "$BOX/home roce0 roce1 $BOX/kept a b"
}

test_a_command_in_a_guest_beyond_its_limit() {
    fake_vm
    roce --timeout 1 --on vm run -- sleep 60
    exits_with 124
    says "roce: the command did not end within its limit of 1 s: ending it"
    nothing_is_left
}

guest_gets() { # SIGNAL EXIT_CODE
    fake_vm
    fake_endless parent
    start_roce run --on vm -- parent
    await_begun
    send_to_roce "$1"
    exits_with "$2"
}

test_TERM_while_a_guest_runs() { guest_gets TERM 143; }
test_INT_while_a_guest_runs() { guest_gets INT 130; }
test_HUP_while_a_guest_runs() { guest_gets HUP 129; }

test_a_signal_while_a_guest_boots() {
    fake_vm
    fake_qemu <<'LINES'
echo begun >"$BOX/begun"
sleep 60
LINES
    start_roce run --on vm -- true
    await_begun
    send_to_roce TERM
    exits_with 143
    nothing_is_left
}

test_nobody_reads_the_output_of_a_guest() {
    fake_vm
    fake chatter <<'LINES'
while echo y; do sleep 0.1; done
LINES
    { "$BOX/checkout/ci/roce" run --on vm -- chatter 2>"$BOX/err" </dev/null || echo "$?" >"$BOX/code"; } | head -n 1 >"$BOX/out"
    prints y
    [ "$(cat "$BOX/code")" = 141 ]
    nothing_is_left
}

test_a_guest_that_does_not_come_up() {
    fake_vm
    fake_qemu <<'LINES'
echo "BIOS" >"$run/console"
sleep 60
LINES
    with_lib <<'LINES'
VM_BOOT_LIMIT=3
run_with_devices true
LINES
    exits_with 70
    says "roce: nothing came up within 3 s"
    says BIOS
    says "roce: the micro VM did not come up (its console is above)"
}

test_a_guest_with_a_terminal_that_does_not_come_up() {
    fake_vm
    hide pkill # of procps, which a minimal Debian does not have
    fake_qemu <<'LINES'
while [ "$1" != -pidfile ]; do shift; done
echo $$ >"$2"
echo "BIOS" >"$run/console"
exec sleep 1000
LINES
    with_lib_on_terminal <<'LINES'
VM_BOOT_LIMIT=1
interactive_with_devices true
LINES
    exits_with 70
    says BIOS
    says "roce: the micro VM ended before the command did (its console is above)"
}

test_a_qemu_that_fails() {
    fake_vm
    fake_qemu <<'LINES'
echo "Could not allocate memory"
exit 1
LINES
    roce run --on vm -- true
    exits_with 70
    says "qemu: Could not allocate memory"
    says "(it printed nothing)"
}

test_a_guest_whose_kernel_panics() {
    fake_vm
    fake_qemu <<'LINES'
report started
echo "Kernel panic - not syncing: oops" >"$run/console"
LINES
    roce run --on vm -- true
    exits_with 70
    says "Kernel panic - not syncing: oops"
    says "roce: the guest's kernel panicked (see above)"
}

test_a_guest_that_ends_before_its_command() {
    fake_vm
    fake_qemu <<<'report started'
    roce run --on vm -- true
    exits_with 70
    says "roce: the micro VM ended before the command did (its console is above)"
}

test_verbose_shows_the_console() {
    fake_vm
    fake_qemu <<'LINES'
echo "booting" >"$run/console"
run_command
sleep 1
LINES
    roce run --on vm -v -- true
    exits_with 0
    says booting
}

# The guests of a pair: each reports "up", waits for "start", runs its command, and stays until "off".
fake_pair() { # [LINES] : what the server's guest does while its command runs
    fake_vm
    fake_qemu <<LINES
[ "\$name" != server ] || touch "\$run/../cable.socket"
report up
read_word
[ "\$WORD" = start ] || exit 0
if [ "\$name" = server ]; then
    ${1:-:} &
fi
run_command
while [ "\$WORD" != off ]; do read_word; done
LINES
}

test_a_pair_whose_client_succeeds() {
    fake_pair 'report listening'
    fake show <<'LINES'
echo "$VERBENA_ADDRESS $VERBENA_PEER $VERBENA_DEVICES ${VERBENA_RESULTS##*/}"
LINES
    roce pair -- show -- show
    exits_with 0
    grep -qxF "server: 198.18.77.1 198.18.77.2 roce0 server" "$BOX/out"
    grep -qxF "client: 198.18.77.2 198.18.77.1 roce0 client" "$BOX/out"
    nothing_is_left
}

test_a_pair_gives_the_exit_code_of_the_client() {
    fake_pair 'report listening'
    roce pair -- sleep 1 -- bash -c 'exit 5'
    exits_with 5
    says_nothing_of "the server did not end"
}

test_a_pair_gives_the_exit_code_of_the_server_if_the_client_succeeds() {
    fake_pair 'report listening'
    roce pair -- bash -c 'sleep 1; exit 6' -- true
    exits_with 6
}

test_a_server_that_ends_before_it_listens() {
    fake_pair
    roce pair -- true -- true
    exits_with 1
    says "the server ended with exit code 0 before it listened: the client was not started"
    roce pair -- bash -c 'exit 9' -- true
    exits_with 9
}

test_a_server_that_does_not_listen() {
    fake_pair 'report not-listening'
    roce pair -- sleep 1 -- true
    exits_with 0
    says "the server listens nowhere so far: starting the client all the same"
}

test_a_server_that_does_not_end_with_its_client() {
    fake_pair 'report listening'
    with_lib <<'LINES'
GRACE=3
run_pair 2 sleep 60 true
LINES
    exits_with 0
    says "the server did not end within 3 s of the client's end: ending it"
    says_nothing_of "ending its VM"
}

test_a_server_that_ignores_TERM_after_its_client_has_ended() {
    fake_pair 'report listening'
    fake stubborn <<'LINES'
trap '' TERM
while true; do sleep 0.1; done
LINES
    with_lib <<'LINES'
GRACE=3
run_pair 1 stubborn bash -c 'exit 4'
LINES
    exits_with 4
    says "the server did not end when asked to: ending its VM"
}

test_netem_that_tc_refuses() {
    fake_vm
    fake_qemu <<'LINES'
touch "$run/../cable.socket"
read -r words <"$run/netem"
echo "What is \"$words\"?" >"$run/tc"
report refused
LINES
    roce pair --netem 'loss many' -- true -- true
    exits_with 64
    says "roce: --netem 'loss many' was refused: What is \"loss many\"?"
}

test_a_pair_beyond_its_limit() {
    fake_pair 'report listening'
    roce --timeout 1 pair -- sleep 60 -- sleep 60
    exits_with 124
    nothing_is_left
}

test_TERM_while_a_pair_runs() {
    fake_pair 'report listening'
    fake_endless parent
    start_roce pair -- sleep 60 -- parent
    await_begun
    send_to_roce TERM
    exits_with 143
}

test_a_machine_of_a_pair_that_dies() {
    fake_pair 'report listening'
    fake die <<'LINES'
kill -s KILL "$PPID"
exec sleep 60
LINES
    roce pair -- die -- sleep 60
    exits_with 70
    says "the server's micro VM ended before the command did (its console is above)"
    nothing_is_left
}

test_the_server_of_a_pair_that_may_die() {
    fake_pair 'report listening'
    fake die <<'LINES'
sleep 1
kill -s KILL "$PPID"
exec sleep 60
LINES
    roce pair --server-dies -- die -- bash -c 'sleep 2; exit 3'
    exits_with 3
    says "the server's VM has ended, the client goes on"
    nothing_is_left
}

# A container engine in a guest, whose disk is there already, and a docker that succeeds only while the file "answers" is there.
fake_engine() { # LINES, what the engine's guest does
    local disk
    fake_vm
    fake_qemu
    with_lib <<'LINES'
echo "$CACHE/engine/$(image_recipe)-$(date +%Y%m)"
LINES
    read -r disk <"$BOX/out"
    mkdir -p "$disk"
    touch "$disk/disk" "$BOX/answers"
    fake docker <<'LINES'
[ -e "$BOX/answers" ]
LINES
}

engine_that_runs() {
    fake_engine <<'LINES'
report started
echo "engine says this" >"$(cat "$run/results")/engine.log"
report listening
while [ "$WORD" != off ]; do read_word; done
LINES
}

test_an_older_image_serves_where_a_new_one_cannot_be_made() {
    with_lib < <(no_new_image)
    exits_with 69
    says "the container image could not be made"
    with_lib < <(older_images; no_new_image)
    exits_with 0
    says "using the container image of an earlier month"
    [[ $(<"$BOX/out") == *-202402/disk ]]
}

no_new_image() {
    cat <<'LINES'
need() { :; }
need_room() { :; }
as_root() { :; }
make_disk() { return 1; }
prepare_engine
echo "$ENGINE_DISK"
LINES
}

older_images() {
    cat <<'LINES'
for month in 202401 202402; do
    mkdir -p "$CACHE/engine/$(image_recipe)-$month"
    touch "$CACHE/engine/$(image_recipe)-$month/disk"
done
LINES
}

test_a_command_beside_an_engine() {
    engine_that_runs
    fake show <<'LINES'
[ -e "$DOCKER_CERT_PATH/key.pem" ]
echo "${DOCKER_HOST%:*} $DOCKER_TLS_VERIFY"
exit 3
LINES
    roce engine --on vm -- show
    exits_with 3
    prints "tcp://127.0.0.1 1"
    nothing_is_left
}

test_a_command_beside_an_engine_that_has_gone_silent() {
    engine_that_runs
    fake fail <<'LINES'
rm "$BOX/answers"
exit 3
LINES
    roce engine --on vm -- fail
    exits_with 71
    says "the container engine in the VM does not answer any more; the end of $BOX/checkout/target/roce/engine.log:"
    says "engine says this"
}

test_a_command_beside_an_engine_beyond_its_limit() {
    engine_that_runs
    roce --timeout 1 engine --on vm -- sleep 60
    exits_with 124
    nothing_is_left
}

test_TERM_while_a_command_runs_beside_an_engine() {
    engine_that_runs
    fake_endless parent
    start_roce engine --on vm -- parent
    await_begun
    send_to_roce TERM
    exits_with 143
    nothing_is_left
}

test_an_engine_that_does_not_come_up() {
    fake_engine <<'LINES'
report started
report not-listening
sleep 60
LINES
    roce engine --on vm -- true
    exits_with 70
    says "the container engine did not come up"
}

test_an_engine_that_ends_by_itself() {
    fake_engine <<'LINES'
report started
report listening
read -r _ <"$BOX/go"
report ended 5
LINES
    fake parent <<'LINES'
echo go >"$BOX/go"
exec sleep 60
LINES
    roce engine --on vm -- parent
    exits_with 70
    says "the container engine ended by itself, with exit code 5"
    nothing_is_left
}
