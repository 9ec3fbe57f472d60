# shellcheck shell=bash
# Fetches C headers of other versions of rdma-core than this machine's, from the packages of other releases, for the test of the layouts.
#
# Reads: CACHE (roce)
# Sets:  HEADERS_FOUND   the folders with the headers, joined by colons
# For other files: fetch_headers

HEADER_SUITES=(bookworm trixie sid) # rdma-core 44, 56 and the newest
HEADER_PACKAGES=(libibverbs-dev librdmacm-dev)

# Unpacks the headers into $CACHE/headers and sets HEADERS_FOUND.
fetch_headers() {
    local suite
    HEADERS_FOUND=''
    if ! have_apt || [ "$(of_os_release ID)" != debian ]; then
        fail 69 "--headers takes packages of other Debian releases, which takes a Debian"
    fi
    need_writable "$CACHE/headers" "the cache" "point VERBENA_CACHE at another folder"
    for suite in "${HEADER_SUITES[@]}"; do
        step headers_of "$suite" || fail 69 "the headers of $suite could not be had"
        say "headers of $suite: rdma-core $(cat "$CACHE/headers/$suite/version")"
        HEADERS_FOUND+=${HEADERS_FOUND:+:}$CACHE/headers/$suite/usr/include
    done
}

# Its caller tests the outcome, which switches `set -e` off in here: every step says what happens when it fails.
headers_of() { # SUITE
    local folder=$CACHE/headers/$1 made deb
    local -x APT_CONFIG
    APT_CONFIG=$(apt_of_suite "$1") || return
    update_lists || return
    made=$(mktemp -d "$CACHE/headers/making.XXXXXX") || return
    at_exit rm -rf "$made"
    (cd "$made" && quietly "apt-get download" apt-get -q download "${HEADER_PACKAGES[@]}") || return
    for deb in "$made"/*.deb; do dpkg-deb -x "$deb" "$made" || return; done
    dpkg-deb -f "$deb" Version >"$made/version" || return
    rm -rf "$folder" && mv "$made" "$folder"
}
