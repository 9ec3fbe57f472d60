package dev.verbena.internal.verbs;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * What all objects of a {@link FakeDevice} have in common: an address, and what the calls answer
 * that make and destroy them. The caller holds the device's monitor.
 */
final class FakeObjects {
    private final FakeSettings settings;
    private final Map<Long, String> plain = new HashMap<>();
    private final Map<Long, Long> domains = new HashMap<>(); // by what is in them
    private final List<Runnable> refusedToDestroy = new ArrayList<>(); // forgets each
    private long nextAddress = 0x10_0000;

    FakeObjects(FakeSettings settings) {
        this.settings = settings;
    }

    /** The address of a new object, or a negative errno. */
    long made() {
        if (settings.controlError != 0) {
            int error = settings.controlError;
            settings.controlError = 0;
            return -error;
        }
        nextAddress += 0x100;
        return nextAddress;
    }

    /** The same, of an object in a protection domain. */
    long madeIn(long pd) {
        long address = made();
        if (address > 0) {
            domains.put(address, pd);
        }
        return address;
    }

    /** The same, of an object without a state. */
    long makePlain(long pd, String what) {
        long address = madeIn(pd);
        if (address > 0) {
            plain.put(address, what);
        }
        return address;
    }

    long allocatePd() {
        long address = made();
        if (address > 0) {
            plain.put(address, "pd");
        }
        return address;
    }

    int deallocatePd(long pd) {
        return !settings.gone && domains.containsValue(pd)
                ? -Errno.EBUSY
                : destroyPlain("ibv_dealloc_pd", pd);
    }

    int destroyPlain(String verb, long address) {
        return destroy(verb, plain, address);
    }

    int plainCount() {
        return plain.size();
    }

    /** Something that could not be destroyed. */
    private void refused(Map<Long, ?> objects, long address) {
        refusedToDestroy.add(
                () -> {
                    domains.remove(address);
                    objects.remove(address);
                });
    }

    /** What a destroy answers that fails, or 0. */
    int refusal(String verb) {
        settings.beforeOther.accept(verb);
        settings.destroys.add(verb);
        settings.notifyAll();
        return -settings.destroyErrors.getOrDefault(verb, settings.gone ? Errno.EIO : 0);
    }

    int destroy(String verb, Map<Long, ?> objects, long address) {
        int refusal = refusal(verb);
        if (refusal != 0) {
            refused(objects, address);
            return refusal;
        }
        domains.remove(address);
        return objects.remove(address) == null ? -Errno.EINVAL : 0;
    }

    void forgetRefused() {
        refusedToDestroy.forEach(Runnable::run);
        refusedToDestroy.clear();
    }
}
