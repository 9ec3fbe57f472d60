# shellcheck shell=bash
# The image that ci/Dockerfile describes, and what it is made from where there is no registry: a base of the distribution's packages.
# Sourced by ci/roce and, as root, by vm/fill.

IMAGE=verbena/rdma-java:25
IMAGE_BASE=debian:trixie-slim
IMAGE_EPOCH=$(sed -n 's/^ARG EPOCH=//p' "$CI_DIR/Dockerfile")
IMAGE_LABEL=dev.verbena.recipe
PULL_LIMIT=120 # seconds; no registry at all is told at once, or never

# Changes whenever what is made here would, but for the packages.
image_recipe() {
    cat "$CI_DIR/Dockerfile" "$CI_DIR/lib/image.sh" "$CI_DIR/vm/fill" | sha256sum | cut -c1-12
}

# With the engine that docker talks to. The host's network is what has the package archive, and all there is in vm/fill.
build_image() {
    local base=$IMAGE_BASE from=''
    if ! timeout "$PULL_LIMIT" docker pull -q "$base" >/dev/null 2>&1; then
        from=$(base_of_distribution) || return
        base=verbena/base:${from%% *}
        say "no registry has $IMAGE_BASE: making $base from packages"
        need "a base without a registry" mmdebstrap
        quietly "making $base" import_base "$base" "$from" || return
    fi
    quietly "docker build" env DOCKER_BUILDKIT=0 docker build --network host --build-arg "BASE=$base" \
        --label "$IMAGE_LABEL=$(image_recipe)" ${http_proxy:+--build-arg "http_proxy=$http_proxy"} -t "$IMAGE" - <"$CI_DIR/Dockerfile"
}

# Prints the release that a base is made of, and its archive: Debian's is 13 at least, the first with a JDK 25.
base_of_distribution() {
    local release version
    release=$(of_os_release VERSION_CODENAME)
    version=$(of_os_release VERSION_ID)
    if [ "$(of_os_release ID)" = debian ] && [ "${version:-13}" -lt 13 ]; then release=trixie; fi
    echo "$release $(archive_of "$(of_os_release VERSION_CODENAME)")"
}

# What the image's own build would remove is not there in the first place: a layer notes what it removed, and when.
import_base() { # NAME RELEASE_AND_ARCHIVE
    local release=${2%% *} archive=${2#* } tar components=main code=0
    tar=$(mktemp --suffix=.tar) || return
    [ "$(of_os_release ID)" != ubuntu ] || components='main universe'
    # shellcheck disable=SC2016 # mmdebstrap's shell is to expand it
    SOURCE_DATE_EPOCH=$IMAGE_EPOCH mmdebstrap --variant=minbase --components="$components" --skip=output/dev \
        --customize-hook='cd "$1" && rm -rf etc/resolv.conf etc/hostname var/lib/apt/lists/* var/cache/apt/* var/log/* \
            var/cache/debconf/*-old var/lib/dpkg/*-old var/cache/ldconfig/aux-cache' "$release" "$tar" "$archive" &&
        docker import "$tar" "$1" || code=$?
    rm -f "$tar"
    return "$code"
}
