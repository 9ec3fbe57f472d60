# shellcheck shell=bash
# shellcheck disable=SC2016 # what is played expands its variables itself
# Where something is missing: a sentence, and exit code 69.

test_no_home() {
    unset HOME VERBENA_CACHE
    roce doctor
    says_nothing_of unbound
    roce help
    [ "$CODE" = 0 ]
}

test_no_folder_for_temporary_files() {
    export TMPDIR=$BOX/nowhere
    roce run -- true
    [ "$CODE" = 69 ]
    says "TMPDIR is $BOX/nowhere, and there is no such folder"
}

test_a_folder_for_temporary_files_that_cannot_be_written() {
    export TMPDIR=/proc
    roce run -- true
    [ "$CODE" = 69 ]
    says "the folder for temporary files, /proc, cannot be written to"
    says "point TMPDIR at another"
}

test_a_full_disk() {
    play mktemp 'ln -s /dev/full "$BOX/full"; echo "$BOX/full"'
    in_parts 'need_writable "$CACHE/vm" "the cache" "point VERBENA_CACHE at another folder"'
    [ "$CODE" = 69 ]
    says "roce: the folder for temporary files, $BOX/tmp, cannot be written to (the disk is full): point TMPDIR at another"
}

test_a_cache_that_cannot_be_written() {
    play_packages
    export VERBENA_CACHE=$BOX/checkout/pom.xml/cache
    roce run --on vm -- true
    [ "$CODE" = 69 ]
    says "roce: the cache, $VERBENA_CACHE/vm, cannot be written to (Not a directory): point VERBENA_CACHE at another folder"
}

test_a_cache_without_room() {
    play_packages
    play df 'printf "Filesystem 1048576-blocks Used Available Capacity Mounted on\n/dev/x 100 95 5 95%% /\n"'
    roce run --on vm -- true
    [ "$CODE" = 69 ]
    says "the cache, $VERBENA_CACHE/vm, has 5 MiB of room"
}

test_a_folder_for_results_that_cannot_be_written() {
    play_packages
    roce run --on vm --results "$BOX/checkout/pom.xml/results" -- true
    [ "$CODE" = 69 ]
    says "the folder for results, $BOX/checkout/pom.xml/results, cannot be written to (Not a directory): name another with --results"
}

test_a_checkout_that_cannot_be_written() {
    in_parts 'PROJECT=/proc build'
    [ "$CODE" = 69 ]
    says "this checkout, /proc, cannot be written to"
    in_parts 'PROJECT=/proc RESULTS=$TMPDIR run_tests'
    [ "$CODE" = 69 ]
    says "this checkout, /proc, cannot be written to"
}

# As apt is: an update that reached nothing is a success unless told otherwise.
play_no_network() {
    play apt-get 'case "$*" in
        *update*) echo "E: Failed to fetch http://archive/InRelease  Temporary failure resolving archive" >&2
            [[ $* != *Error-Mode=any* ]] || exit 100 ;;
        *) echo "E: Unable to locate package" >&2; exit 100 ;;
    esac'
}

test_no_network_and_no_jdk() {
    play_packages
    play_no_network
    play apt-cache ''
    in_parts "JDK_PLACES=(); unset JAVA_HOME; PATH=$BOX/bin:/usr/bin:/bin; command() { [ \"\$2\" != javac ] && builtin command \"\$@\"; }; need_jdk"
    [ "$CODE" = 69 ]
    says "the package archives did not answer (Failed to fetch http://archive/InRelease  Temporary failure resolving archive)"
}

test_no_network_and_a_package_missing() {
    play_packages qemu-system-x86
    play_no_network
    roce run --on vm -- true
    [ "$CODE" = 69 ]
    says "package archives may be out of reach (is there a network?): Failed to fetch"
    says "the micro VM needs packages that could not be installed: apt-get install qemu-system-x86"
}

test_one_archive_of_several_is_silent() {
    play_packages
    play apt-get 'case "$*" in
        *update*) echo "E: Failed to fetch http://other/InRelease" >&2; touch "$BOX/updated"; exit 100 ;;
        *install*) [ -e "$BOX/updated" ] ;;
    esac'
    in_parts 'install_packages maven'
    [ "$CODE" = 0 ]
    says "Failed to fetch http://other/InRelease"
}

test_another_apt_has_the_lists() {
    play_packages
    play apt-get 'case "$*" in
        *update*) echo x >>"$BOX/updates"
            [ "$(wc -l <"$BOX/updates")" -ge 3 ] || { echo "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 1" >&2; exit 100; } ;;
        *install*) [ "$(cat "$BOX/updates" 2>/dev/null | wc -l)" -ge 3 ] ;;
    esac'
    in_parts 'install_packages maven'
    [ "$CODE" = 0 ]
    says "another apt-get has the package lists"
}

test_another_apt_keeps_the_lists() {
    play_packages
    play apt-get 'echo "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 1" >&2; exit 100'
    in_parts 'LISTS_LIMIT=1; install_packages maven'
    [ "$CODE" != 0 ]
    says "another apt-get has had the package lists for 1 s"
    says_nothing_of "out of reach"
}

test_a_jdk_that_is_too_old_is_named() {
    printf 'JAVA_VERSION="17.0.9"\n' >"$BOX/jdk/release"
    in_parts 'INSTALL=no; JDK_PLACES=(); command() { [ "$2" != javac ] && builtin command "$@"; }; need_jdk'
    [ "$CODE" = 69 ]
    says "(JDK 17 in $BOX/jdk is too old)"
}

test_a_jdk_that_is_incomplete_is_named() {
    : >"$BOX/jdk/release"
    in_parts 'INSTALL=no; JDK_PLACES=(); command() { [ "$2" != javac ] && builtin command "$@"; }; need_jdk'
    [ "$CODE" = 69 ]
    says "of the one in $BOX/jdk, the file \"release\" does not say which it is"
}

test_a_qemu_that_aborts_in_the_trial_of_kvm() {
    play qemu-system-x86_64 'kill -ABRT $$'
    in_parts 'VM=$TMPDIR; probe_kvm'
    [ "$CODE" = 0 ]
    [[ $(cat "$BOX/out") == "QEMU ended with exit code 134 before a guest had booted" ]]
    [ ! -s "$BOX/err" ]
}

test_a_qemu_that_hangs_in_the_trial_of_kvm() {
    play_endless qemu-system-x86_64
    in_parts 'VM=$TMPDIR KVM_PROBE_LIMIT=1; probe_kvm'
    [ "$CODE" = 0 ]
    [ "$(cat "$BOX/out")" = "it booted no guest within 1 s" ]
    [ ! -s "$BOX/err" ]
}

test_a_word_that_is_none_is_a_usage_error() {
    roce rum
    [ "$CODE" = 64 ]
    says "unknown command rum"
}
