package dev.verbena.internal.verbs;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;

import dev.verbena.bindings.ibv_mw_bind_info;
import dev.verbena.bindings.ibv_send_wr;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.random.RandomGenerator;
import java.util.stream.IntStream;

/**
 * Memory regions and windows of a {@link FakeDevice}. Invalidating a window that is not bound is a
 * panic, as in kernels. The caller holds the device's monitor.
 */
final class FakeMemory {
    private static final int SUCCESS = 0;
    private static final int QP_OP_ERROR = 2;
    private static final int BIND_ERROR = 6;

    /** A registered region, or the part of it that a window is bound to. */
    private record Range(long start, long bytes, int rights) {
        boolean admits(long address, long count, int needed) {
            return address >= start
                    && address + count <= start + bytes
                    && (rights & needed) == needed;
        }
    }

    private static final class Window {
        int key;
        int written; // the rkey in its ibv_mw, which is the library's to write
        long boundOn; // the queue pair, or 0
        long region; // that it is or was bound to
        Range range; // of it
    }

    private final FakeSettings settings;
    private final FakeObjects objects;
    private final Map<Integer, Range> regions = new HashMap<>(); // by local key
    private final Map<Integer, Range> remote = new HashMap<>(); // by remote key
    private final List<Integer> open = new ArrayList<>(); // of those, what the peer may write to
    private final Map<Long, Window> windows = new HashMap<>();
    private int lastKey;

    FakeMemory(FakeSettings settings, FakeObjects objects) {
        this.settings = settings;
        this.objects = objects;
    }

    int windowCount() {
        return windows.size();
    }

    long register(long pd, MemorySegment memory, int access) {
        settings.registeredFor.add(access);
        if (settings.pagesAreReadOnly && (access & ~Rights.REMOTE_READ) != 0) {
            return -Errno.EFAULT; // the kernel pins them as writable
        }
        if (settings.optionalRightsError != 0 && (access & Rights.OPTIONAL) != 0) {
            return -settings.optionalRightsError;
        }
        long mr = register(pd, new Range(memory.address(), memory.byteSize(), access));
        if (mr > 0 && (access & Rights.REMOTE_WRITE) != 0) {
            open.add(FakeDevice.keyOf(mr));
        }
        return mr;
    }

    private long register(long pd, Range range) {
        long address = objects.makePlain(pd, "mr");
        if (address > 0) {
            regions.put(FakeDevice.localKeyOf(address), range);
            remote.put(FakeDevice.keyOf(address), range);
        }
        return address;
    }

    long registerDmaBuf(long pd, int descriptor, long offset, long length, long iova, int access) {
        settings.registeredFor.add(access);
        if (settings.dmaBufError != 0) {
            return -settings.dmaBufError;
        }
        settings.dmaBufs.add(List.of((long) descriptor, offset, length, iova));
        return register(pd, new Range(iova, length, access));
    }

    /** As on Soft-RoCE and in InfiniBand's specification, windows hold their region. */
    int deregister(long mr) {
        if (windows.values().stream().anyMatch(w -> w.boundOn != 0 && w.region == mr)) {
            settings.destroys.add("ibv_dereg_mr");
            settings.notifyAll();
            return -Errno.EINVAL;
        }
        regions.remove(FakeDevice.localKeyOf(mr));
        remote.remove(FakeDevice.keyOf(mr));
        open.remove((Integer) FakeDevice.keyOf(mr));
        return objects.destroyPlain("ibv_dereg_mr", mr);
    }

    int prefetch(int advice, long address, int length, int localKey) {
        settings.prefetches.add(
                List.of((long) advice, address, Integer.toUnsignedLong(length), (long) localKey));
        return -settings.prefetchError;
    }

    /** Writes a byte somewhere into a region that is registered for that; false if none is. */
    boolean peerWrites(RandomGenerator random, byte value) {
        if (open.isEmpty()) {
            return false;
        }
        Range region = remote.get(open.get(random.nextInt(open.size())));
        Native.EVERYWHERE.set(JAVA_BYTE, region.start + random.nextLong(region.bytes), value);
        return true;
    }

    long allocateWindow(long pd) {
        long address = settings.windows ? objects.madeIn(pd) : -Errno.EOPNOTSUPP;
        if (address > 0) {
            Window window = new Window();
            window.key = newKey();
            window.written = window.key;
            windows.put(address, window);
        }
        return address;
    }

    /** The index of a window that no other has, and 0 in the byte that each bind changes. */
    private int newKey() {
        do {
            lastKey = lastKey + 0x100 | 0x80000000;
        } while (windows.values().stream().anyMatch(w -> indexOf(w.key) == lastKey));
        return lastKey;
    }

    int windowKey(long mw) {
        return windows.get(mw).key;
    }

    void setWindowKey(long mw, int key) {
        Window window = windows.get(mw);
        if (window == null) {
            settings.panics.add("wrote into a freed window");
        } else {
            window.written = key;
        }
    }

    int freeWindow(long mw) {
        return objects.destroy("ibv_dealloc_mw", windows, mw);
    }

    /** Whether a peer may read or write through the window with this key. */
    boolean honours(int key) {
        return windows.values().stream().anyMatch(w -> w.key == key && w.boundOn != 0);
    }

    /**
     * Whether a peer may access memory with this key: that of a region, or that of a window that is
     * bound on this queue pair.
     */
    boolean admits(int key, long qp, long address, long bytes, int right) {
        Range region = remote.get(key);
        return region != null && region.admits(address, bytes, right)
                || windows.values().stream()
                        .anyMatch(
                                w ->
                                        w.key == key
                                                && w.boundOn == qp
                                                && w.range.admits(address, bytes, right));
    }

    /** Whether all buffers of a request are in regions that are registered, with this right. */
    boolean admits(PostedRequest request, int right) {
        List<MemorySegment> buffers = request.buffers();
        return IntStream.range(0, buffers.size())
                .allMatch(
                        i -> {
                            MemorySegment buffer = buffers.get(i);
                            Range region = regions.get(request.localKey(i));
                            return region != null
                                    && region.admits(buffer.address(), buffer.byteSize(), right);
                        });
    }

    /** A queue pair is destroyed. */
    void release(long qp) {
        if (windows.values().stream().anyMatch(window -> window.boundOn == qp)) {
            settings.panics.add("a queue pair was destroyed with a window bound on it");
        }
    }

    private Window windowOf(PostedRequest bind) {
        return windows.get(
                bind.longAt(ibv_send_wr.bind_mw$offset() + ibv_send_wr.bind_mw.mw$offset()));
    }

    private static int keyOf(PostedRequest bind) {
        return bind.intAt(ibv_send_wr.bind_mw$offset() + ibv_send_wr.bind_mw.rkey$offset());
    }

    /** A bind is posted. Some providers look then at the key that the window had before. */
    void posted(PostedRequest bind) {
        Window window = windowOf(bind);
        int before = keyOf(bind) & ~0xFF | keyOf(bind) - 1 & 0xFF;
        if (window != null && window.written != before) {
            settings.panics.add("a window's rkey was 0x%08x".formatted(window.written));
        }
    }

    /** Carries out a bind, as rxe_check_bind_mw does: the status of its completion. */
    int bind(PostedRequest send, long qp) {
        long info = ibv_send_wr.bind_mw$offset() + ibv_send_wr.bind_mw.bind_info$offset();
        long mr = send.longAt(info + ibv_mw_bind_info.mr$offset());
        Range range =
                new Range(
                        send.longAt(info + ibv_mw_bind_info.addr$offset()),
                        send.longAt(info + ibv_mw_bind_info.length$offset()),
                        send.intAt(info + ibv_mw_bind_info.mw_access_flags$offset()));
        boolean writes = (range.rights & (Rights.REMOTE_WRITE | Rights.REMOTE_ATOMIC)) != 0;
        int needed = Rights.BIND_WINDOWS | (writes ? Rights.LOCAL_WRITE : 0);
        Range region = regions.get(FakeDevice.localKeyOf(mr));
        Window window = windowOf(send);
        if (window == null
                || window.boundOn != 0
                || region == null
                || range.bytes == 0
                || !region.admits(range.start, range.bytes, needed)) {
            return BIND_ERROR;
        }
        window.boundOn = qp;
        window.key = keyOf(send);
        window.range = range;
        window.region = mr;
        return SUCCESS;
    }

    /** Carries out an invalidate of this queue pair's. */
    int invalidate(int key, long by) {
        Window window = window(key);
        return window != null && unbind(window, by) ? SUCCESS : QP_OP_ERROR;
    }

    /**
     * Carries out the invalidate that a message for this queue pair asks for. A key that no window
     * has is accepted: which devices look is unknown.
     *
     * @return false when the key is not this queue pair's
     */
    boolean invalidateFor(int key, long qp) {
        Window window = window(key);
        if (settings.peerIsHostile && windows.values().stream().anyMatch(w -> isFree(w, key))) {
            return false; // the peer's mistake, not this side's
        }
        return window == null || unbind(window, settings.anyoneInvalidates ? window.boundOn : qp);
    }

    /** Whether this is the window of the key, and not bound: perhaps its bind was only posted. */
    private static boolean isFree(Window window, int key) {
        return indexOf(window.key) == indexOf(key) && window.boundOn == 0;
    }

    private static int indexOf(int key) {
        return key & ~0xFF;
    }

    private @Nullable Window window(int key) {
        return windows.values().stream().filter(w -> w.key == key).findFirst().orElse(null);
    }

    private boolean unbind(Window window, long by) {
        if (window.boundOn == 0) {
            settings.panics.add("window 0x%08x is not bound".formatted(window.key));
        } else if (window.boundOn != by) {
            return false;
        }
        window.boundOn = 0;
        return true;
    }
}
