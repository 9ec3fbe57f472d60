# shellcheck shell=bash
# A container engine and RDMA on one kernel, for a command that runs here: this machine's own where it has both, else one in the
# micro VM, with its API on loopback.
#
# The guest has more in its folder than others:
#   engine   the port on this machine
#   tls      the engine's key and certificate, and that of the authority that signed the client's
#   ready    made by vm/engine when the engine answers
# and its session reports more events (see follow.sh):
#   listening engine        that file is there
#   not-listening engine    it was not there until the session stopped looking
# The engine's disk is filled on this machine (vm/fill), once, and kept in $CACHE/engine; a guest writes to a copy that goes with it.
#
# Reads: CI_DIR, CACHE, RESULTS, ON, VERBOSE (roce), WAY (ways.sh), IMAGE, IMAGE_LABEL, PROXIES (image.sh), RUN, WHO, PHASE,
#        INTERRUPTED (follow.sh), DOCKER_HOST
# Sets:  EVENT, VALUE       (follow.sh) those of the command here instead of the guest's
#        ENGINE_DISK        the file with the engine's disk
#        ENGINE_KEYS        the folder with the client's key and certificate
#        BESIDE             the command to run once the engine is up
#        DOCKER_HOST, DOCKER_TLS_VERIFY, DOCKER_CERT_PATH, TESTCONTAINERS_…   in the environment of the command
# For other files: run_beside_engine, make_image, way_with_engine_here, why_no_engine; engine_event (follow.sh);
#        options_of_engine (guest.sh)

ENGINE_TOOLS=(docker.io docker-cli mmdebstrap e2fsprogs openssl util-linux)
ENGINE_DISK_SIZE=16G # as far as written
ENGINE_ROOM=1500     # MiB, as far as the image goes
ENGINE_NOT_UP=70     # exit code when the engine in the VM did not come up, or ended by itself; and when that VM did
ENGINE_LOST=71       # exit code when the command failed and the engine in the VM has gone silent

run_beside_engine() { # COMMAND… : here, with DOCKER_HOST where that is not the usual place
    local way
    way=$(way_with_engine_here) || exit
    make_run_folder
    if [ -n "$way" ]; then
        # Only `auto` may turn to the VM where Soft-RoCE could not be set up.
        if [ "$ON" = auto ]; then prepare_way auto; else prepare_way "$way"; fi
        if [ "$WAY" != vm ]; then
            use_engine_here
            run_here "$@"
            return
        fi
    fi
    run_beside_engine_in_vm "$@"
}

# Prints host or rxe where this machine's kernel has both, or nothing for the VM; ends with the reason if that is not wanted.
way_with_engine_here() {
    local way why=''
    [ "$ON" != vm ] || return 0
    for way in host rxe; do
        [[ $ON == auto || $ON == "$way" ]] || continue
        why=$(why_not "$way")
        [ -n "$why" ] || why=$(why_no_engine)
        if [ -z "$why" ]; then
            echo "$way"
            return
        fi
    done
    [ "$ON" = auto ] || fail 69 "--on $ON cannot be had here: $why"
}

why_no_engine() {
    local facts
    if ! command -v docker >/dev/null; then
        echo "there is no docker here"
    elif [[ $(engine_here) != unix://* ]]; then
        echo "docker talks to an engine elsewhere ($(engine_here))"
    elif ! facts=$(docker info -f '{{.KernelVersion}} {{.SecurityOptions}}' 2>/dev/null) || [[ $facts == ' '* ]]; then
        echo "no container engine answers (docker info)"
    elif [ "${facts%% *}" != "$(uname -r)" ]; then
        echo "the container engine runs on another kernel (${facts%% *}), without these devices"
    elif [[ $facts == *rootless* ]]; then
        echo "the container engine is a rootless one, whose containers see no device of this machine"
    fi
}

# Prints where docker's engine is. Testcontainers needs DOCKER_HOST when that is not the usual place.
engine_here() {
    if [ -n "${DOCKER_HOST-}" ]; then
        echo "$DOCKER_HOST"
    else
        docker context inspect -f '{{.Endpoints.docker.Host}}' 2>/dev/null || echo unix:///var/run/docker.sock
    fi
}

use_engine_here() {
    DOCKER_HOST=$(engine_here)
    export DOCKER_HOST
    # Testcontainers would have its own container, which cleans up after a JVM that died, from a registry; there may be none.
    export TESTCONTAINERS_RYUK_DISABLED=${TESTCONTAINERS_RYUK_DISABLED:-true}
    # Inside of a container it would look for the engine's address by one of an image from a registry, too.
    export TESTCONTAINERS_HOST_OVERRIDE=${TESTCONTAINERS_HOST_OVERRIDE:-localhost}
    [ "$(docker image inspect -f "{{index .Config.Labels \"$IMAGE_LABEL\"}}" "$IMAGE" 2>/dev/null)" = "$(image_recipe)" ] || make_image
}

make_image() {
    docker version >/dev/null 2>&1 || fail 69 "no container engine answers (docker version)"
    say "making the container image $IMAGE"
    step build_image || fail 69 "the container image could not be made"
}

prepare_engine() {
    local recipe lock
    need "the container engine" "${ENGINE_TOOLS[@]}"
    recipe=$(image_recipe)-$(date +%Y%m) # made anew every month: packages have security updates
    ENGINE_DISK=$CACHE/engine/$recipe/disk
    need_writable "$CACHE/engine" "the cache" "point VERBENA_CACHE at another folder"
    exec {lock}>"$CACHE/engine/lock"
    take_lock "$lock" "another ci/roce is making the container image"
    if [ ! -e "$ENGINE_DISK" ]; then
        need_room "$CACHE/engine" "the cache" "$ENGINE_ROOM" "making the container image" "point VERBENA_CACHE at another folder"
        { as_root true && step make_disk {lock}>&-; } || use_older_disk || fail 69 "the container image could not be made"
    fi
    touch "$ENGINE_DISK" # when last used
    exec {lock}>&-
}

use_older_disk() {
    local older=("$CACHE/engine/$(image_recipe)"-*/disk) # in the order of their months
    [ -e "${older[-1]}" ] || return
    ENGINE_DISK=${older[-1]}
    say "using the container image of an earlier month: $ENGINE_DISK"
}

# Its caller tests the outcome, which switches `set -e` off in here: every step says what happens when it fails.
make_disk() {
    local made name settings=()
    say "making the container image $IMAGE (once)"
    find "$CACHE/engine" -mindepth 1 -maxdepth 1 -name 'making.*' -mtime +1 -print0 | xargs -0 -r rm -rf
    made=$(mktemp -d "$CACHE/engine/making.XXXXXX") || return
    at_exit rm -rf "$made"
    truncate -s "$ENGINE_DISK_SIZE" "$made/disk" && mkdir "$made/work" || return
    PATH=$PATH:/usr/sbin:/sbin mkfs.ext4 -q -E lazy_itable_init=1,lazy_journal_init=1,nodiscard "$made/disk" || return
    for name in "${PROXIES[@]}"; do
        [ -z "${!name-}" ] || settings+=("$name=${!name}")
    done
    as_root env "${settings[@]}" unshare --mount --pid --fork --kill-child --mount-proc "$CI_DIR/vm/fill" "$CI_DIR" "$made" "$VERBOSE" || return
    rmdir "$made/work" || return
    rm -rf "$(dirname "$ENGINE_DISK")" && mv "$made" "$(dirname "$ENGINE_DISK")" || return
    find "$CACHE/engine" -mindepth 2 -maxdepth 2 -name disk -mtime +30 -printf '%h\0' | xargs -0 -r rm -rf
}

run_beside_engine_in_vm() { # COMMAND… : here
    prepare_way vm
    prepare_engine
    make_guest engine "$CI_DIR/vm/engine"
    free_port >"$RUN/engine/engine"
    rm -f "$RESULTS/engine.log"
    make_keys || fail 69 "no keys for the container engine"
    boot_guest engine "$VM_MEMORY"
    BESIDE=("$@")
    follow_guests engine
}

free_port() {
    local port
    for port in $(shuf -i 20000-32000 -n 100); do
        if ! (: <>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
            echo "$port"
            return
        fi
    done
}

# The client's key makes its holder root in the guest, which sees all files of this machine: only this run's command gets it.
make_keys() {
    local authority=$RUN/authority signed
    signed=(-CA "$authority/cert.pem" -CAkey "$authority/key.pem" -addext 'basicConstraints=critical,CA:false')
    ENGINE_KEYS=$RUN/keys
    make_key "$authority" 'ci roce' -addext basicConstraints=critical,CA:true &&
        make_key "$RUN/engine/tls" engine "${signed[@]}" -addext extendedKeyUsage=serverAuth \
            -addext 'subjectAltName=IP:127.0.0.1,DNS:localhost' &&
        make_key "$ENGINE_KEYS" client "${signed[@]}" -addext extendedKeyUsage=clientAuth &&
        cp "$authority/cert.pem" "$RUN/engine/tls/ca.pem" && cp "$authority/cert.pem" "$ENGINE_KEYS/ca.pem" &&
        rm -r "$authority"
}

make_key() { # FOLDER NAME OPENSSL_OPTIONS…
    mkdir -m 700 "$1" && quietly "making a key with openssl" openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
        -keyout "$1/key.pem" -out "$1/cert.pem" -days 2 -subj "/CN=$2" "${@:3}"
}

# Prints QEMU's options for the engine's guest: its disk, and a network that leads nowhere but from the port here to the engine.
options_of_engine() { # GUEST
    local port
    read -r port <"$RUN/$1/engine"
    printf '%s\n' -drive "file=${ENGINE_DISK//,/,,},format=raw,if=virtio,snapshot=on,cache=unsafe" \
        -netdev "user,id=api,restrict=on,hostfwd=tcp:127.0.0.1:$port-10.0.2.15:2376" -device virtio-net-pci,netdev=api,romfile=
}

# Turns an event of the guest into one of the command here.
engine_event() {
    case $EVENT in
        started)
            mark_up "$WHO"
            [ "$WHO" = here ] || EVENT=noted
            ;;
        listening) start_beside_engine ;;
        not-listening)
            say "the container engine did not come up; the end of $RESULTS/engine.log:"
            show_end_of_engine_log
            EVENT=ended VALUE=$ENGINE_NOT_UP
            ;;
        ended) if [ "$WHO" = here ]; then command_ended; else engine_ended; fi ;;
    esac
}

start_beside_engine() {
    local port
    read -r port <"$RUN/engine/engine"
    say "the container engine in the VM is up"
    # Testcontainers' own container, which cleans up after a JVM that died, would have to come from a registry; here all ends with the VM.
    unset "${!DOCKER_@}"
    export DOCKER_HOST=tcp://127.0.0.1:$port DOCKER_TLS_VERIFY=1 DOCKER_CERT_PATH=$ENGINE_KEYS TESTCONTAINERS_RYUK_DISABLED=true
    start_here "${BESIDE[@]}"
    at_exit kill_group "$HERE"
}

# Whether the engine still answers is asked only where a command failed by itself: after a time limit or a signal there is no time for
# that, and a signal may come while the engine is asked.
command_ended() {
    if [ "$VALUE" != 0 ] && [ "$PHASE" = running ] && ! engine_answers && [ -z "$INTERRUPTED" ]; then
        say "the container engine in the VM does not answer any more; the end of $RESULTS/engine.log:"
        show_end_of_engine_log
        show_end_of_console engine guest
        VALUE=$ENGINE_LOST
    fi
    kill_vm engine
}

engine_ended() {
    say "the container engine ended by itself, with exit code $VALUE; the end of $RESULTS/engine.log:"
    show_end_of_engine_log
    EVENT=ended VALUE=$ENGINE_NOT_UP
    deliver_to_command KILL
}

engine_answers() {
    timeout -k 1 20 docker version >/dev/null 2>&1
}

show_end_of_engine_log() {
    tail -n 20 "$RESULTS/engine.log" >&2 || true
}
