# shellcheck shell=bash
# What a run needs from the distribution, by Debian's and Ubuntu's package names.
# shellcheck disable=SC2034 # the lists are read by the other parts

RDMA_TOOLS=(libibverbs1 ibverbs-providers librdmacm1 ibverbs-utils rdmacm-utils iproute2)
VM_TOOLS=(qemu-system-x86 kmod xz-utils zstd)
BUILD_TOOLS=(maven)
TEST_TOOLS=(gcc libc6-dev libibverbs-dev librdmacm-dev)

have_apt() { command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; }

installed() { # PACKAGE, or what replaced it under a name of its own (librdmacm1t64)
    [[ $(dpkg-query -W -f ' ${db:Status-Status} ' "$1" "${1}t64" 2>/dev/null) == *' installed '* ]]
}

missing_of() { # PACKAGE… : prints those that are not installed
    local package
    for package in "$@"; do
        case $package in
            maven) command -v mvn >/dev/null && continue ;;
            gcc) command -v "${CC:-cc}" >/dev/null && continue ;;
        esac
        installed "$package" || printf '%s\n' "$package"
    done
}

# Runs a command as root: as it is, or through sudo.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        say "this needs root, and there is no sudo here: $*"
        return 1
    fi
}

# Package lists age: a package that cannot be had is tried once more with fresh ones.
with_fresh_lists() { # COMMAND…
    "$@" >/dev/null 2>&1 || { update_lists && quietly "$*" "$@"; }
}

update_lists() {
    if [ "$INSTALL" = no ]; then
        say "apt's package lists are missing or old, and --no-install says not to touch them: apt-get update"
        return 1
    fi
    quietly "apt-get update" as_root apt-get -q update
}

install_packages() { # PACKAGE…
    [ $# -gt 0 ] || return 0
    say "installing with apt-get: $*"
    with_fresh_lists as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
        -o DPkg::Lock::Timeout=300 install --no-install-recommends "$@"
}

# Sees to it that packages are there, or says which are not and ends.
need() { # WHAT_FOR PACKAGE…
    local what=$1 missing
    shift
    if ! have_apt; then
        detail "no apt here: taking it that $what has what it needs ($*)"
        return 0
    fi
    mapfile -t missing < <(missing_of "$@")
    [ ${#missing[@]} -gt 0 ] || return 0
    [ "$INSTALL" = yes ] ||
        fail 69 "$what needs packages that --no-install says not to install: apt-get install ${missing[*]}"
    install_packages "${missing[@]}" || fail 69 "$what needs packages that could not be installed: apt-get install ${missing[*]}"
}
