# shellcheck shell=bash
# The three ways to two RDMA devices, best first: host, rxe, vm. Chooses one, makes it ready, and runs a command there.
#
# Reads: ON, RESULTS, COMMAND (roce), GRACE (signals.sh), ROCE_DEVICES (devices.sh), VM, ACCELERATOR, WHY_NO_KVM (vm.sh),
#        VERBENA_DEVICES
# Sets:  WAY               host, rxe or vm
#        RESULTS           as an absolute path
#        ROCE_LOCK         with rxe: the descriptor of the lock on the devices
#        VERBENA_DEVICES, VERBENA_RESULTS   in the environment of the command
# For other files: WAYS, RDMA_TOOLS, why_not, choose_way, prepare_way, describe_way, lasting_devices, run_with_devices, run_here,
#        interactive_with_devices

WAYS=(host rxe vm)
RDMA_TOOLS=(libibverbs1 ibverbs-providers librdmacm1 ibverbs-utils rdmacm-utils iproute2)

# Prints in a line why a way cannot be taken here, or nothing.
why_not() { # WAY
    case $1 in
        host) why_no_host ;;
        rxe) why_no_rxe ;;
        vm) why_no_vm ;;
    esac
}

why_no_host() {
    local device active
    active=$(lasting_devices)
    if [ -z "$active" ] && [ -e "/sys/class/infiniband/${ROCE_DEVICES[0]}" ]; then
        echo "${ROCE_DEVICES[*]} are another ci/roce's, or of one that died (VERBENA_DEVICES='${ROCE_DEVICES[*]}' takes them all the same)"
        return
    elif [ -z "$active" ]; then
        echo "no device with an active port in /sys/class/infiniband"
        return
    fi
    for device in /dev/infiniband/uverbs*; do
        [ -r "$device" ] && [ -w "$device" ] && return
    done
    echo "device $active is active, but no /dev/infiniband/uverbs* may be opened by $(id -un)"
}

# Prints the devices with a port that is up, with commas between. Leaves out Soft-RoCE devices that another run made, or left behind
# when it died: they may go at any moment. In a command of ci/roce (VERBENA_DEVICES is set) they are this run's own, and count.
lasting_devices() {
    local state device names=''
    for state in /sys/class/infiniband/*/ports/*/state; do
        if [ ! -e "$state" ] || ! grep -q ACTIVE "$state"; then continue; fi
        device=$(basename "${state%/ports/*}")
        if [ -z "${VERBENA_DEVICES-}" ] && [[ " ${ROCE_DEVICES[*]} " == *" $device "* ]]; then continue; fi
        [[ ", $names, " == *", $device, "* ]] || names+=${names:+, }$device
    done
    echo "$names"
}

why_no_rxe() {
    if [ ! -e /sys/module/rdma_rxe ] && ! PATH=$PATH:/usr/sbin:/sbin modprobe -nq rdma_rxe 2>/dev/null; then
        echo "kernel $(uname -r) has no module rdma_rxe"
    elif [ "$(id -u)" != 0 ] && ! sudo -n true 2>/dev/null; then
        echo "making network devices needs root, and sudo does not give it to $(id -un) unasked"
    fi
}

# Sets WAY, or ends with the reasons.
choose_way() { # auto|host|rxe|vm
    local way why reasons=''
    if [ "$1" != auto ]; then
        why=$(why_not "$1")
        [ -z "$why" ] || fail 69 "--on $1 cannot be had here: $why"
        WAY=$1
        return
    fi
    for way in "${WAYS[@]}"; do
        why=$(why_not "$way")
        if [ -z "$why" ]; then
            WAY=$way
            detail "taking the way '$way'"
            return
        fi
        reasons+="; $way: $why"
    done
    fail 69 "no way to RDMA devices here: ${reasons#; }"
}

# Chooses a way and makes its devices ready; sets WAY.
prepare_way() { # auto|host|rxe|vm
    choose_way "$1"
    need "running on RDMA devices" "${RDMA_TOOLS[@]}"
    need_writable "$RESULTS" "the folder for results" "name another with --results"
    RESULTS=$(cd "$RESULTS" && pwd -P) # in the VM it is mounted before links into other places mean anything
    case $RESULTS in
        / | /dev | /dev/* | /proc/* | /sys/* | /run | /run/*) usage_error "--results $RESULTS: not there, the VM has its own" ;;
    esac
    export VERBENA_RESULTS=$RESULTS
    if [ "$WAY" = rxe ] && ! prepare_rxe; then
        [ "$1" = auto ] || fail 69 "Soft-RoCE could not be set up on this kernel"
        say "Soft-RoCE could not be set up on this kernel: taking the micro VM"
        WAY=vm
    fi
    [ "$WAY" != vm ] || prepare_vm
    [ "$WAY" = host ] || export VERBENA_DEVICES="${ROCE_DEVICES[*]}"
    [ "$WAY" = vm ] || ulimit -l unlimited 2>/dev/null || true # registered memory is locked memory
    say "$(describe_way)"
}

describe_way() {
    local vm='micro VM'
    [ "$COMMAND" != pair ] || vm='two micro VMs'
    case $WAY in
        host) echo "on this machine's kernel, devices $(lasting_devices)" ;;
        rxe) echo "on this machine's kernel, devices ${ROCE_DEVICES[0]}, ${ROCE_DEVICES[1]}" ;;
        vm)
            if uses_kvm; then
                echo "$vm, kernel $(cat "$VM/version"), KVM"
            else
                echo "$vm, kernel $(cat "$VM/version"), software emulation ($WHY_NO_KVM)"
            fi
            ;;
    esac
}

prepare_rxe() {
    # The names of links and devices are fixed: only one run of any user at a time. The lock is on the tool that makes them, a file
    # that all users can open.
    exec {ROCE_LOCK}<"$(PATH=$PATH:/usr/sbin:/sbin command -v rdma)"
    take_lock "$ROCE_LOCK" "another ci/roce has the Soft-RoCE devices"
    [ -e /sys/module/rdma_rxe ] || quietly "modprobe rdma_rxe" as_root modprobe rdma_rxe || return
    roce_down as_root # what a killed run left
    if ! quietly "making two Soft-RoCE devices" roce_up as_root; then
        roce_down as_root
        return 1
    fi
    at_exit roce_down as_root
}

run_with_devices() { # COMMAND…
    make_run_folder
    prepare_way "$ON"
    if [ "$WAY" = vm ]; then run_in_vm "$@"; else run_here "$@"; fi
}

run_here() { # COMMAND…
    local code=0
    start_here "$@"
    at_exit kill_group "$HERE"
    follow command "$GRACE" || code=$?
    return "$code"
}

interactive_with_devices() { # COMMAND…
    make_run_folder
    prepare_way "$ON"
    if [ "$WAY" = vm ]; then
        interactive_in_vm "$@"
    else
        "$@"
    fi
}
