# shellcheck shell=bash
# This project: building it, its demo, its tests.

JDK_PLACES=(/usr/lib/jvm /usr/lib64/jvm /usr/java /usr/jdk /usr/local/java /opt/java /opt/hostedtoolcache
    "$HOME/.sdkman/candidates/java" "$HOME/.jdks" "$HOME/.m2/jdks" "$HOME/.gradle/jdks" "$HOME/.local/share/mise/installs/java"
    "$HOME/.asdf/installs/java" "$HOME/.jenv/versions" "$HOME/.jabba/jdk" "$HOME/.jbang/cache/jdks")
# Short-lived JVMs under emulation: what C1 makes is good enough and starts soonest (measured: 10 s against 16 s for one test).
BRISK_JVM=(-XX:TieredStopAtLevel=1 -XX:+UseSerialGC)
DEMO_LIMIT=180
TEST_LIMIT=1800
PAIR_LIMIT=300
BAD_CABLE='loss 1% delay 20ms'

# Prints the home of a JDK 25 or newer, or nothing.
find_jdk() {
    local home variable on_path homes=()
    for variable in ${!JAVA*}; do
        [[ $variable != *_HOME ]] || homes+=("${!variable}")
    done
    if on_path=$(command -v javac); then homes+=("$(dirname "$(dirname "$(readlink -f "$on_path")")")"); fi
    for home in "${JDK_PLACES[@]}"; do homes+=("$home"/*); done
    for home in "${homes[@]}"; do
        if [ -x "$home/bin/javac" ] && [ "$(jdk_version "$home")" -ge 25 ]; then
            printf '%s\n' "$home"
            return
        fi
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
    [ -n "$JDK" ] || fail 69 "$(no_jdk)"
    export JAVA_25_HOME=$JDK # one more place where Maven's toolchains look
}

no_jdk() {
    echo "Verbena needs a JDK 25 or newer and none was found: looked at JAVA_HOME and JAVA*_HOME, the javac on the PATH, and" \
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
    (cd "$PROJECT" && mvn -B -ntp -q "$@" 2>&1 | sed -u $'s/\x1b\\[[0-9;]*m//g')
}

build() { # MAVEN_ARGUMENTS…
    need_jdk
    need "building" "${BUILD_TOOLS[@]}"
    say "building with Maven and $JDK (the first time downloads what Maven needs)"
    maven "$@" >&2 || fail 1 "the build failed"
}

jar_of() { # MODULE : its jar, and not the two that a release adds
    find "$PROJECT/$1/target" -maxdepth 1 -name "verbena-$1-*.jar" ! -name '*-sources.jar' ! -name '*-javadoc.jar' 2>/dev/null
}

up_to_date() {
    local jar
    jar=$(jar_of native-test)
    [ -n "$jar" ] && [ -z "$(cd "$PROJECT" && find pom.xml ./*/pom.xml ./*/src/main -newer "$jar" -print -quit)" ]
}

demo() {
    if up_to_date; then need_jdk; else build -DskipTests -Dformat.skip package; fi
    LIMIT=${LIMIT:-$DEMO_LIMIT}
    run_with_devices "$JDK/bin/java" "${BRISK_JVM[@]}" --enable-native-access=dev.verbena,dev.verbena.bindings \
        --module-path "$PROJECT/native-test/target/lib:$(jar_of native-test)" \
        --module dev.verbena.tools/dev.verbena.tools.Demo
}

# All unit tests here, then all tests of native-test on devices; one line of numbers at the end.
run_tests() { # [FILTER] : Class (with those nested in it), Class#method, with * as in Maven's -Dtest
    local filter=${1-} options=() launcher=() native=0 pair_failed=0 reports unit
    need_jdk
    need "testing" "${TEST_TOOLS[@]}" "${RDMA_TOOLS[@]}"
    rm -rf "$PROJECT"/*/target/surefire-reports
    if [ -n "$filter" ]; then
        options=("-Dtest=$filter" -Dsurefire.failIfNoSpecifiedTests=false)
    else
        launcher=(--fail-if-no-tests)
    fi
    # The tests of native-test run below, on devices; failing unit tests are counted at the end, not here.
    build verify -Dverbena.headers=required -Dnative-test.skip -Dmaven.test.failure.ignore "${options[@]}"
    unit=$(numbers "$PROJECT"/*/target/surefire-reports/TEST-*.xml)
    say "unit tests: $(in_words "$unit")"
    LIMIT=${LIMIT:-$TEST_LIMIT}
    mkdir -p "$RESULTS"
    reports=$(cd "$RESULTS" && pwd -P)/native-test-reports
    rm -rf "$reports"
    run_with_devices "$JDK/bin/java" "${BRISK_JVM[@]}" --enable-native-access=ALL-UNNAMED -Dverbena.device=required \
        -cp "$(native_test_class_path)" org.junit.platform.console.ConsoleLauncher execute --disable-banner \
        --disable-ansi-colors --details=tree --scan-classpath="$PROJECT/native-test/target/test-classes" \
        --reports-dir="$reports" --include-methodname="$(method_pattern "$filter")" "${launcher[@]}" || native=$?
    [ "$PAIR" = no ] || test_pair || pair_failed=1
    sum_up "$unit" "$(numbers "$reports"/TEST-*.xml)" "$native" "$pair_failed"
}

# Ping between two hosts, over a cable that loses and delays packets: slower, never wrong. A run of its own, with its own folder.
test_pair() {
    local ping=("$JDK/bin/java" "${BRISK_JVM[@]}" -jar "$(jar_of native-test)")
    say "Ping between two micro VMs, $BAD_CABLE"
    "$CI_DIR/roce" pair --timeout "$PAIR_LIMIT" --results "$RESULTS" --netem "$BAD_CABLE" \
        -- "${ping[@]}" server --bind "${ROCE_ADDRESSES[0]}" \
        -- "${ping[@]}" client "${ROCE_ADDRESSES[0]}" --count 20 --size 4096 --timeout 60 ||
        { say "Ping between two micro VMs ended with exit code $?: counted as one failure" && return 1; }
}

native_test_class_path() {
    printf '%s' "$PROJECT/native-test/target/test-classes:$PROJECT/native-test/target/classes:"
    cat "$PROJECT/native-test/target/test-class-path"
}

method_pattern() { # FILTER
    local class=${1%%#*} method='*'
    [[ $1 != *#* ]] || method=${1#*#}
    class=${class:-*}
    printf '^(.*[.$])?%s([$][^#]*)?#%s$' "${class//\*/.*}" "${method//\*/.*}"
}

# Prints how many tests of JUnit's reports passed, failed and were skipped.
numbers() { # REPORT…
    cat "$@" 2>/dev/null | awk '
        function number(name) { return match($0, " " name "=\"[0-9]+\"") ? substr($0, RSTART + length(name) + 3) + 0 : 0 }
        /<testsuite / { tests += number("tests"); failed += number("failures") + number("errors"); skipped += number("skipped") }
        END { print tests - failed - skipped, failed + 0, skipped + 0 }' || true
}

in_words() { # PASSED FAILED SKIPPED, in one word
    local number
    read -ra number <<<"$1"
    echo "${number[0]} passed, ${number[1]} failed, ${number[2]} skipped"
}

sum_up() { # NUMBERS_OF_UNIT_TESTS NUMBERS_OF_NATIVE_TESTS EXIT_CODE_OF_THE_LATTER FAILURES_OF_THE_PAIR
    local unit native failed
    read -ra unit <<<"$1"
    read -ra native <<<"$2"
    if [ "$3" != 0 ] && [ "${native[1]}" = 0 ]; then
        say "the run on devices ended with exit code $3: counted as one failure"
        native[1]=1
    fi
    failed=$((unit[1] + native[1] + $4))
    in_words "$((unit[0] + native[0])) $failed $((unit[2] + native[2]))"
    case $3 in 124 | 130 | 137 | 143) return "$3" ;; esac
    if [ "$((unit[0] + native[0] + failed))" = 0 ]; then
        say "no test ran"
        return 1
    fi
    [ "$failed" = 0 ]
}
