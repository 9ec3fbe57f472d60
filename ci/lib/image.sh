# shellcheck shell=bash
# Makes the image that ci/Dockerfile describes; where no registry answers, on a base made of the distribution's packages.
# Sourced by ci/roce and, as root, by vm/fill.
#
# Reads: CI_DIR (roce or vm/fill), SCRATCH (say.sh), the variables that PROXIES names
# Sets:  nothing
# For other files: IMAGE, IMAGE_LABEL, PROXIES, image_recipe, build_image

IMAGE=verbena/rdma-java:25
IMAGE_BASE=debian:trixie-slim
IMAGE_EPOCH=$(sed -n 's/^ARG EPOCH=//p' "$CI_DIR/Dockerfile")
IMAGE_LABEL=dev.verbena.recipe
PROXIES=(http_proxy https_proxy no_proxy)
PULL_LIMIT=120 # seconds; where there is no registry, docker fails at once or hangs

# Prints a name that changes whenever the image would, except for newer packages.
image_recipe() {
    cat "$CI_DIR/Dockerfile" "$CI_DIR/lib/image.sh" "$CI_DIR/vm/fill" | sha256sum | cut -c1-12
}

# Builds with the engine that docker talks to, on the host's network: the package archive is reached from there, and vm/fill has no
# other.
build_image() {
    local base=$IMAGE_BASE name arguments=()
    if ! timeout "$PULL_LIMIT" docker pull -q "$base" >/dev/null 2>&1; then
        base=verbena/base:$(release_of_base)
        say "no registry has $IMAGE_BASE: making $base from packages"
        need "a base without a registry" mmdebstrap
        quietly "making $base" import_base "$base" || return
    fi
    for name in "${PROXIES[@]}"; do
        [ -z "${!name-}" ] || arguments+=(--build-arg "$name=${!name}")
    done
    quietly "docker build" env DOCKER_BUILDKIT=0 docker build --network host --build-arg "BASE=$base" \
        --label "$IMAGE_LABEL=$(image_recipe)" "${arguments[@]}" -t "$IMAGE" - <"$CI_DIR/Dockerfile"
}

# The release that a base is made of: of Debian 13 at least, the first with a JDK 25.
release_of_base() {
    if [ "$(of_os_release ID)" = debian ] && [[ $(of_os_release VERSION_ID) == 1[0-2] ]]; then
        echo trixie
    else
        of_os_release VERSION_CODENAME
    fi
}

# Leaves out the files that the Dockerfile would remove: a layer records what it removed, and when, and would differ each time.
import_base() { # NAME
    local tar archives code=0
    archives=$(archives_of_release "$(release_of_base)") || return
    tar=$(mktemp -p "${SCRATCH:-/tmp}" --suffix=.tar) || return
    # shellcheck disable=SC2016 # mmdebstrap's shell is to expand it
    as_root env SOURCE_DATE_EPOCH="$IMAGE_EPOCH" mmdebstrap --variant=minbase --skip=output/dev \
        --customize-hook='cd "$1" && rm -rf etc/resolv.conf etc/hostname var/lib/apt/lists/* var/cache/apt/* var/log/* \
            var/cache/debconf/*-old var/lib/dpkg/*-old var/cache/ldconfig/aux-cache' "$(release_of_base)" "$tar" - <<<"$archives" &&
        docker import "$tar" "$1" || code=$?
    rm -f "$tar"
    return "$code"
}
