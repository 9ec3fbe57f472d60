package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.device.Device;
import dev.verbena.internal.device.OwnedMemory;
import dev.verbena.internal.device.Registration;
import dev.verbena.internal.queue.RegisteredMemory;
import dev.verbena.internal.runtime.Teardown;
import dev.verbena.internal.verbs.Errno;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.util.Collections;
import java.util.EnumSet;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;

/**
 * Registered memory: NDK's MR, verbs' {@code ibv_mr}.
 *
 * <p>{@link ProtectionDomain#allocate} creates a region that owns its memory: prefer it. The memory
 * is freed only after the deregistration, so no device or peer can access what is at these
 * addresses later. {@link ProtectionDomain#register} registers memory that the caller owns, such as
 * a mapped file, and {@link ProtectionDomain#registerDmaBuf} memory of another device.
 *
 * <p>May be used from any thread. If it is closed while requests that name it are outstanding, they
 * fail. If it is closed while it is the region of a {@link MemoryWindow}'s last bind, invalidated
 * or not, it is deregistered when that window {@linkplain MemoryWindow#releaseRegion releases it},
 * is bound to something else or closed. Memory that the region owns is freed then; Java code has no
 * access to it after {@link #close} (IllegalStateException). Memory that the caller owns must stay
 * allocated until then; {@link #awaitClosed} waits until it may be freed.
 */
public final class MemoryRegion extends NativeObject {
    private static final long LONGEST_ADVICE = 1L << 31; // the length of an ibv_sge has 32 bits

    /**
     * Regions that are registered, also those that could not be deregistered, so the device may
     * write into them. Referenced here so that the garbage collector does not free their memory (of
     * an automatic arena or a direct buffer).
     */
    private static final Set<MemoryRegion> REGISTERED = ConcurrentHashMap.newKeySet();

    private final ProtectionDomain domain;
    private final RegisteredMemory registered;
    private final int remoteToken;
    private final Set<Access> rights;
    private final @Nullable OwnedMemory owned; // null if the caller owns the memory
    private final @Nullable NativeObject divider; // the arena or pool whose memory it is
    private volatile boolean dividerCloses;

    /**
     * Registers memory.
     *
     * @param parent the object that is destroyed after this region
     * @param register registers the memory with verbs
     * @param owned the memory, if the region is to free it
     * @param divider the pool or arena that divides the memory and closes the region; null if its
     *     user closes it
     */
    MemoryRegion(
            NativeObject parent,
            ProtectionDomain domain,
            Function<Registration, RegisteredMemory> register,
            @Nullable OwnedMemory owned,
            @Nullable NativeObject divider,
            Access... rights) {
        super(parent);
        this.domain = domain;
        this.owned = owned;
        this.divider = divider;
        Device device = domain.adapter().device();
        try {
            REGISTERED.add(this);
            Set<Access> asked = EnumSet.noneOf(Access.class);
            Collections.addAll(asked, rights);
            this.rights = Collections.unmodifiableSet(asked);
            int access = Access.verbs(rights, device.reported().readSinkRequired());
            this.registered = register.apply(new Registration(device, domain.handle(), access));
            this.remoteToken = device.control().remoteKey(registered.handle());
        } catch (Throwable t) {
            REGISTERED.remove(this);
            abandon();
            throw t;
        }
    }

    /**
     * How much memory this process may lock in total, which limits how much it can register: its
     * {@code memlock} limit. A process with CAP_IPC_LOCK may exceed it.
     *
     * @return the number of bytes; {@link Long#MAX_VALUE} if there is no limit or it cannot be read
     */
    public static long lockableBytes() {
        return Registration.lockableBytes();
    }

    /**
     * The registered memory.
     *
     * @return the segment it was registered with
     * @throws UnsupportedOperationException for a {@linkplain ProtectionDomain#registerDmaBuf
     *     dma-buf}, which Java has no access to
     */
    public MemorySegment memory() {
        if (isDmaBuf()) {
            throw new UnsupportedOperationException(
                    "%s has no memory segment: Java has no access to a dma-buf; map its file descriptor, if its exporter lets you"
                            .formatted(this));
        }
        return registered.memory();
    }

    private boolean isDmaBuf() {
        return registered.memory().byteSize() == 0; // all other regions have at least one byte
    }

    /**
     * Brings pages of a region that is registered {@link Access#ON_DEMAND} into memory and
     * announces them to the device, so that the next requests do not wait for them ({@code
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
                        domain.adapter()
                                .device()
                                .control()
                                .prefetch(
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

    /**
     * The address of the {@code ibv_mr}, for functions of libibverbs that this library does not
     * call: see {@linkplain dev.verbena Native handles}.
     *
     * @return a segment of size 0 at that address
     * @throws IllegalStateException if this object is closed
     */
    @CheckReturnValue
    public MemorySegment nativeHandle() {
        return nativeHandle(registered.handle());
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
     * The size of the pages in which {@link ProtectionDomain#allocate} allocated its memory.
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
    void shut(Teardown end) {
        if (owned != null) {
            boolean _ = owned.endJavaAccess(); // false while in use: free() tries again
        }
    }

    @Override
    void destroy(Teardown end) {
        if (end.check(
                domain.adapter().device().control().deregisterMemory(registered.handle()),
                "ibv_dereg_mr")) {
            REGISTERED.remove(this);
            if (owned != null) {
                owned.free();
            }
        }
    }

    @Override
    String describe() {
        return "MemoryRegion of %d bytes %s 0x%x"
                .formatted(bytes(), isDmaBuf() ? "of a dma-buf, named from" : "at", start());
    }
}
