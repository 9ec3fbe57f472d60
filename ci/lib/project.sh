# shellcheck shell=bash
# Builds this project, runs its demo and its tests.
#
# Reads: CI_DIR, PROJECT, CACHE, RESULTS, LIMIT, INSTALL, HEADERS, PAIR, CONTAINERS (roce), TRUST_OPTIONS (trust.sh), WAY, RDMA_TOOLS (ways.sh), VM (vm.sh),
#        ROCE_ADDRESSES (devices.sh), ENGINE_LOST and ENGINE_NOT_UP (engine.sh), HEADERS_FOUND (headers.sh), ARCHIVES_SILENT
#        (packages.sh), JAVA_HOME and JAVA*_HOME
# Sets:  JDK       the home of a JDK 25 or newer
#        FILTER    which tests to run, or empty
#        COUNTED   how many tests passed, failed and were skipped
#        FAILED    what failed, a line for each
#        ON_DEVICES  the process of the tests on devices, where they run beside those in containers, or empty
#        LIMIT, RESULTS (roce): a default, an absolute path
#        JAVA_HOME, in the environment of Maven
# For other files: BUILD_TOOLS, TEST_TOOLS, demo, run_tests, build, up_to_date, jar_of, need_jdk, find_jdk, jdk_version, prepare_tests,
#        junit, count, report_tests

BUILD_TOOLS=(maven)
TEST_TOOLS=(gcc libc6-dev libibverbs-dev librdmacm-dev e2fsprogs fio nvme-cli)
JDK_PLACES=(/usr/lib/jvm /usr/lib64/jvm /usr/java /usr/jdk /usr/local/java /opt/java /opt/hostedtoolcache
    "$HOME/.sdkman/candidates/java" "$HOME/.jdks" "$HOME/.m2/jdks" "$HOME/.gradle/jdks" "$HOME/.local/share/mise/installs/java"
    "$HOME/.asdf/installs/java" "$HOME/.jenv/versions" "$HOME/.jabba/jdk" "$HOME/.jbang/cache/jdks")
# Short-lived JVMs under emulation: what C1 makes is good enough and starts soonest (measured: 10 s against 16 s for one test).
BRISK_JVM=(-XX:TieredStopAtLevel=1 -XX:+UseSerialGC)
DEMO_LIMIT=180
TEST_LIMIT=2700 # beside the containers it takes longer than alone
PAIR_LIMIT=300
CONTAINERS_LIMIT=1800 # beside the tests on devices, too
TWO_VMS_MEBIBYTES=10240 # twice what a VM may touch, and what runs beside
RXE_IN_CONTAINERS=7.2 # the first Linux where rxe devices can be made inside network namespaces
BAD_CABLE='loss 1% delay 20ms'
ON_DEVICES=''

# Prints the home of a JDK 25 or newer, or nothing.
find_jdk() {
    local home
    while read -r home; do
        if [ "$(jdk_version "$home")" -ge 25 ]; then
            printf '%s\n' "$home"
            return
        fi
    done < <(all_jdks)
}

# Prints " (JDK 17 in /usr/lib/jvm/… is too old)", or nothing where there is no JDK at all.
older_jdks() {
    local home version
    while read -r home; do
        version=$(jdk_version "$home")
        if [ "$version" = 0 ]; then
            echo " (of the one in $home, the file \"release\" does not say which it is: it may be incomplete)"
        else
            echo " (JDK $version in $home is too old)"
        fi
        return
    done < <(all_jdks)
}

# Prints the homes of all JDKs in the usual places, those that the caller's variables name first.
all_jdks() {
    local home variable on_path homes=()
    for variable in ${!JAVA*}; do
        [[ $variable != *_HOME ]] || homes+=("${!variable}")
    done
    if on_path=$(command -v javac); then homes+=("$(dirname "$(dirname "$(readlink -f "$on_path")")")"); fi
    for home in "${JDK_PLACES[@]}"; do homes+=("$home"/*); done
    for home in "${homes[@]}"; do
        [ ! -x "$home/bin/javac" ] || printf '%s\n' "$home"
    done
}

jdk_version() { # HOME : its feature number
    local version=0
    [ ! -r "$1/release" ] || version=$(sed -nE 's/^JAVA_VERSION="([0-9]+).*/\1/p' "$1/release")
    echo "${version:-0}"
}

need_jdk() {
    JDK=$(find_jdk)
    if [ -z "$JDK" ] && [ "$INSTALL" = yes ] && have_apt && can_be_installed openjdk-25-jdk-headless; then
        install_packages openjdk-25-jdk-headless || true
        JDK=$(find_jdk)
    fi
    if [ -z "$JDK" ] && [ -n "$ARCHIVES_SILENT" ]; then
        fail 69 "a JDK 25 or newer is needed, and none could be installed: the package archives did not answer ($ARCHIVES_SILENT)"
    fi
    [ -n "$JDK" ] || fail 69 "$(no_jdk)"
    export JAVA_HOME=$JDK # for Maven, too
}

no_jdk() {
    echo "Verbena needs a JDK 25 or newer and none was found$(older_jdks): looked at JAVA_HOME and JAVA*_HOME, the javac on the PATH, and" \
        "${JDK_PLACES[*]/#$HOME/\~}; install one with \"apt install openjdk-25-jdk\" (Debian 13, Ubuntu 24.04 and later)," \
        "\"dnf install java-25-openjdk-devel\" (Fedora) or \"sdk install java 25-tem\" (sdkman, any Linux), or point" \
        "JAVA_HOME at one."
}

can_be_installed() { # PACKAGE
    [ -n "$(apt-cache policy "$1" 2>/dev/null | sed -nE 's/^ *Candidate: ([^(].*)/\1/p')" ] ||
        { update_lists &&
            [ -n "$(apt-cache policy "$1" 2>/dev/null | sed -nE 's/^ *Candidate: ([^(].*)/\1/p')" ]; }
}

maven() { # ARGUMENTS…
    # Maven 3.8 ends each run with escape sequences, colours off or not.
    (cd "$PROJECT" && mvn -B "${MAVEN_LOGGING[@]}" "$@" 2>&1 | sed -u $'s/\x1b\\[[0-9;]*m//g' | show_build)
}

# As quiet as -q, except for the lines from which show_build reads the progress.
MAVEN_LOGGING=(-Dorg.slf4j.simpleLogger.defaultLogLevel=error
    -Dorg.slf4j.simpleLogger.log.org.apache.maven.cli.transfer.Slf4jMavenTransferListener=info
    -Dorg.slf4j.simpleLogger.log.org.apache.maven.cli.event.ExecutionEventLogger=info)
PROGRESS_INTERVAL=10 # seconds without a line from Maven

# Passes on what Maven prints; reports progress when Maven has printed nothing for some time, as in a first build, which downloads.
# Leaves out a warning of sun.misc.Unsafe, four lines at each start, which a JDK 25 prints because of Guava in Debian's Maven 3.9.
show_build() {
    local line='' part='' code module='' downloads='' files=0 started=$SECONDS printed=$SECONDS
    while true; do
        code=0
        IFS= read -r -t 1 part || code=$?
        line+=$part
        if [ "$code" = 0 ]; then
            case $line in
                '[INFO] Downloaded from '*) files=$((files + 1)) downloads=", $files files downloaded" ;;
                '[INFO] Building '*'['*/*']') module=${line#'[INFO] Building '} module=${module%%  *} ;;
                '[INFO]'* | 'WARNING: '*sun.misc.Unsafe* | 'WARNING: Please consider reporting this to the maintainers of class com.google.'*) ;;
                *) printf '%s\n' "$line"; printed=$SECONDS ;;
            esac
            line=''
        elif [ "$code" -le 128 ]; then
            break # the end
        fi
        if [ $((SECONDS - printed)) -ge "$PROGRESS_INTERVAL" ]; then
            say "still building${module:+ $module}: $((SECONDS - started)) s$downloads"
            printed=$SECONDS
        fi
    done
    [ -z "$line" ] || printf '%s\n' "$line"
}

build() { # MAVEN_ARGUMENTS…
    need_writable_checkout
    need_jdk
    need "building" "${BUILD_TOOLS[@]}"
    say "building with Maven and $JDK (the first time downloads what Maven needs)"
    step maven "$@" >&2 || fail 1 "the build failed"
}

need_writable_checkout() {
    need_writable "$PROJECT" "this checkout" "the build writes its target folders there; work in a copy that you may write to"
}

jar_of() { # MODULE : prints its jar
    find "$PROJECT/native-test/$1/target" -maxdepth 1 -name "verbena-$1.jar" 2>/dev/null
}

up_to_date() {
    local jar
    jar=$(jar_of tools)
    [ -n "$jar" ] && [ -z "$(cd "$PROJECT" && find pom.xml {*,*/*}/{pom.xml,src/main} -newer "$jar" -print -quit)" ]
}

demo() {
    if up_to_date; then need_jdk; else build -DskipTests -Dformat.skip package; fi
    LIMIT=${LIMIT:-$DEMO_LIMIT}
    run_with_devices "$JDK/bin/java" "${BRISK_JVM[@]}" --enable-native-access=dev.verbena \
        --module-path "$PROJECT/native-test/tools/target/lib:$(jar_of tools)" \
        --module dev.verbena.tools/dev.verbena.tools.Verbena demo
}

# All unit tests here, then those of native-test/tests on devices; one line of numbers at the end.
run_tests() { # [FILTER] : Class (with those nested in it), Class#method, with * and commas as in Maven's -Dtest
    local options=() code=0
    FILTER=${1-}
    prepare_tests
    [ -z "$FILTER" ] || options=("-Dtest=$FILTER" -Dsurefire.failIfNoSpecifiedTests=false)
    if [ "$HEADERS" = yes ]; then
        fetch_headers
        options+=("-Dverbena.include=$HEADERS_FOUND")
    fi
    # Those of native-test/tests run below, on devices; failing unit tests are counted at the end, not here. Of the races,
    # whose run takes 20 minutes, this only shows that they compile.
    build verify -Pjcstress -Djcstress.skip -Dverbena.headers=required -Dmaven.source.skip -Dnative-test.skip \
        -Dmaven.test.failure.ignore "${options[@]}" "${TRUST_OPTIONS[@]}"
    [ -n "$FILTER" ] || test_this_script
    count "unit tests" 0 "$PROJECT"/{*,*/*}/target/surefire-reports/TEST-*.xml
    LIMIT=${LIMIT:-$TEST_LIMIT}
    if two_vms_at_a_time; then
        [ "$PAIR" = no ] || test_pair || code=$?
        interrupted_by "$code" || start_tests_on_devices
        interrupted_by "$code" || test_containers || code=$?
        interrupted_by "$code" || end_of_tests_on_devices || code=$?
    else
        tests_on_devices || code=$?
        interrupted_by "$code" || [ "$PAIR" = no ] || test_pair || code=$?
        interrupted_by "$code" || [ "$CONTAINERS" = no ] || test_containers || code=$?
    fi
    collect_trust_rows
    report_tests "$code"
}

prepare_tests() {
    need_writable_checkout
    need_jdk
    need "testing" "${TEST_TOOLS[@]}" "${RDMA_TOOLS[@]}"
    need_writable "$RESULTS" "the folder for results" "name another with --results"
    RESULTS=$(cd "$RESULTS" && pwd -P)
    rm -rf "$RESULTS"/*-reports "$PROJECT"/{*,*/*}/target/surefire-reports
    begin_trust_rows
}

# Prints what failed and how much passed; returns the exit code of ci/roce.
report_tests() { # EXIT_CODE
    if [ ${#FAILED[@]} -gt 0 ]; then # the reasons are thousands of lines above
        say "what failed, in short:"
        printf '%s\n' "${FAILED[@]}" >&2
    fi
    echo "${COUNTED[0]} passed, ${COUNTED[1]} failed, ${COUNTED[2]} skipped"
    ! interrupted_by "$1" || return "$1"
    if [ "$((COUNTED[0] + COUNTED[1]))" = 0 ]; then
        say "no test ran"
        return 1
    fi
    [ "${COUNTED[1]}" = 0 ]
}

test_this_script() {
    local code=0
    rm -rf "$RESULTS"/ci-reports
    step "$CI_DIR/tests/run" "$RESULTS/ci-reports" || code=$?
    count "tests of ci/roce" "$code" "$RESULTS"/ci-reports/TEST-*.xml
}

interrupted_by() { # EXIT_CODE
    [ "$1" = 124 ] || ended_by_signal "$1"
}

ended_by_signal() { # EXIT_CODE
    case $1 in 129 | 130 | 137 | 141 | 143) ;; *) return 1 ;; esac
}

tests_on_devices() {
    local code=0 launcher
    mapfile -t launcher < <(junit_on_devices)
    run_with_devices "${launcher[@]}" || code=$?
    count "tests on devices" "$code" "$RESULTS"/native-reports/TEST-*.xml
    return "$code"
}

junit_on_devices() { junit native verbena.device=required --exclude-tag=containers; }

# An emulated VM has one processor: where this machine has more, the tests on devices run in a VM beside that of the containers.
two_vms_at_a_time() {
    if [ "$CONTAINERS" = no ] || [ "$(nproc)" -lt 2 ] || [ "$(available_mebibytes)" -lt "$TWO_VMS_MEBIBYTES" ]; then return 1; fi
    choose_way "$ON"
    [ "$WAY" = vm ] || return 1
    prepare_vm # and the engine, now: neither of the two VMs then has files changed that it sees
    ! uses_kvm && succeeds_apart prepare_engine
}

available_mebibytes() { awk '$1 == "MemAvailable:" { print int($2 / 1024) }' /proc/meminfo; }

start_tests_on_devices() {
    local launcher options=()
    mapfile -t launcher < <(junit_on_devices)
    [ "$INSTALL" = yes ] || options+=(--no-install)
    [ "$VERBOSE" = no ] || options+=(--verbose)
    say "tests on devices, in a VM beside that of the containers: what they print comes at their end"
    "$CI_DIR/roce" "${options[@]}" run --on vm --timeout "$LIMIT" --results "$RESULTS" -- "${launcher[@]}" >"$RESULTS/tests-on-devices" 2>&1 </dev/null &
    ON_DEVICES=$!
    at_exit stop_tests_on_devices
}

stop_tests_on_devices() {
    if [ -n "$ON_DEVICES" ] && kill -s TERM "$ON_DEVICES" 2>/dev/null; then wait "$ON_DEVICES" || true; fi
}

end_of_tests_on_devices() {
    local code=0
    end_of_nested "$ON_DEVICES" || code=$?
    ON_DEVICES=''
    cat "$RESULTS/tests-on-devices"
    count "tests on devices" "$code" "$RESULTS"/native-reports/TEST-*.xml
    return "$code"
}

# Ping between two hosts, over a cable that loses and delays packets: slower, never wrong. Fails only when it was interrupted.
test_pair() {
    local ping=("$JDK/bin/java" "${BRISK_JVM[@]}" -jar "$(jar_of tools)" ping) code=0
    say "Ping between two micro VMs, $BAD_CABLE"
    nested pair --timeout "$PAIR_LIMIT" --results "$RESULTS" --netem "$BAD_CABLE" \
        -- "${ping[@]}" server --bind "${ROCE_ADDRESSES[0]}" --timeout 60 \
        -- "${ping[@]}" client "${ROCE_ADDRESSES[0]}" --count 20 --size 4096 --timeout 60 || code=$?
    if ended_by_signal "$code"; then return "$code"; fi
    [ "$code" = 0 ] || one_more_failure "Ping between two micro VMs ended with exit code $code"
}

# Services in containers: all on the default kernel. If that kernel cannot give containers a network and a Soft-RoCE device of their
# own, the tests that need these run on a newer kernel.
test_containers() {
    local way kernel suite
    if ! way=$(way_with_engine_here); then
        one_more_failure "the tests in containers did not run"
        return
    elif [ "$WAY" != vm ] && [ -n "$way" ]; then
        way=host # also where the devices are those that this run made, and still has
        kernel=$(uname -r)
    elif succeeds_apart prepare_vm; then
        way=vm
        prepare_vm
        kernel=$(cat "$VM/version")
    else
        one_more_failure "the tests in containers did not run"
        return
    fi
    if has_rxe_in_containers "$kernel"; then
        tests_in_containers "$kernel" containers "$way"
        return
    fi
    tests_in_containers "$kernel" 'containers & !own-network' "$way" || return
    suite=$(newer_kernel_suite)
    if [ -n "$suite" ]; then
        VERBENA_KERNEL_SUITE=$suite tests_in_containers "$suite" own-network vm
    else
        say "SKIPPED: containers with Soft-RoCE devices of their own: they need Linux $RXE_IN_CONTAINERS, $kernel was found, and it is" \
            "not known where $(of_os_release ID) $(of_os_release VERSION_ID) has a newer one (VERBENA_KERNEL_SUITE)"
    fi
}

# In a subshell, which is all that the function ends where it fails.
succeeds_apart() ( # FUNCTION
    nothing_to_undo
    heed_signals
    "$1"
)

# Fails only when it was interrupted, with the code for that.
tests_in_containers() { # KERNEL TAGS WAY
    local code=0 launcher name=containers-$1
    say "services in containers, kernel $1"
    mapfile -t launcher < <(junit "$name" verbena.containers=required --include-tag="$2")
    tests_beside_engine "$name" "$3" "${launcher[@]}" || code=$?
    # An emulated kernel may go silent (seen once in some dozens of runs, before the first container had started), and the engine may not
    # come up on a busy machine. That says nothing about the tests: they get a second try. The second time it counts.
    if [ "$code" = "$ENGINE_LOST" ] || [ "$code" = "$ENGINE_NOT_UP" ]; then
        say "once more, with another VM; what is left of this one is in $RESULTS/$name-silent"
        rm -rf "$RESULTS/$name-silent" "$RESULTS/$name-reports"
        [ ! -e "$RESULTS/$name" ] || mv "$RESULTS/$name" "$RESULTS/$name-silent"
        code=0
        tests_beside_engine "$name" "$3" "${launcher[@]}" || code=$?
    fi
    count "tests in containers" "$code" "$RESULTS/$name-reports"/TEST-*.xml
    if ended_by_signal "$code"; then return "$code"; fi
}

tests_beside_engine() { # NAME WAY COMMAND…
    VERBENA_KERNEL_SUITE=${VERBENA_KERNEL_SUITE-} nested engine --on "$2" --timeout "$CONTAINERS_LIMIT" \
        --results "$RESULTS/$1" -- "${@:3}"
}

# Runs another ci/roce, which is ended when this one gets a signal. It is in the background, where Ctrl-C does not reach it.
nested() { # WORDS_FOR_CI_ROCE…
    "$CI_DIR/roce" "$@" &
    end_of_nested "$!"
}

# Waits for another ci/roce, and returns its exit code.
end_of_nested() { # PID
    local pid=$1 code
    trap 'kill -s TERM "$pid" 2>/dev/null || true' INT TERM HUP
    while true; do
        code=0
        wait "$pid" || code=$?
        kill -0 "$pid" 2>/dev/null || break # else the wait was interrupted
    done
    heed_signals
    return "$code"
}

one_more_failure() { # SENTENCE
    note_failure "$1"
    COUNTED[1]=$((COUNTED[1] + 1))
}

note_failure() { # SENTENCE : of no test
    say "$1, counted as one failure"
    FAILED+=("$1")
}

has_rxe_in_containers() { # KERNEL_VERSION
    [ "$(printf '%s\n' "$RXE_IN_CONTAINERS" "${1%%[^0-9.]*}" | sort -V | head -n 1)" = "$RXE_IN_CONTAINERS" ]
}

# Prints the suite of Debian with a newer kernel than that of this machine's release, or nothing.
newer_kernel_suite() {
    if [ "$(of_os_release ID)" = debian ] && [[ $(of_os_release VERSION_ID) == 1[23] ]]; then echo trixie-backports; fi
}

# Prints the words of a command that runs tests of native-test/tests, one a line.
junit() { # REPORTS PROPERTY JUNIT_OPTION…
    printf '%s\n' "$JDK/bin/java" "${BRISK_JVM[@]}" --enable-native-access=ALL-UNNAMED \
        --add-opens=java.base/java.nio=ALL-UNNAMED "-D$2" "${TRUST_OPTIONS[@]}" \
        -cp "$PROJECT/native-test/tests/target/test-classes:$(cat "$PROJECT/native-test/tests/target/test-class-path")" \
        org.junit.platform.console.ConsoleLauncher execute --disable-banner --disable-ansi-colors --details=tree \
        --scan-classpath="$PROJECT/native-test/tests/target/test-classes" --reports-dir="$RESULTS/$1-reports" \
        --include-methodname="$(method_pattern "$FILTER")" "${@:3}"
    [ -n "$FILTER" ] || echo --fail-if-no-tests
}

# A regular expression for the names of methods, with their classes.
method_pattern() { # FILTER
    local all one class method patterns=''
    IFS=, read -ra all <<<"${1:-*}"
    for one in "${all[@]}"; do
        class=${one%%#*} method='*'
        [[ $one != *#* ]] || method=${one#*#}
        class=${class:-*}
        patterns+="${patterns:+|}^(.*[.$])?${class//\*/.*}([$][^#]*)?#${method//\*/.*}$"
    done
    printf '%s' "$patterns"
}

COUNTED=(0 0 0) # passed, failed, skipped
FAILED=()

# Adds the numbers of JUnit's reports. A run that ended with another exit code than 0 and has no failed test counts as one failure.
count() { # WHAT EXIT_CODE REPORT…
    local numbers i
    read -ra numbers < <(numbers "${@:3}")
    mapfile -t -O "${#FAILED[@]}" FAILED < <(failed_tests "${@:3}")
    if [ "$2" != 0 ] && [ "${numbers[1]}" = 0 ]; then
        note_failure "$1: the run ended with exit code $2"
        numbers[1]=1
    fi
    say "$1: ${numbers[0]} passed, ${numbers[1]} failed, ${numbers[2]} skipped"
    for i in 0 1 2; do COUNTED[i]=$((COUNTED[i] + numbers[i])); done
}

# Prints how many tests of JUnit's reports passed, failed and were skipped.
numbers() { # REPORT…
    cat "$@" 2>/dev/null | awk '
        function number(name) { return match($0, " " name "=\"[0-9]+\"") ? substr($0, RSTART + length(name) + 3) + 0 : 0 }
        /<testsuite / { tests += number("tests"); failed += number("failures") + number("errors"); skipped += number("skipped") }
        END { print tests - failed - skipped, failed + 0, skipped + 0 }' || true
}

# Prints the tests of JUnit's reports that failed, a line for each, with the beginning of what was said.
failed_tests() { # REPORT…
    cat "$@" 2>/dev/null | awk '
        function text(name) { return match($0, " " name "=\"[^\"]*\"") ? substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 4) : "" }
        /<testcase / { test = text("classname") "#" text("name") }
        /<(failure|error)[ >]/ {
            why = text("message")
            gsub(/&#(10|13|9);/, " ", why)
            gsub(/&lt;/, "<", why); gsub(/&gt;/, ">", why); gsub(/&quot;/, "\"", why); gsub(/&apos;/, "\047", why); gsub(/&amp;/, "\\&", why)
            gsub(/[[:space:]]+/, " ", why)
            sub(/^ /, "", why)
            print test (why ? ": " : "") substr(why, 1, 300)
        }' || true
}
