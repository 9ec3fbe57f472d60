# shellcheck shell=bash
# Two Soft-RoCE devices at the two ends of a veth pair, and their removal. Sourced by ci/roce and, as root, in the micro VM.
#
# 198.18.0.0/15 is set aside for tests between devices (RFC 2544): no ordinary network uses it.

ROCE_DEVICES=(roce0 roce1)
ROCE_LINKS=(vroce0 vroce1)
ROCE_ADDRESSES=(198.18.77.1 198.18.77.2)

roce_up() { # [SUDO_FUNCTION]
    local i link root=${1-}
    # Without IPv6 duplicate detection (nodad) the link-local GIDs are there at once.
    $root ip link add "${ROCE_LINKS[0]}" type veth peer name "${ROCE_LINKS[1]}" || return
    for i in 0 1; do
        link=${ROCE_LINKS[i]}
        # Both ends are in one network namespace: what comes in at one has a source address of this very host, which the
        # kernel drops as a martian unless told that it is meant.
        $root sh -c "echo 1 >/proc/sys/net/ipv4/conf/$link/accept_local
                     echo 0 >/proc/sys/net/ipv4/conf/$link/rp_filter
                     echo 0 >/proc/sys/net/ipv6/conf/$link/accept_dad" 2>/dev/null || true
        $root ip address add "${ROCE_ADDRESSES[i]}/30" dev "$link" || return
        $root ip link set "$link" up || return
    done
    for i in 0 1; do
        $root rdma link add "${ROCE_DEVICES[i]}" type rxe netdev "${ROCE_LINKS[i]}" || return
    done
}

roce_down() { # [SUDO_FUNCTION]
    local device root=${1-}
    for device in "${ROCE_DEVICES[@]}"; do
        [ ! -e "/sys/class/infiniband/$device" ] || $root rdma link delete "$device" || true
    done
    [ ! -e "/sys/class/net/${ROCE_LINKS[0]}" ] || $root ip link delete "${ROCE_LINKS[0]}" || true
}

# Names of devices with a port that is up.
active_devices() {
    local state
    for state in /sys/class/infiniband/*/ports/*/state; do
        [ -e "$state" ] && grep -q ACTIVE "$state" && basename "${state%/ports/*}"
    done | sort -u
}
