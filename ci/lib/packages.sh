# shellcheck shell=bash
# Packages of the distribution, by their names in Debian and Ubuntu: which are missing, installing them, other releases' archives.
# Sourced by ci/roce and, as root, by vm/fill.
#
# Reads: INSTALL, CACHE (roce), SCRATCH (say.sh), APT_CONFIG, CC
# Sets:  ARCHIVES_SILENT   what apt said when package archives did not answer, or empty
# For other files: have_apt, missing_of, need, install_packages, with_fresh_lists, update_lists, as_root, apt_of_suite, archive_line,
#        archives_of_release, archive_of, of_os_release

ARCHIVES_SILENT=''
LISTS_LIMIT=300 # seconds to wait for another apt-get that has locked the lists; unlike `install`, `update` does not wait by itself

have_apt() { command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; }

missing_of() { # PACKAGE… : prints those that are not installed
    local package installed
    # Each, or its successor with 64-bit times (librdmacm1t64).
    installed=$'\n'$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" "${@/%/t64}" 2>/dev/null || true)$'\n'
    for package in "$@"; do
        case $package in
            maven) command -v mvn >/dev/null && continue ;;
            gcc) command -v "${CC:-cc}" >/dev/null && continue ;;
            docker-cli) if command -v docker || ! apt-cache show docker-cli; then continue; fi >/dev/null 2>&1 ;; # docker.io's, up to Debian 12
            docker.io) PATH=$PATH:/usr/sbin:/sbin command -v dockerd >/dev/null && continue ;;
        esac
        [[ $installed == *$'\n'"installed $package"?(t64)$'\n'* ]] || printf '%s\n' "$package"
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

# What apt is to see instead of this machine's own lists: SUITE of the same archive, as in trixie-backports on a Debian 12. Prints a
# configuration for APT_CONFIG whose lists and files are kept in $CACHE/apt, so that nothing of this machine's own changes.
apt_of_suite() { # SUITE
    local folder=$CACHE/apt/$1
    mkdir -p "$folder"/{lists/partial,archives/partial} || return
    archive_line "$1" >"$folder/sources.list" || return
    printf '%s "%s";\n' Dir::Etc::SourceList "$folder/sources.list" Dir::Etc::SourceParts /dev/null Dir::State::Lists "$folder/lists" \
        Dir::Cache "$folder" APT::Sandbox::User root >"$folder/apt.conf" || return
    echo "$folder/apt.conf"
}

# The line of sources.list for a suite of the archive that this machine's own release comes from.
archive_line() { # SUITE [COMPONENT…]
    local suite=$1 uri keyring
    shift
    uri=$(archive_of "${FROM_RELEASE:-$(of_os_release VERSION_CODENAME)}") || {
        say "apt on this machine has no source for ${FROM_RELEASE:-its own release}"
        return 1
    }
    for keyring in /usr/share/keyrings/"$(of_os_release ID)"-archive-keyring.{gpg,pgp}; do
        [ ! -e "$keyring" ] || break
    done
    [ -e "$keyring" ] || keyring=''
    echo "deb ${keyring:+[signed-by=$keyring] }$uri $suite ${*:-main}"
}

# The lines of sources.list for a release, its updates and its security updates, from where this machine has its own.
archives_of_release() { # RELEASE
    local own pocket components=(main)
    own=$(of_os_release VERSION_CODENAME)
    [ "$(of_os_release ID)" != ubuntu ] || components=(main universe)
    archive_line "$1" "${components[@]}" || return
    for pocket in updates security; do
        ! archive_of "$own-$pocket" >/dev/null || FROM_RELEASE=$own-$pocket archive_line "$1-$pocket" "${components[@]}" || return
    done
}

# Prints where apt has a release from (security updates are a release of their own here).
archive_of() { # RELEASE
    local uri
    # shellcheck disable=SC2016 # the variables are apt's
    uri=$(apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' | sed -n "s/^$1 //p" | head -n 1)
    if [[ $uri == mirror+file:* ]]; then # a list of mirrors, as the runners of GitHub have it
        uri=$(sed -nE '/^[a-z]+:/ { s/[[:space:]].*//p; q }' "/${uri#mirror+file:/}")
    fi
    [ -n "$uri" ] || return 1
    echo "$uri"
}

of_os_release() { # NAME
    sed -nE "s/^$1=\"?([^\"]*)\"?\$/\1/p" /etc/os-release
}

# Package lists age: a command that fails is tried once more with fresh ones, also where only some of the archives answered: the
# package may be in one that did.
with_fresh_lists() { # COMMAND…
    "$@" >/dev/null 2>&1 && return
    { update_lists || [ -n "$ARCHIVES_SILENT" ]; } && quietly "$*" "$@"
}

update_lists() {
    if [ "$INSTALL" = no ] && [ -z "${APT_CONFIG-}" ]; then
        say "apt's package lists are missing or old, and --no-install says not to touch them: apt-get update"
        return 1
    fi
    local root=as_root log code=0 locked waited='' until=$((SECONDS + LISTS_LIMIT))
    [ -z "${APT_CONFIG-}" ] || root='' # of apt_of_suite: lists of our own
    [ "$root" != as_root ] || as_root true || return # a password is asked for here, where there is a terminal
    log=$(mktemp -p "$SCRATCH")
    # By default apt only warns of an archive that does not answer.
    until LC_ALL=C step into "$log" "$log" $root apt-get -q -o APT::Update::Error-Mode=any update; do
        locked=no
        ! grep -q 'Could not get lock\|Unable to lock' "$log" || locked=yes
        if [ "$locked" = no ] || [ "$SECONDS" -ge "$until" ]; then
            code=1
            break
        fi
        [ -n "$waited" ] || say "waiting, as another apt-get has the package lists"
        waited=yes
        : >"$log"
        sleep 1 # apt's locks are not flock's: there is no event to wait for
    done
    if [ "$code" != 0 ] && [ "$locked" = yes ]; then
        say "another apt-get has had the package lists for $LISTS_LIMIT s"
    elif [ "$code" != 0 ]; then
        ARCHIVES_SILENT=$(sed -nE 's/^[EW]: //p' "$log" | head -n 1)
        say "apt-get update failed, package archives may be out of reach (is there a network?): $ARCHIVES_SILENT"
    fi
    rm -f "$log"
    return "$code"
}

install_packages() { # PACKAGE…
    [ $# -gt 0 ] || return 0
    say "installing with apt-get: $*"
    with_fresh_lists as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
        -o DPkg::Lock::Timeout=300 install --no-remove --no-install-recommends "$@"
}

# Installs those of the packages that are missing; where that is not allowed or fails, says so and ends.
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
