# shellcheck shell=bash
# Two Soft-RoCE devices at the two ends of a veth pair, and their removal. Sourced by ci/roce and, as root, in the micro VM.
#
# 198.18.0.0/15 is set aside for tests between devices (RFC 2544): no ordinary network uses it.

ROCE_DEVICES=(roce0 roce1)
ROCE_LINKS=(vroce0 vroce1)
ROCE_ADDRESSES=(198.18.77.1 198.18.77.2)

# Few processes, each given a batch: under emulation each one more takes a tenth of a second.
roce_up() { # [SUDO_FUNCTION]
    local root=${1-}
    $root ip link add "${ROCE_LINKS[0]}" type veth peer name "${ROCE_LINKS[1]}" || return
    # Both ends are in one network namespace: what comes in at one has a source address of this very host, which the kernel
    # drops as a martian unless told that it is meant. Without IPv6 duplicate detection the link-local GIDs are there at once.
    # shellcheck disable=SC2016 # for that shell
    $root sh -c 'for link; do
            echo 1 >/proc/sys/net/ipv4/conf/$link/accept_local
            echo 0 >/proc/sys/net/ipv4/conf/$link/rp_filter
            echo 0 >/proc/sys/net/ipv6/conf/$link/accept_dad
        done 2>/dev/null' sh "${ROCE_LINKS[@]}" || true
    $root ip -batch - <<EOF || return
address add ${ROCE_ADDRESSES[0]}/30 dev ${ROCE_LINKS[0]}
address add ${ROCE_ADDRESSES[1]}/30 dev ${ROCE_LINKS[1]}
link set ${ROCE_LINKS[0]} up
link set ${ROCE_LINKS[1]} up
EOF
    $root rdma -b - <<EOF
link add ${ROCE_DEVICES[0]} type rxe netdev ${ROCE_LINKS[0]}
link add ${ROCE_DEVICES[1]} type rxe netdev ${ROCE_LINKS[1]}
EOF
}

roce_down() { # [SUDO_FUNCTION]
    local device root=${1-}
    for device in "${ROCE_DEVICES[@]}"; do
        [ ! -e "/sys/class/infiniband/$device" ] || $root rdma link delete "$device" || true
    done
    [ ! -e "/sys/class/net/${ROCE_LINKS[0]}" ] || $root ip link delete "${ROCE_LINKS[0]}" || true
}
