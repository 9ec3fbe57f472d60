package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.queue.RegisteredMemory;
import dev.verbena.internal.verbs.DeviceControl;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.Provider;
import dev.verbena.internal.verbs.Rights;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.EnumSet;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;

/**
 * Registered memory: NDK's MR, verbs' {@code ibv_mr}.
 *
 * <p>May be used from any thread. Closing it while requests that name it are under way makes those
 * fail. Closing it while a {@link MemoryWindow} is bound to it takes effect when that window is
 * bound to something else or closed; until then the memory has to stay allocated. {@link
 * #awaitClosed} waits until it may go.
 */
public final class MemoryRegion extends NativeObject {
    private static final String LOCKED = "Max locked memory";

    // ib_umem_get of the kernel: ib_access_writable has MW_BIND, too; before Linux 6.2
    // (b40656aa7d55) all memory was pinned with FOLL_WRITE, read-only by FOLL_FORCE, which shared
    // mappings do not allow.
    private static final String ADVICE_FOR_READ_ONLY_PAGES =
            "Is it mapped, and may it be written to? What is mapped read-only (a read-only mapping of a file, PROT_READ) can be registered for reading only: as a segment that says so, asReadOnly(), with no right or REMOTE_READ, without WINDOWS. Linux before 6.2 registers no read-only mapping of a file: map it with MapMode.PRIVATE there. ";

    /**
     * What the device has refused to deregister, and may still write into: kept from the collector,
     * which would free memory of an automatic arena or a direct buffer.
     */
    private static final Set<MemoryRegion> STILL_REGISTERED = ConcurrentHashMap.newKeySet();

    private final ProtectionDomain domain;
    private final DeviceControl control;
    private final RegisteredMemory registered;
    private final int remoteToken;
    private final Set<Access> rights;

    MemoryRegion(ProtectionDomain domain, MemorySegment memory, Access... rights) {
        super(domain);
        this.domain = domain;
        this.control = domain.adapter().control();
        int access = Access.verbs(rights, domain.adapter().attributes().iwarp());
        Set<Access> asked = EnumSet.noneOf(Access.class);
        Collections.addAll(asked, rights);
        this.rights = Collections.unmodifiableSet(asked);
        long made = 0;
        try {
            checkUsable(memory);
            checkWritable(memory, rights);
            int granted = access | implied(domain.adapter(), access, !memory.isReadOnly());
            made = control.registerMemory(domain.address(), memory, granted);
            if (made < 0) {
                throw VerbenaException.of(
                        "ibv_reg_mr(%d bytes)".formatted(memory.byteSize()),
                        made,
                        advice(domain.adapter().provider(), (int) -made, memory.byteSize()));
            }
            this.registered =
                    new RegisteredMemory(
                            domain,
                            memory,
                            memory.address(),
                            memory.byteSize(),
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

    private static String advice(Provider provider, int errno, long bytes) {
        String large = errno == Errno.ENOMEM ? provider.adviceForLargeRegion(bytes) : null;
        if (large != null) {
            return large;
        }
        long lockable = lockableBytes();
        return "%sRegistered memory is locked memory, of which this process may have %s (ulimit -l; systemd LimitMEMLOCK=infinity; in a container --ulimit memlock=-1)."
                .formatted(
                        errno == Errno.EFAULT ? ADVICE_FOR_READ_ONLY_PAGES : "",
                        lockable == Long.MAX_VALUE
                                ? "any amount"
                                : "%,d bytes in all".formatted(lockable));
    }

    /**
     * How much memory this process may lock, and so register, in all: its limit {@code memlock}. A
     * process with CAP_IPC_LOCK may exceed it.
     *
     * @return bytes; {@link Long#MAX_VALUE} without a limit, or when it cannot be known
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
     * Rights that NDK has no flags for: binding windows, wherever there are any, and atomics for a
     * peer that may read and write as it likes anyway. No windows for a read-only segment: for them
     * the kernel pins memory as writable, which a read-only mapping is not.
     */
    private static int implied(Adapter adapter, int access, boolean writable) {
        int both = Rights.REMOTE_READ | Rights.REMOTE_WRITE;
        return (writable && adapter.attributes().windows() ? Rights.BIND_WINDOWS : 0)
                | (adapter.attributes().atomics() && (access & both) == both
                        ? Rights.REMOTE_ATOMIC
                        : 0);
    }

    private static void checkWritable(MemorySegment memory, Access... rights) {
        for (Access right : rights) {
            if (memory.isReadOnly() && right.writes()) {
                throw new IllegalArgumentException(
                        "This memory segment is read-only, so nobody may write to it, and %s would let the device do so: register it with no right or REMOTE_READ, or a segment that may be written to"
                                .formatted(right));
            }
        }
    }

    private static void checkUsable(MemorySegment memory) {
        if (!memory.isNative()) {
            throw new IllegalArgumentException(
                    "This memory segment is on the Java heap, where the collector moves things:"
                            + " RDMA needs native memory, as from Arena.ofShared().allocate(…) or"
                            + " FileChannel.map(…, arena)");
        }
        if (!memory.scope().isAlive()) {
            throw new IllegalStateException("This memory is gone: its arena was closed");
        }
        if (!memory.isAccessibleBy(Thread.currentThread())) {
            throw new WrongThreadException(
                    "This memory is confined to another thread (Arena.ofConfined): register it there, or use Arena.ofShared()");
        }
        if (memory.byteSize() == 0) {
            throw new IllegalArgumentException("There is nothing to register in 0 bytes");
        }
    }

    /**
     * The memory.
     *
     * @return the segment it was registered with
     */
    public MemorySegment memory() {
        return registered.memory();
    }

    /**
     * The token for requests posted here (NdkGetLocalTokenFromMr).
     *
     * @return 32 opaque bits
     */
    public int localToken() {
        return registered.localKey();
    }

    /**
     * The token for the peer's reads and writes (NdkGetRemoteTokenFromMr). As a Java int it may be
     * negative; it is passed on as it is.
     *
     * @return 32 opaque bits
     */
    public int remoteToken() {
        return remoteToken;
    }

    /**
     * What a peer may use for as long as this region is registered: all of it, with the rights that
     * it was registered with. A {@link MemoryWindow} hands out less, and takes it back.
     *
     * @return its address, token and length, for a message to the peer
     */
    @CheckReturnValue
    public RemoteMemory remoteMemory() {
        return RemoteMemory.of(start(), remoteToken, bytes());
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

    /** What posts need of it. */
    RegisteredMemory registered() {
        return registered;
    }

    long start() {
        return registered.start();
    }

    /**
     * How much memory it is.
     *
     * @return in bytes
     */
    public long bytes() {
        return registered.bytes();
    }

    /**
     * The rights it was registered with.
     *
     * @return as asked for, in the order of {@link Access}; may not be changed
     */
    public Set<Access> rights() {
        return rights;
    }

    /**
     * The domain it was made from.
     *
     * @return it may be closed
     */
    public ProtectionDomain domain() {
        return domain;
    }

    @Override
    void destroy() {
        Teardown end = new Teardown(this, domain.adapter());
        if (!end.check(control.deregisterMemory(registered.handle()), "ibv_dereg_mr")) {
            STILL_REGISTERED.add(this);
        }
        domain.forget(this);
        end.finish();
    }

    /**
     * For the domain's set of regions. An object's own is asked of the JVM, for each anew; here it
     * is made of where the provider's {@code ibv_mr} is. Those lie in even steps, which the golden
     * ratio spreads.
     */
    @Override
    public int hashCode() {
        return (int) (registered.handle() * 0x9E37_79B9_7F4A_7C15L >>> 32);
    }

    @Override
    String describe() {
        return "MemoryRegion of %d bytes at 0x%x".formatted(bytes(), start());
    }
}
