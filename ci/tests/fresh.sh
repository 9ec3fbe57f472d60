# shellcheck shell=bash
# Tests of ci/fresh, with a fake mmdebstrap, and a fake unshare that runs nothing.
#
# Reads: BOX (run), RUNNING (tools.sh)
# Sets:  nothing
# For other files: nothing but tests

fresh_refuses() { # SENTENCE WORDS…
    fresh "${@:2}"
    exits_with 64
    says "fresh: $1 (ci/fresh help)"
}

# A Debian on which everything can be had. What mmdebstrap is given is in $BOX/made, the new root as ci/fresh leaves it to the commands
# in $BOX/root, and what runs in it in $BOX/ran, a line each.
fake_debian() {
    [ "$(sed -n 's/^ID=//p' /etc/os-release)" = debian ] || skip "ci/fresh takes a Debian"
    fake_packages
    fake apt-get <<'LINES'
[ "$1" = indextargets ] || exit 0
release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
echo "$release http://archive/debian"
echo "$release-security http://archive/security"
LINES
    fake apt-config <<'LINES'
echo 'Acquire "";'
echo 'Acquire::http::Proxy "http://proxy:3128";'
echo 'Acquire::IndexTargets::deb::Packages::Optional "0";'
LINES
    fake df </dev/null # whether there is room is not known
    fake git <<'LINES'
case "$*" in
    *status*) cat "$BOX/changed" 2>/dev/null ;;
    clone*) mkdir -p "${@: -1}/ci" && echo "clone of ${@: -2:1}" >"${@: -1}/ci/roce" ;;
esac
LINES
    fake mmdebstrap <<'LINES'
mkdir "$BOX/made"
for word; do
    [[ $word != --aptopt=* ]] || cp "${word#*=}" "$BOX/made/apt.conf"
done
cp "${@: -1}" "$BOX/made/sources"
mkdir -p "${@: -2:1}"/{etc,root,opt,proc,sys,dev,usr/local/share/ca-certificates}
echo "${@: -3:1}" >"${@: -2:1}/etc/release"
LINES
    # As far as the shell that mounts and changes the root; its words: sh, the root, the environment and the command.
    fake unshare <<'LINES'
while [ "$1" != -ec ]; do shift; done
shift 3
[ -e "$BOX/root" ] || ln -s "$1" "$BOX/root"
printf '%s\n' "${*:2}" >>"$BOX/ran"
case "$*" in
    *update-ca-certificates | *'/bin/java -version') exit ;;
esac
cp -rT "$BOX/root/" "$BOX/copy"
[[ $* != *"ci/roce demo" ]] || exit "$(cat "$BOX/demo" 2>/dev/null || echo 0)"
[[ $* != *"ci/roce test" ]] || exit "$(cat "$BOX/test" 2>/dev/null || echo 0)"
LINES
}

root_is_gone() {
    [ -z "$(find "$BOX/tmp" -mindepth 1)" ]
}

test_fresh_without_a_release_shows_its_usage() {
    fresh
    exits_with 64
    says "Usage: ci/fresh [OPTIONS] debian-12|debian-13 [-- CMD…]"
}

test_fresh_help_names_every_option() {
    local word
    fresh help
    exits_with 0
    for word in $(sed -nE 's/^            (--?[a-z-]+( \| --?[a-z-]+)*)\).*/\1/p' "$CI_DIR/fresh" | tr -d '|'); do
        grep -qwF -e "$word" "$BOX/out" || { echo "help does not name $word"; return 1; }
    done
}

test_words_that_fresh_refuses() {
    fresh_refuses "unknown release debian-11: it is debian-12 or debian-13" debian-11
    fresh_refuses "unknown option --quick" --quick debian-13
    fresh_refuses "a word too many: debian-13" debian-12 debian-13
    fresh_refuses "run what? ci/fresh RELEASE -- CMD…" debian-12 --
}

test_a_fresh_root_is_made_as_apt_is_set_here() {
    fake_debian
    fresh debian-13
    exits_with 0
    [ "$(cat "$BOX/made/apt.conf")" = 'Acquire::http::Proxy "http://proxy:3128";' ]
    [ "$(sed 's/ \[.*\]//' "$BOX/made/sources")" = $'deb http://archive/debian trixie main\ndeb http://archive/security trixie-security main' ]
    [ "$(cat "$BOX/copy/etc/release")" = trixie ]
    [ "$(cat "$BOX/copy/root/verbena/ci/roce")" = "clone of $BOX/checkout" ]
    cmp /etc/resolv.conf "$BOX/copy/etc/resolv.conf"
    root_is_gone
}

test_both_commands_of_the_README_run_in_a_fresh_root() {
    fake_debian
    export http_proxy=http://proxy OF_CALLER=x
    fresh debian-13
    exits_with 0
    grep -vF update-ca-certificates "$BOX/ran" >"$BOX/commands"
    [ "$(cut -d' ' -f1,3- "$BOX/commands")" = "HOME=/root http_proxy=http://proxy bash -c cd /root/verbena && ci/roce demo
HOME=/root http_proxy=http://proxy bash -c cd /root/verbena && ci/roce test" ] || { cat "$BOX/commands"; return 1; }
    says "fresh: debian-13: ci/roce demo: exit code 0 after 0 min"
    says "fresh: debian-13: ci/roce test: exit code 0 after 0 min"
}

test_the_exit_code_of_fresh_is_that_of_the_first_command_that_fails() {
    fake_debian
    echo 69 >"$BOX/demo"
    echo 1 >"$BOX/test"
    fresh debian-13
    exits_with 69
    says "fresh: debian-13: ci/roce demo: exit code 69 after 0 min"
    says "fresh: debian-13: ci/roce test: exit code 1 after 0 min"
    root_is_gone
}

test_another_command_in_a_fresh_root_that_is_kept() {
    fake_debian
    fresh debian-13 --keep -- echo 'a  b'
    exits_with 0
    [[ $(tail -n 1 "$BOX/ran") == *"bash -c cd /root/verbena && echo a\ \ b "* ]]
    says "fresh: the root file system is left in $BOX/tmp/verbena-fresh."
    [ "$(cat "$BOX/root/etc/release")" = trixie ]
}

test_a_release_without_a_JDK_25_gets_that_of_this_machine() {
    fake_debian
    ln -s /etc/os-release "$BOX/jdk/link"
    fresh debian-12
    exits_with 0
    [ "$(cat "$BOX/copy/etc/release")" = bookworm ]
    [ "$(cat "$BOX/copy/opt/jdk/release")" = 'JAVA_VERSION="25.0.1"' ]
    [ ! -L "$BOX/copy/opt/jdk/link" ] # it might lead to what is not there
    [ "$(grep -c ' JAVA_HOME=/opt/jdk bash -c ' "$BOX/ran")" = 2 ]
    rm -r "$BOX"/{made,copy,root,ran}
    fresh debian-13
    exits_with 0
    [ ! -e "$BOX/copy/opt/jdk" ]
    [ "$(grep -c JAVA_HOME "$BOX/ran")" = 0 ]
}

test_a_JDK_for_a_fresh_root_that_is_missing_or_does_not_run() {
    fake_debian
    fake unshare <<<'[[ $* != *"/bin/java -version" ]]'
    fresh debian-12
    exits_with 69
    says "the JDK in $BOX/jdk does not run on debian-12: point JAVA_HOME at another"
    root_is_gone
    printf 'JAVA_VERSION="17.0.9"\n' >"$BOX/jdk/release"
    hide javac
    with_lib <<LINES
HOME='$BOX/home' . <(sed '/^make_and_run /d; s,^CI_DIR=.*,CI_DIR="$CI_DIR",' "$CI_DIR/fresh")
JDK_PLACES=()
make_and_run debian-12
LINES
    exits_with 69
    says "debian-12 has no package of JDK 25, so this machine's is copied: Verbena needs a JDK 25 or newer and none was found"
}

test_a_fresh_root_gets_the_settings_of_Maven_and_its_repository_where_asked() {
    fake_debian
    mkdir -p "$BOX/home/.m2/repository/a"
    echo '<settings/>' >"$BOX/home/.m2/settings.xml"
    fresh debian-13
    exits_with 0
    [ "$(cat "$BOX/copy/root/.m2/settings.xml")" = '<settings/>' ]
    [ ! -e "$BOX/copy/root/.m2/repository" ]
    rm -r "$BOX"/{made,copy,root,ran}
    fresh debian-13 --maven-repository
    exits_with 0
    [ -d "$BOX/copy/root/.m2/repository/a" ]
}

test_changes_that_are_not_committed_are_not_in_a_fresh_root() {
    fake_debian
    echo ' M pom.xml' >"$BOX/changed"
    fresh debian-13
    exits_with 0
    says "fresh: changes that are not committed are left out"
}

test_a_checkout_that_cannot_be_cloned() {
    fake_debian
    fake git <<<'exit 128'
    fresh debian-13
    exits_with 69
    says "fresh: $BOX/checkout has no commit that could be cloned"
}

test_a_fresh_root_that_cannot_be_made() {
    fake_debian
    fake mmdebstrap <<'LINES'
echo "E: no such suite" >&2
exit 1
LINES
    fresh debian-13
    exits_with 69
    says "E: no such suite"
    says "fresh: debian-13 could not be made"
    root_is_gone
}

test_TERM_while_a_fresh_root_is_made() {
    fake_debian
    fake_endless mmdebstrap
    start_group "$BOX/checkout/ci/fresh" debian-13
    await_begun
    send_to_roce TERM
    exits_with 143
    says "fresh: interrupted by TERM"
    nothing_is_left
    root_is_gone
}

test_Ctrl_C_while_a_command_runs_in_a_fresh_root() {
    fake_debian
    fake_endless unshare '[[ $* == *"ci/roce demo" ]]'
    start_group "$BOX/checkout/ci/fresh" debian-13
    await_begun
    press_ctrl_c
    exits_with 130
    nothing_is_left
    root_is_gone
    says_nothing_of "ci/roce test"
}
