# shellcheck shell=bash
# Measures this library against C, on the same machine, in the same run.
#
# Reads: PROJECT, RESULTS, RESULTS_GIVEN, QUICK, ON, LIMIT (roce), WAY (ways.sh), JDK, TEST_TOOLS (project.sh), CC,
#        VERBENA_VM_PROCESSORS
# Sets:  PLUGIN   (guest.sh) with the row that is counted: the plugin of QEMU that counts
#        LIMIT, RESULTS (roce): a default, an absolute path
#        VERBENA_VM_PROCESSORS, VERBENA_BRIEF_JVM, VERBENA_FRESH_JVM, VERBENA_COUNTED   in the environment of native-test's `pairs`
# For other files: bench. The functions below it use its local variables: here, devices, counted, there (the rows to measure here, by
#        time and by count on devices, and both of these), bench, programs, outputs (folders), class_path, java, java_there (commands).

BENCH_TOOLS=("${TEST_TOOLS[@]}" perftest)
BENCH_LIMIT=7200 # seconds where the devices are
BENCH_FORKS=3
# Where no device is needed, forks are more and shorter, and addresses are not random (setarch) where the system allows that: by how its
# memory happens to lie, one process is half as slow again as another (C's post and poll 19 or 28 ns; always 19 without randomization),
# and measuring it longer changes nothing.
BENCH_FORKS_HERE=7
BENCH_FORKS_HERE_IF_QUICK=3
FIXED_ADDRESSES=()
REAL_TIME=() # for the starts of JVMs: other work would delay them by as much as they take
! chrt -r 1 true 2>/dev/null || REAL_TIME=(chrt -r 1)
! setarch -R true 2>/dev/null || FIXED_ADDRESSES=(setarch -R)
# More options of the JVMs in the micro VM. Under software emulation (QEMU 7.2) some JVMs died when a method compiled by C1 gave way to
# the one by C2: the JVM writes a jump over its first instruction while another thread calls it, and that thread went on four bytes into
# the jump (hs_err: SIGILL or SIGSEGV just behind the entry). Without tiers methods are hardly ever replaced, and what is measured is
# C2's code either way. No garbage is made in what is measured, so the choice of the collector does not matter.
# A method is compiled after 1,000 calls. Without tiers the default is 10,000: code that measurements of thousands of rounds run once a
# round would partly be interpreted, and compiled in the meantime (row events: a fifteenth of either side's time, and a quarter of a
# processor besides).
BENCH_JVM_IN_VM=(-XX:+UseSerialGC -XX:-TieredCompilation -XX:CompileThreshold=1000)
# And those of JVMs that run hundreds of rounds, not thousands: without tiers all of it would run in the interpreter. C1's code alone
# is not replaced either. (200 calls are C1's own default, which the threshold above would change.)
# A method that waits for the compiler for 50 ms without being called is taken out of its queue, to be queued again later. While
# instructions are counted, some ten connections are made a second: the JVM would compile for as long as it runs. A minute is enough.
BENCH_BRIEF_JVM_IN_VM=(-XX:+TieredCompilation -XX:TieredStopAtLevel=1 -XX:CompileThreshold=200 -XX:TieredCompileTaskTimeout=60000)
# And those of JVMs whose first rounds are measured: with tiers, as users start them. One in ten may die of it in the emulator; its fork
# has no value then.
BENCH_FRESH_JVM_IN_VM=(--enable-native-access=ALL-UNNAMED -XX:+UseSerialGC)
# Rows on the stand-in for libibverbs, whose provider only copies. The rows of JMH are measured by one program in Java, the rows of
# peers by several programs: one process for each of them, each fork and each row.
WHOLE_METHODS=(-XX:CompileCommand=quiet)
for method in PostAndPoll::{one,chain,prepared} Messages::{byHand,throughAChannel,fromRegisteredMemory} RawLoop::{one,chain,many}; do
    WHOLE_METHODS+=("-XX:CompileCommand=dontinline,dev.verbena.bench.$method") # as under JMH: see PostAndPoll
done
ROWS_OF_JMH=(post-poll post-poll-confined chain chain-confined batch-confined prepared-confined arm-await message allocation)
ROWS_OF_PEERS=(peers-one peers-chain peers-queue-pairs peers-message-64 peers-message-65536 peers-message-1048576
    peers-connections-1 peers-connections-5000
    peers-netty-64 peers-netty-65536 peers-netty-1048576 peers-netty-grpc peers-netty-flight)
ROWS_HERE=("${ROWS_OF_JMH[@]}" two-threads two-pollers idle-queue-pair idle-channel idle-netty cold-start load-queue-pairs load-depth "${ROWS_OF_PEERS[@]}")
ROWS_ON_DEVICES=(send-latency write-latency send-bandwidth write-bandwidth read-bandwidth message-rate events register connect
    first-round-trips first-message)
# The row that emulated processors can count. In one fork: a second one gives the same, within a hundredth.
ROW_COUNTED=instructions

bench() { # [ROW…]
    local row here=() devices=() counted=no code=0 limits=() published=$PROJECT/native-test/bench/results
    local bench=$PROJECT/native-test/bench programs=$PROJECT/native-test/bench/target/programs
    local rows=("$@")
    [ $# -gt 0 ] || rows=("${ROWS_HERE[@]}" "${ROWS_ON_DEVICES[@]}" "$ROW_COUNTED")
    for row in "${rows[@]}"; do
        if [ "$row" = "$ROW_COUNTED" ]; then
            counted=yes
            continue
        fi
        case " ${ROWS_HERE[*]} | ${ROWS_ON_DEVICES[*]} " in
            *" $row "*'|'*) here+=("$row") ;;
            *'|'*" $row "*) devices+=("$row") ;;
            *) usage_error "bench has no row $row; it has ${ROWS_HERE[*]} ${ROWS_ON_DEVICES[*]} $ROW_COUNTED" ;;
        esac
    done
    [ "$QUICK" = no ] || BENCH_FORKS=1 BENCH_FORKS_HERE=$BENCH_FORKS_HERE_IF_QUICK limits=("$bench/limits.tsv")
    if [ ${#devices[@]} -gt 0 ] || [ "$counted" = yes ]; then
        choose_way "$ON" # now, and not after the rows that need no devices
        [ "$WAY" != vm ] || prepare_vm
    fi
    if [ $# = 0 ] && is_emulated; then
        say "the processors of the devices are emulated: instructions are counted, and nothing is timed there; name a row to time it: ${devices[*]}"
        devices=()
    fi
    local there=("${devices[@]}") # all that needs devices
    [ "$counted" = no ] || there+=("$ROW_COUNTED")
    if bench_is_built; then need_jdk; else
        build -DskipTests -Dformat.skip package
        touch "$PROJECT/native-test/bench/target/bench-is-built"
    fi
    need "benchmarking" "${BENCH_TOOLS[@]}"
    step quietly "compiling the C sides" "$bench/c/build" "$programs" || fail 1 "the C sides of the benchmarks were not compiled"

    local outputs class_path java java_there
    class_path=$PROJECT/native-test/bench/target/classes
    class_path+=:$(cat "$PROJECT/native-test/bench/target/class-path")
    java=("$JDK/bin/java" --enable-native-access=ALL-UNNAMED)
    java_there=("${java[@]}")
    mkdir -p "$RESULTS/bench"
    RESULTS=$(cd "$RESULTS" && pwd -P)
    outputs=$RESULTS/bench
    find "$outputs" -maxdepth 1 -type f -delete
    : >"$outputs/asked.tsv"

    if [ ${#there[@]} -gt 0 ]; then
        LIMIT=${LIMIT:-$BENCH_LIMIT}
        if [ "$WAY" = vm ]; then
            # Both sides of a pair poll: each has a processor of its own.
            export VERBENA_VM_PROCESSORS=${VERBENA_VM_PROCESSORS:-2}
            java_there+=("${BENCH_JVM_IN_VM[@]}")
            export VERBENA_BRIEF_JVM="${BENCH_BRIEF_JVM_IN_VM[*]}" # the guest has the caller's environment
            export VERBENA_FRESH_JVM="${BENCH_FRESH_JVM_IN_VM[*]}"
        fi
        [ ${#devices[@]} = 0 ] || bench_on_devices "$BENCH_FORKS" "${devices[@]}" || return
        # In a VM of its own: counting makes all the rest slower.
        if [ "$counted" = yes ]; then
            export VERBENA_COUNTED=/run/verbena/counted
            PLUGIN=$programs/count.so bench_on_devices 1 "$ROW_COUNTED" || return
        fi
    fi
    [ ${#here[@]} = 0 ] || bench_here

    describe_machine >"$outputs/machine.txt"
    code=0
    "${java[@]}" -cp "$class_path" dev.verbena.bench.report.Report "$outputs" "$RESULTS/report" "${limits[@]}" || code=$?
    say "the report is in $RESULTS/report, what it was made of in $outputs"
    # What is committed is a whole run, done as it is meant, in which C itself did not vary.
    if [ "$QUICK" = no ] && [ "$RESULTS_GIVEN" = no ] && [ $# = 0 ]; then
        if [ "$code" = 0 ]; then
            cp "$RESULTS"/report/* "$published" && say "it is published: commit $published"
        else
            say "it is not published: $published stays as it is"
        fi
    fi
    return "$code"
}

# Whether the devices are in a micro VM without KVM: 10 to 30 times slower than real, but it can count.
is_emulated() { [ "$WAY" = vm ] && ! uses_kvm; }

# Measures rows on devices; fails only when it was interrupted, or is wrong.
bench_on_devices() { # FORKS ROW…
    local code=0
    run_with_devices "$bench/pairs" "$outputs" "$([ "$QUICK" = yes ] && echo quick || echo full)" "$1" "$programs" "$class_path" \
        "${java_there[@]}" -- "${@:2}" || code=$?
    case $code in
        0) ;;
        64 | 130 | 143) return "$code" ;;
        *) say "the part with devices ended with exit code $code: what is missing is not measured" ;;
    esac
}

bench_is_built() {
    local mark=$PROJECT/native-test/bench/target/bench-is-built
    [ -e "$mark" ] && up_to_date && [ -z "$(find "$PROJECT"/{*,*/*}/{pom.xml,src/main} \
        -newer "$mark" -print -quit)" ]
}

# Whether a row, or one of several, is measured here.
here_is() { # ROW…
    local row
    for row in "$@"; do
        [[ " ${here[*]} " != *" $row "* ]] || return 0
    done
    return 1
}

# Measures rows on the stand-in for libibverbs, fork by fork: C, Java, C, Java.
bench_here() {
    local fork row benchmarks no_io_uring jmh=(-f 1 -wi 3 -w 1 -i 3 -r 1) short=(--rounds 3 --ms 500) load=(--rounds 3 --clock cpu)
    [ "$QUICK" = no ] || jmh=(-f 1 -wi 2 -w 1 -i 3 -r 500ms) load+=(--ms 30)
    for row in "${here[@]}"; do
        case $row in
            allocation) printf "$row\t%s\n" one one-confined chain chain-confined batch-confined prepared-confined message ;;
            load-queue-pairs) printf "$row\t%s\n" 1 2 4 8 16 32 64 128 256 512 1024 ;;
            load-depth) printf "$row\t%s\n" 1 2 4 8 16 32 64 128 256 512 1024 2048 4096 ;;
            idle-queue-pair | idle-channel | idle-netty) printf "$row\t%s\n" heap native ;;
            cold-start) printf "$row\t%s\n" main 'first message by NIO' 'first completion' '10,000 more' ;;
            peers-*) ask_peers "$row" ;;
            *) printf '%s\t\n' "$row" ;;
        esac
    done >>"$outputs/asked.tsv"
    for ((fork = 1; fork <= BENCH_FORKS_HERE; fork++)); do
        if here_is "${ROWS_OF_JMH[@]}"; then
            say "post-poll and chain (shared and confined), batches, arm-await, message, allocation, fork $fork of $BENCH_FORKS_HERE"
            benchmarks='dev\.verbena\.bench\.PostAndPoll'
            ! here_is arm-await || benchmarks+='|dev\.verbena\.bench\.ArmAndAwait'
            ! here_is message allocation || benchmarks+='|dev\.verbena\.bench\.Messages'
            bench_one post-poll-c-$fork.txt "$programs/post_poll" --chain 1 "${short[@]}"
            bench_one post-poll-c-$fork.txt "$programs/post_poll" --chain 16 "${short[@]}"
            ! here_is arm-await || bench_one post-poll-c-$fork.txt "$programs/arm_await" "${short[@]}"
            bench_one post-poll-java-$fork.log "${java[@]}" -cp "$class_path" org.openjdk.jmh.Main \
                "$benchmarks" "${jmh[@]}" -prof gc -rf json -rff "$outputs/post-poll-java-$fork.json"
        fi
        if here_is two-threads; then
            bench_both two-threads two_threads TwoThreads --rounds 3 --ms 300
        fi
        if here_is two-pollers; then
            bench_one two-pollers-java-$fork.txt "${java[@]}" -cp "$class_path" dev.verbena.bench.TwoPollers --rounds 3 --ms 300
        fi
        # Counted, not timed: as good in one fork as in nine. Without compilers, which take of the C heap, too.
        if here_is idle-queue-pair && [ "$fork" = 1 ]; then
            bench_one idle-queue-pair-c-1.txt "$programs/idle_pairs"
            bench_one idle-queue-pair-java-1.txt "${java[@]}" -Xint -cp "$class_path" dev.verbena.bench.IdlePairs
        fi
        if here_is idle-netty && [ "$fork" = 1 ]; then
            bench_one idle-netty-java-1.txt "${java[@]}" -Xint -cp "$class_path" dev.verbena.bench.NettyIdle
        fi
        if here_is idle-channel && [ "$fork" = 1 ]; then
            bench_one idle-channel-java-1.txt "${java[@]}" -Xint -cp "$class_path" dev.verbena.bench.IdleChannels --messages 1
        fi
        if here_is cold-start; then
            bench_one cold-start-java-$fork.txt "${REAL_TIME[@]}" "${java[@]}" -cp "$class_path" dev.verbena.bench.Startup "${EPOCHREALTIME/[^0-9]/}"
            bench_one cold-start-java-$fork.txt "${REAL_TIME[@]}" "${java[@]}" -cp "$class_path" dev.verbena.bench.Startup "${EPOCHREALTIME/[^0-9]/}" nio
        fi
        if here_is load-queue-pairs load-depth; then
            say "load-queue-pairs, load-depth, fork $fork of $BENCH_FORKS_HERE"
            bench_both load load Load "${load[@]}"
        fi
        if here_is "${ROWS_OF_PEERS[@]}"; then
            say "${ROWS_OF_PEERS[*]}, fork $fork of $BENCH_FORKS_HERE"
            for row in "${ROWS_OF_PEERS[@]}"; do
                ! here_is "$row" || bench_peers "$row" "$fork"
            done
        fi
    done
}

# A program in C, and its like in Java.
bench_both() { # NAME PROGRAM CLASS OPTION…
    bench_one "$1-c-$fork.txt" "$programs/$2" "${@:4}"
    bench_one "$1-java-$fork.txt" "${java[@]}" -cp "$class_path" "dev.verbena.bench.$3" "${@:4}"
}

# Prints which of them a row has, each with what is lacking for it.
ask_peers() { # ROW
    local lacking=''
    if [[ $1 == peers-message-* ]]; then
        printf "$1\t%s\n" verbena-by-hand verbena-channel verbena-registered nio
        return
    fi
    if [[ $1 == peers-netty-* ]]; then
        [ -n "${no_io_uring+known}" ] || no_io_uring=$("${java[@]}" -cp "$class_path" dev.verbena.bench.NettyTransport)
        [ -z "$no_io_uring" ] || lacking=$'\t'$no_io_uring
        printf "$1\t%s\n" netty-nio netty-verbena "netty-io-uring$lacking"
        [ "$1" != peers-netty-64 ] || printf "peers-netty-allocation\t%s\n" netty-nio netty-verbena "netty-io-uring$lacking"
        return
    fi
    if [[ $1 == peers-connections-* ]]; then
        printf "$1\t%s\n" verbena-by-hand verbena-channel
        return
    fi
    printf "$1\t%s\n" tuned-c raw-ffm verbena
    if [ -e "$programs/bare_jni.missing" ]; then lacking=$'\t'$(cat "$programs/bare_jni.missing"); fi
    printf '%s\tbare-jni%s\n' "$1" "$lacking"
    case $1 in
        peers-one) printf '%s\tverbena-shared\n' "$1" ;;
        peers-chain) printf '%s\tverbena-prepared\n' "$1" ;;
    esac
}

# C, the others and this library, one after the other. Time is that of a thread on a processor: other work moves it less.
bench_peers() { # ROW FORK
    local brief=(--ms 100 --rounds 2) shape c=() verbena=() java=("${java[@]}" "${WHOLE_METHODS[@]}")
    local turns=("${java[@]}" -cp "$class_path" dev.verbena.bench.MessageTurns)
    local netty=("${java[@]}" -Dio.netty.leakDetection.level=disabled -cp "$class_path")
    case $1 in
        peers-message-*)
            brief+=(--bytes "${1##*-}")
            peer c c "$programs/message" "${brief[@]}"
            peer verbena-by-hand java "${turns[@]}" queue-pair "${brief[@]}"
            peer verbena-channel java "${turns[@]}" channel "${brief[@]}"
            peer verbena-registered java "${turns[@]}" registered "${brief[@]}"
            peer nio java "${turns[@]}" tcp "${brief[@]}"
            return
            ;;
        peers-netty-*)
            case $1 in
                # It takes longer until all of HTTP/2 is compiled.
                *-grpc) netty+=(dev.verbena.bench.GrpcTurns) brief=(--ms 400 --rounds 2) ;;
                *-flight) netty=("${netty[0]}" --add-opens=java.base/java.nio=ALL-UNNAMED "${netty[@]:1}" dev.verbena.bench.FlightTurns) brief=(--ms 2000 --rounds 2) ;;
                *) netty+=(dev.verbena.bench.NettyTurns) brief+=(--bytes "${1##*-}") ;;
            esac
            peer netty-epoll c "${netty[@]}" epoll "${brief[@]}"
            peer netty-verbena java "${netty[@]}" verbena "${brief[@]}"
            peer netty-nio java "${netty[@]}" nio "${brief[@]}"
            [ -n "$no_io_uring" ] || peer netty-io-uring java "${netty[@]}" io_uring "${brief[@]}"
            return
            ;;
        peers-connections-*)
            brief+=(--pairs "${1##*-}")
            peer c c "$programs/load_messages" "${brief[@]}"
            peer verbena-by-hand java "${java[@]}" -cp "$class_path" dev.verbena.bench.LoadMessages queue-pair "${brief[@]}"
            peer verbena-channel java "${java[@]}" -cp "$class_path" dev.verbena.bench.LoadMessages channel "${brief[@]}"
            return
            ;;
        peers-one) shape=(1 1) c=(post_poll --chain 1) verbena=(Turns CONFINED one) ;;
        peers-chain) shape=(1 16) c=(post_poll --chain 16) verbena=(Turns CONFINED chain) ;;
        peers-queue-pairs) shape=(1024 1) c=(load --pairs 1024) verbena=(Load --pairs 1024 --clock cpu) ;;
    esac
    peer c c "$programs/${c[0]}" "${c[@]:1}" --clock cpu "${brief[@]}"
    peer tuned-c java "$programs/${c[0]}" "${c[@]:1}" --clock cpu --tuned "${brief[@]}"
    peer raw-ffm java "${java[@]}" -cp "$class_path" dev.verbena.bench.RawLoop ffm "${shape[@]}" "${brief[@]}"
    [ -e "$programs/bare_jni.missing" ] ||
        peer bare-jni java "${java[@]}" -cp "$class_path" dev.verbena.bench.RawLoop "$programs/libbare_jni.so" "${shape[@]}" "${brief[@]}"
    peer verbena java "${java[@]}" -cp "$class_path" "dev.verbena.bench.${verbena[0]}" "${verbena[@]:1}" "${brief[@]}"
    case $1 in
        peers-one) peer verbena-shared java "${java[@]}" -cp "$class_path" dev.verbena.bench.Turns SHARED one "${brief[@]}" ;;
        peers-chain) peer verbena-prepared java "${java[@]}" -cp "$class_path" dev.verbena.bench.Turns CONFINED prepared "${brief[@]}" ;;
    esac
}

peer() { # WHO SIDE COMMAND…
    bench_one "peers-$1-$2-$fork.txt" "${@:3}"
}

bench_one() { # OUTPUT COMMAND…
    local code=0
    LD_LIBRARY_PATH=$programs/stand-in step into "$outputs/$1" "$outputs/$1.errors" timeout --foreground -k 5 600 \
        "${FIXED_ADDRESSES[@]}" "${@:2}" || code=$?
    [ "$code" != 0 ] || return 0
    say "${2##*/} failed, exit code $code:"
    mv "$outputs/$1" "$outputs/$1.failed" # what it printed before does not count
    cat "$outputs/$1.failed" "$outputs/$1.errors" | tail -n 15 >&2
}

# Prints on what it was measured, a line for each fact; the report reads them.
describe_machine() {
    local about
    echo "date: $(date -u +%Y-%m-%d)"
    about=$(cd "$PROJECT" && git rev-parse --short HEAD 2>/dev/null) || about=unknown
    [ -z "$(cd "$PROJECT" && git status --porcelain --untracked-files=no 2>/dev/null)" ] || about+=', and changes'
    echo "commit: $about"
    echo "processor: $(sed -n 's/^model name[[:space:]]*: *//p' /proc/cpuinfo | head -n 1), $(nproc) processors"
    echo "kernel: $(uname -sr)"
    echo "load of the machine at the end: $(cut -d' ' -f1 /proc/loadavg)"
    [ ${#there[@]} = 0 ] || echo "devices: $(describe_way)"
    [ ! -e "$outputs/kernel" ] || echo "kernel of the devices: $(cat "$outputs/kernel")"
    echo "JDK: $("$JDK/bin/java" -XshowSettings:properties -version 2>&1 | sed -nE 's/^ *java\.(runtime|vendor)\.version = //p' | paste -sd' ')"
    [ ${#here[@]} = 0 ] || echo "JVM options: ${java[*]:1}"
    [ ${#there[@]} = 0 ] || echo "JVM options where the devices are: ${java_there[*]:1}"
    [ -z "${VERBENA_FRESH_JVM-}" ] || echo "JVM options of first-round-trips, instead: $VERBENA_FRESH_JVM"
    [ -z "${VERBENA_BRIEF_JVM-}" ] || echo "JVM options of connect and first-message, in addition: $VERBENA_BRIEF_JVM"
    ! here_is cold-start || echo "starts of JVMs: at $([ ${#REAL_TIME[@]} = 0 ] && echo "the usual priority" || echo "real-time priority (chrt -r 1)")"
    [ ${#here[@]} = 0 ] || echo "random addresses: $([ ${#FIXED_ADDRESSES[@]} = 0 ] && echo yes || echo 'no (setarch -R)')"
    echo "C compiler: $("${CC:-cc}" --version | head -n 1)"
    if have_apt; then
        for about in libibverbs1 librdmacm1 perftest; do
            echo "$about: $(dpkg-query -W -f '${Version}' "$about" 2>/dev/null || dpkg-query -W -f '${Version}' "${about}t64" 2>/dev/null)"
        done
    fi
    echo "forks: $BENCH_FORKS of each side, C first, in turn; $BENCH_FORKS_HERE if no device is needed;" \
        "1 if instructions are counted"
    [ "$QUICK" = no ] || echo "quick: yes, with fewer iterations than in the committed results"
}
