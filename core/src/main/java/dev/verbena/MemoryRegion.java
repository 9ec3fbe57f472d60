package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.events.FlightRecording;
import dev.verbena.internal.events.FlightRecording.RegistrationEvent;
import dev.verbena.internal.queue.RegisteredMemory;
import dev.verbena.internal.runtime.Log;
import dev.verbena.internal.verbs.DeviceControl;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.Rights;

import org.jspecify.annotations.Nullable;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.EnumSet;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;

/**
 * Registered memory: NDK's MR, verbs' {@code ibv_mr}.
 *
 * <p>{@link ProtectionDomain#allocate} makes a region with memory of its own: prefer it. The memory
 * is freed only after the deregistration, so no device or peer can access what is at these
 * addresses later. {@link ProtectionDomain#register} makes a region of memory that the caller owns,
 * such as a mapped file; {@link ProtectionDomain#registerDmaBuf} of memory of another device.
 *
 * <p>May be used from any thread. If it is closed while requests that name it are outstanding, they
 * fail. If it is closed while it is the region of a {@link MemoryWindow}'s last bind, invalidated
 * or not, it is deregistered when that window {@linkplain MemoryWindow#releaseRegion releases it},
 * is bound to something else or closed. Memory of its own is freed then; Java code has no access to
 * it after {@link #close} (IllegalStateException). Memory of the caller's must stay allocated until
 * then; {@link #awaitClosed} waits until it may be freed.
 */
public final class MemoryRegion extends NativeObject {
    private static final String LOCKED = "Max locked memory";
    private static final long LONGEST_ADVICE = 1L << 31; // the length of an ibv_sge has 32 bits

    /**
     * Regions that could not be deregistered, so the device may still write into them. Referenced
     * here so that the garbage collector does not free their memory (of an automatic arena or a
     * direct buffer).
     */
    private static final Set<MemoryRegion> STILL_REGISTERED = ConcurrentHashMap.newKeySet();

    private final ProtectionDomain domain;
    private final DeviceControl control;
    private final RegisteredMemory registered;
    private final int remoteToken;
    private final Set<Access> rights;
    private final @Nullable OwnedMemory owned; // null for memory of the caller's
    private final @Nullable DmaBuf dmaBuf; // null for memory of this process
    private final @Nullable NativeObject divider; // the arena or pool whose memory it is
    private volatile boolean dividerCloses;

    /** Registers memory of the caller's. */
    MemoryRegion(ProtectionDomain domain, MemorySegment memory, Access... rights) {
        this(domain, domain, memory, null, null, null, rights);
    }

    /** Registers a slab of an arena, which frees the memory. */
    MemoryRegion(RegisteredArena arena, MemorySegment memory, Access... rights) {
        this(arena, arena.domain(), memory, null, null, arena, rights);
    }

    /**
     * Registers memory that the region is to own.
     *
     * @param divider what divides it up and closes it; null for a region that its user closes
     */
    MemoryRegion(
            ProtectionDomain domain,
            OwnedMemory owned,
            @Nullable NativeObject divider,
            Access... rights) {
        this(domain, domain, owned.segment(), owned, null, divider, rights);
    }

    /** Registers memory of another device. */
    MemoryRegion(ProtectionDomain domain, DmaBuf dmaBuf, Access... rights) {
        this(domain, domain, MemorySegment.NULL, null, dmaBuf, null, rights);
    }

    private MemoryRegion(
            NativeObject parent,
            ProtectionDomain domain,
            MemorySegment memory,
            @Nullable OwnedMemory owned,
            @Nullable DmaBuf dmaBuf,
            @Nullable NativeObject divider,
            Access... rights) {
        super(parent);
        this.domain = domain;
        this.owned = owned;
        this.dmaBuf = dmaBuf;
        this.divider = divider;
        this.control = domain.adapter().control();
        int access = Access.verbs(rights, domain.adapter().reported().readSinkRequired());
        Set<Access> asked = EnumSet.noneOf(Access.class);
        Collections.addAll(asked, rights);
        this.rights = Collections.unmodifiableSet(asked);
        long made = 0;
        try {
            if (dmaBuf == null) {
                checkUsable(memory);
                checkWritable(memory, rights);
            }
            if ((access & Rights.ON_DEMAND) != 0) {
                checkPaging(domain.adapter());
            }
            int granted = access | implied(domain.adapter(), access, !memory.isReadOnly());
            RegistrationEvent event = FlightRecording.on() ? RegistrationEvent.start() : null;
            try {
                made =
                        dmaBuf == null
                                ? register(domain, memory, granted)
                                : dmaBuf.register(domain, granted);
            } finally {
                if (event != null) {
                    event.end(
                            domain.adapter().name(),
                            dmaBuf == null ? memory.byteSize() : dmaBuf.length(),
                            granted,
                            made > 0);
                }
            }
            this.registered =
                    new RegisteredMemory(
                            domain,
                            memory,
                            dmaBuf == null ? memory.address() : dmaBuf.iova(),
                            dmaBuf == null ? memory.byteSize() : dmaBuf.length(),
                            made,
                            control.localKey(made),
                            (access & Rights.LOCAL_WRITE) != 0,
                            (granted & Rights.BIND_WINDOWS) != 0);
            this.remoteToken = control.remoteKey(made);
            domain.keep(this);
        } catch (Throwable t) {
            if (made > 0) {
                control.deregisterMemory(made);
            }
            abandon();
            throw t;
        }
    }

    private static long register(ProtectionDomain domain, MemorySegment memory, int access) {
        DeviceControl control = domain.adapter().control();
        long made = control.registerMemory(domain.address(), memory, access);
        if ((made == -Errno.EOPNOTSUPP || made == -Errno.EINVAL)
                && (access & Rights.OPTIONAL) != 0) {
            // Optional rights may be ignored, but rxe refused them in some kernels after 6.1.
            made = control.registerMemory(domain.address(), memory, access & ~Rights.OPTIONAL);
        }
        if (made < 0) {
            throw VerbenaException.of(
                    "ibv_reg_mr(%d bytes)".formatted(memory.byteSize()),
                    made,
                    RegistrationAdvice.forMemory(
                            domain.adapter().provider(), (int) -made, access, memory.byteSize()));
        }
        return made;
    }

    private static void checkPaging(Adapter adapter) {
        if (!adapter.reported().onDemandPaging().supported()) {
            throw new VerbenaException(
                    Status.NOT_SUPPORTED, RegistrationAdvice.NO_PAGING.formatted(adapter.name()));
        }
        String defect = adapter.provider().pagingDefect();
        if (defect != null && adapter.isFirstPaging()) {
            Log.warn(defect);
        }
    }

    /**
     * How much memory this process may lock in total, which limits how much it can register: its
     * {@code memlock} limit. A process with CAP_IPC_LOCK may exceed it.
     *
     * @return the number of bytes; {@link Long#MAX_VALUE} if there is no limit or it cannot be read
     */
    public static long lockableBytes() {
        try (Stream<String> limits = Files.lines(Path.of("/proc/self/limits"))) {
            return limits.filter(line -> line.startsWith(LOCKED))
                    .map(line -> line.substring(LOCKED.length()).strip().split(" ")[0])
                    .filter(soft -> !soft.equals("unlimited"))
                    .map(Long::valueOf)
                    .findFirst()
                    .orElse(Long.MAX_VALUE);
        } catch (IOException | UncheckedIOException e) {
            return Long.MAX_VALUE;
        }
    }

    /**
     * Rights that NDK has no flags for: binding windows, if the device has any, and atomics, if the
     * peer may both read and write. Not windows for a read-only segment: for them the kernel pins
     * memory as writable, which fails for a read-only mapping.
     */
    private static int implied(Adapter adapter, int access, boolean writable) {
        int both = Rights.REMOTE_READ | Rights.REMOTE_WRITE;
        return (writable && adapter.reported().invalidatableWindows() ? Rights.BIND_WINDOWS : 0)
                | (adapter.reported().atomics() && (access & both) == both
                        ? Rights.REMOTE_ATOMIC
                        : 0);
    }

    private static void checkWritable(MemorySegment memory, Access... rights) {
        for (Access right : rights) {
            if (memory.isReadOnly() && right.writes()) {
                throw new IllegalArgumentException(
                        "This memory segment is read-only, but %s would let the device write to it: register it with no right or REMOTE_READ, or register a segment that is not read-only"
                                .formatted(right));
            }
        }
    }

    private static void checkUsable(MemorySegment memory) {
        if (!memory.isNative()) {
            throw new IllegalArgumentException(
                    "This memory segment is on the Java heap, where the garbage collector moves objects:"
                            + " RDMA needs native memory, as from Arena.ofShared().allocate(…) or"
                            + " FileChannel.map(…, arena)");
        }
        if (!memory.scope().isAlive()) {
            throw new IllegalStateException(
                    "This memory cannot be registered: its arena was closed");
        }
        if (!memory.isAccessibleBy(Thread.currentThread())) {
            throw new WrongThreadException(
                    "This memory is confined to another thread (Arena.ofConfined): register it there, or use Arena.ofShared()");
        }
        if (memory.byteSize() == 0) {
            throw new IllegalArgumentException(
                    "This memory segment has 0 bytes; register at least 1");
        }
    }

    /**
     * The registered memory.
     *
     * @return the segment it was registered with
     * @throws UnsupportedOperationException for a {@linkplain ProtectionDomain#registerDmaBuf
     *     dma-buf}, which Java has no access to
     */
    public MemorySegment memory() {
        if (dmaBuf != null) {
            throw new UnsupportedOperationException(
                    "%s has no memory segment: Java has no access to a dma-buf; map its file descriptor, if its exporter lets you"
                            .formatted(this));
        }
        return registered.memory();
    }

    /**
     * Brings pages of a region that is registered {@link Access#ON_DEMAND} into memory and makes
     * them known to the device, so that the next requests do not wait for them ({@code
     * ibv_advise_mr}). Returns when that is done, but the kernel may evict the pages again at any
     * time. Has no effect on other regions, whose pages are always there.
     *
     * @param offset the first byte, counted from the region's start
     * @param length how many bytes
     * @param purpose what the device will do with them
     * @throws IllegalStateException if the region is closed
     * @throws IndexOutOfBoundsException for bytes outside the region
     * @throws VerbenaException with NOT_SUPPORTED where provider or driver cannot do it, as with
     *     Soft-RoCE and rdma-core 44: requests work without it, more slowly; with ACCESS_VIOLATION
     *     for pages that cannot be fetched for this purpose
     */
    public void prefetch(long offset, long length, Prefetch purpose) {
        Objects.checkFromIndexSize(offset, length, bytes());
        acquire(); // no deregistration in between
        try {
            for (long done = 0; done < length && rights.contains(Access.ON_DEMAND); ) {
                long part = Math.min(length - done, LONGEST_ADVICE);
                long answer =
                        control.prefetch(
                                domain.address(),
                                purpose.advice(),
                                start() + offset + done,
                                (int) part,
                                localToken());
                Errno.check(
                        answer,
                        "ibv_advise_mr(%s, %,d bytes)".formatted(purpose, part),
                        "Without it, the device fetches each page when a request needs it.");
                done += part;
            }
        } finally {
            release();
        }
    }

    /**
     * The local key (NDK: token) for requests posted on this side (NdkGetLocalTokenFromMr).
     *
     * @return 32 opaque bits
     */
    public int localToken() {
        return registered.localKey();
    }

    /**
     * The remote key (NDK: token) for the peer's reads and writes (NdkGetRemoteTokenFromMr). As a
     * Java int it may be negative; send it unchanged.
     *
     * <p>The peer cannot invalidate it: that is for tokens of {@link MemoryWindow}s. If this side
     * announces in its protocol that the peer may invalidate (as NFS and NVMe over RDMA can), and
     * exposes this token, the peer's first reply names it in a send-and-invalidate, which fails and
     * ends the connection. Expose windows there, or do not announce it.
     *
     * @return 32 opaque bits
     */
    public int remoteToken() {
        return remoteToken;
    }

    /**
     * The description of the whole region for a peer, which may use it with the rights of the
     * region as long as it is registered. A {@link MemoryWindow} can grant a part of it and revoke
     * that.
     *
     * @return address, remote key and length, to be sent to the peer
     */
    @CheckReturnValue
    public RemoteMemory remoteMemory() {
        return new RemoteMemory(start(), remoteToken, bytes());
    }

    /**
     * Whether windows may be bound to it ({@link QueuePair#bind}).
     *
     * @return false on a device without windows, and for a read-only segment that was registered
     *     without {@link Access#WINDOWS}
     */
    public boolean bindable() {
        return registered.bindable();
    }

    /** The fields that posts need. */
    RegisteredMemory registered() {
        return registered;
    }

    long start() {
        return registered.start();
    }

    /**
     * The length of the memory.
     *
     * @return in bytes
     */
    public long bytes() {
        return registered.bytes();
    }

    /**
     * The size of the pages that {@link ProtectionDomain#allocate} made its memory of.
     *
     * @return in bytes: that of an ordinary page, also where transparent huge pages were asked for,
     *     or that of a huge page; 0 for memory that was registered, not allocated
     */
    public long pageBytes() {
        return owned == null ? 0 : owned.pageBytes();
    }

    /**
     * The rights it was registered with.
     *
     * @return an immutable set of the requested rights, in the order of {@link Access}
     */
    public Set<Access> rights() {
        return rights;
    }

    /**
     * The domain it was created from.
     *
     * @return the domain, which may be closed by now
     */
    public ProtectionDomain domain() {
        return domain;
    }

    @Override
    void checkMayClose() {
        if (divider != null && !dividerCloses) {
            throw new IllegalStateException(
                    "%s cannot be closed by itself: it is a part of %s, and is closed with it"
                            .formatted(this, divider));
        }
    }

    /** Closes the region, for the arena or pool whose memory it is. */
    void closeWithDivider() {
        dividerCloses = true;
        close();
    }

    @Override
    void shut() {
        if (owned != null) {
            boolean _ = owned.endJavaAccess(); // if not now, then when it is freed
        }
    }

    @Override
    void destroy() {
        Teardown end = new Teardown(this, domain.adapter());
        if (!end.check(control.deregisterMemory(registered.handle()), "ibv_dereg_mr")) {
            STILL_REGISTERED.add(this);
            if (divider instanceof RegisteredArena arena) {
                arena.keepMemory();
            }
        } else if (owned != null) {
            owned.free();
        }
        domain.forget(this);
        end.finish();
    }

    @Override
    String describe() {
        return "MemoryRegion of %d bytes %s 0x%x"
                .formatted(bytes(), dmaBuf == null ? "at" : "of a dma-buf, named from", start());
    }
}
