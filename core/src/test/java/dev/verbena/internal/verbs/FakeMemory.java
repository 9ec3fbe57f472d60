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

    /** Registered memory. */
    private record Region(long start, long bytes) {
        boolean contains(long address, long count) {
            return address >= start && address + count <= start + bytes;
        }
    }

    private static final class Window {
        int key;
        int written; // the rkey in its ibv_mw, which is the library's to write
        long boundOn; // the queue pair, or 0
        long region; // that it is or was bound to
        long start;
        long bytes;
    }

    private final FakeSettings settings;
    private final FakeObjects objects;
    private final Map<Integer, Region> regions = new HashMap<>(); // by local key
    private final Map<Long, Region> open = new HashMap<>(); // those that the peer may write to
    private final List<Long> openRegions = new ArrayList<>(); // its keys, to choose one
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
        return register(pd, new Region(memory.address(), memory.byteSize()), access);
    }

    private long register(long pd, Region region, int access) {
        long address = objects.makePlain(pd, "mr");
        if (address > 0) {
            regions.put(FakeDevice.localKeyOf(address), region);
            if ((access & Rights.REMOTE_WRITE) != 0) {
                open.put(address, region);
                openRegions.add(address);
            }
        }
        return address;
    }

    long registerDmaBuf(long pd, int descriptor, long offset, long length, long iova, int access) {
        settings.registeredFor.add(access);
        if (settings.dmaBufError != 0) {
            return -settings.dmaBufError;
        }
        settings.dmaBufs.add(List.of((long) descriptor, offset, length, iova));
        return objects.makePlain(pd, "mr");
    }

    /** As on Soft-RoCE and in InfiniBand's specification, windows hold their region. */
    int deregister(long mr) {
        if (windows.values().stream().anyMatch(w -> w.boundOn != 0 && w.region == mr)) {
            settings.destroys.add("ibv_dereg_mr");
            settings.notifyAll();
            return -Errno.EINVAL;
        }
        regions.remove(FakeDevice.localKeyOf(mr));
        if (open.remove(mr) != null) {
            openRegions.remove(mr);
        }
        return objects.destroyPlain("ibv_dereg_mr", mr);
    }

    int prefetch(int advice, long address, int length, int localKey) {
        settings.prefetches.add(
                List.of((long) advice, address, Integer.toUnsignedLong(length), (long) localKey));
        return -settings.prefetchError;
    }

    /** Writes a byte somewhere into a region that is registered for that; false if none is. */
    boolean peerWrites(RandomGenerator random, byte value) {
        if (openRegions.isEmpty()) {
            return false;
        }
        Region region = open.get(openRegions.get(random.nextInt(openRegions.size())));
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
    boolean admits(int key, long qp, long address, long bytes) {
        return windows.values().stream()
                        .anyMatch(
                                w ->
                                        w.key == key
                                                && w.boundOn == qp
                                                && address >= w.start
                                                && address + bytes <= w.start + w.bytes)
                || open.entrySet().stream()
                        .anyMatch(
                                entry ->
                                        FakeDevice.keyOf(entry.getKey()) == key
                                                && entry.getValue().contains(address, bytes));
    }

    /** Whether all buffers of a request are memory of regions that are registered. */
    boolean admits(PostedRequest request) {
        List<MemorySegment> buffers = request.buffers();
        return IntStream.range(0, buffers.size())
                .allMatch(
                        i -> {
                            MemorySegment buffer = buffers.get(i);
                            Region region = regions.get(request.localKey(i));
                            return region != null
                                    && region.contains(buffer.address(), buffer.byteSize());
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

    /** Carries out a bind: the status of its completion. */
    int bind(PostedRequest send, long qp) {
        Window window = windowOf(send);
        if (window == null || window.boundOn != 0) {
            return BIND_ERROR;
        }
        window.boundOn = qp;
        window.key = keyOf(send);
        long info = ibv_send_wr.bind_mw$offset() + ibv_send_wr.bind_mw.bind_info$offset();
        window.start = send.longAt(info + ibv_mw_bind_info.addr$offset());
        window.bytes = send.longAt(info + ibv_mw_bind_info.length$offset());
        window.region = send.longAt(info + ibv_mw_bind_info.mr$offset());
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
