# shellcheck shell=bash
# Says what ci/roce would do here and what is missing. Changes nothing.
#
# Reads: ON, CACHE (roce), WAYS, RDMA_TOOLS (ways.sh), VM_TOOLS (vm.sh), BUILD_TOOLS, TEST_TOOLS (project.sh), ENGINE_TOOLS (engine.sh)
# Sets:  VM (vm.sh)
# For other files: doctor

doctor() {
    local way why taken='' missing jdk
    echo "Ways to RDMA devices, best first"
    for way in "${WAYS[@]}"; do
        why=$(why_not "$way")
        if [ -z "$why" ]; then
            if [ -z "$taken" ] && [[ $ON == auto || $ON == "$way" ]]; then taken=$way; fi
            printf '  %-5s yes  %s\n' "$way" "$(about_way "$way")"
        else
            printf '  %-5s no   %s\n' "$way" "$why"
        fi
    done
    echo
    if [ -n "$taken" ]; then echo "ci/roce would take: $taken"; else echo "ci/roce would take: none (asked for: --on $ON)"; fi
    if have_apt; then
        local wanted=("${RDMA_TOOLS[@]}" "${BUILD_TOOLS[@]}" "${TEST_TOOLS[@]}")
        [ "$taken" != vm ] || wanted+=("${VM_TOOLS[@]}")
        mapfile -t missing < <(missing_of "${wanted[@]}")
        echo "Missing packages:   ${missing[*]:-none}"
        [ ${#missing[@]} = 0 ] || echo "                    (installed when first needed; or: apt-get install ${missing[*]})"
    else
        echo "Missing packages:   unknown, there is no apt here; needed are rdma-core's libraries and tools, QEMU, Maven, a C compiler"
    fi
    echo "Container engine:   $(about_engine)"
    jdk=$(find_jdk)
    if [ -n "$jdk" ]; then
        echo "JDK:                $jdk ($(jdk_version "$jdk"))"
    else
        echo "JDK:                none of version 25 or newer; ci/roce installs openjdk-25-jdk-headless where apt has it"
    fi
    if command -v mvn >/dev/null; then echo "Maven:              $(command -v mvn)"; else echo "Maven:              none"; fi
    echo "Lockable memory:    $(ulimit -l) KiB (registered memory is locked; in the VM it is unlimited)"
    [ -n "$taken" ]
}

about_engine() {
    local way why
    if way=$(way_with_engine_here 2>/dev/null) && [ -n "$way" ]; then
        echo "this machine's ($way)"
        return
    fi
    why=$(why_no_engine)
    [ -n "$why" ] || why="this machine's is on a kernel without RDMA devices to be had"
    echo "one in the micro VM, as $why"
    if have_apt; then
        mapfile -t why < <(missing_of "${ENGINE_TOOLS[@]}")
        [ ${#why[@]} = 0 ] || echo "                    (missing for that: ${why[*]})"
    fi
}

about_way() { # WAY
    case $1 in
        host) echo "active: $(lasting_devices)" ;;
        rxe) if [ -e /sys/module/rdma_rxe ]; then echo "rdma_rxe is loaded"; else echo "kernel $(uname -r) has rdma_rxe"; fi ;;
        vm) about_vm ;;
    esac
}

about_vm() {
    local why verdict accelerator
    VM=$CACHE/vm/$(vm_recipe)
    why=$(why_kvm_cannot_be_tried)
    if [ -n "$why" ]; then
        accelerator="software emulation, as $why"
    elif command -v qemu-system-x86_64 >/dev/null && verdict=$(kvm_verdict_file) && [ -e "$verdict" ]; then
        verdict=$(cat "$verdict")
        accelerator=KVM
        [ "$verdict" = works ] || accelerator="software emulation, as /dev/kvm was tried and $verdict"
    else
        accelerator="/dev/kvm to be tried when first used"
    fi
    if [ -e "$VM/complete" ]; then
        echo "kernel $(cat "$VM/version"), $accelerator"
    else
        echo "kernel from $(kernel_meta_package) (not made yet), $accelerator"
    fi
}
