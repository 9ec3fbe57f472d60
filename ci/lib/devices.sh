# shellcheck shell=bash
# Makes and removes two Soft-RoCE devices on the two ends of a veth pair; or makes one, on the end of the cable between two micro VMs.
# Sourced by ci/roce and, as root, by vm/session in the micro VM.
#
# Reads: nothing of other files
# Sets:  ROCE_DEVICES, ROCE_LINKS, ROCE_ADDRESSES   the names of the devices, their network devices, and their IPv4 addresses
# For other files: roce_up, roce_down, roce_up_on_cable
#
# 198.18.0.0/15 is set aside for tests between devices (RFC 2544): no ordinary network uses it.

ROCE_DEVICES=(roce0 roce1)
ROCE_LINKS=(vroce0 vroce1)
ROCE_ADDRESSES=(198.18.77.1 198.18.77.2)

roce_up() { # [SUDO_FUNCTION]
    local root=${1-}
    $root ip link add "${ROCE_LINKS[0]}" type veth peer name "${ROCE_LINKS[1]}" || return
    roce_on_links "$root"
}

# Few processes, each given a batch: under emulation each one more takes a tenth of a second.
roce_on_links() { # [SUDO_FUNCTION]
    local i root=${1-}
    # Both ends of the veth pair are in one network namespace: packets that come in at one have a source address of this very host.
    # Without accept_local the kernel drops them as martians. Without IPv6 duplicate detection the link-local GIDs are there at once.
    # shellcheck disable=SC2016 # the shell that runs as root expands $link
    $root sh -c 'for link; do
            echo 1 >/proc/sys/net/ipv4/conf/$link/accept_local
            echo 0 >/proc/sys/net/ipv4/conf/$link/rp_filter
            echo 0 >/proc/sys/net/ipv6/conf/$link/accept_dad
        done 2>/dev/null' sh "${ROCE_LINKS[@]}" || true
    {
        for i in "${!ROCE_LINKS[@]}"; do echo "address add ${ROCE_ADDRESSES[i]}/30 dev ${ROCE_LINKS[i]}"; done
        printf 'link set %s up\n' "${ROCE_LINKS[@]}"
    } | $root ip -batch - || return
    for i in "${!ROCE_LINKS[@]}"; do echo "link add ${ROCE_DEVICES[i]} type rxe netdev ${ROCE_LINKS[i]}"; done | $root rdma -b -
}

roce_down() { # [SUDO_FUNCTION]
    local device root=${1-}
    for device in "${ROCE_DEVICES[@]}"; do
        [ ! -e "/sys/class/infiniband/$device" ] || $root rdma link delete "$device" || true
    done
    [ ! -e "/sys/class/net/${ROCE_LINKS[0]}" ] || $root ip link delete "${ROCE_LINKS[0]}" || true
}

# One device in each of two guests: the cable's end is a guest's only network card, which the kernel names eth0. The unique local
# addresses beside (fd, then "verbe" in ASCII) are no part of IPv4's GID, which keeps index 1.
roce_up_on_cable() { # NUMBER (1 or 2)
    ROCE_DEVICES=(roce0) ROCE_LINKS=(eth0) ROCE_ADDRESSES=("${ROCE_ADDRESSES[$1 - 1]}")
    roce_on_links && ip address add "fd76:6572:6265::$1/64" dev eth0 nodad
}
