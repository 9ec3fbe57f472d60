package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.runtime.Teardown;
import dev.verbena.internal.util.Text;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.concurrent.atomic.LongAdder;

/**
 * Registered buffers of one size, taken before a request and given back after its completion. A
 * take from an empty pool waits until a buffer is given back: memory stays bounded, and a producer
 * is slowed down to the speed of the network.
 *
 * {@snippet :
 * try (BufferPool pool = domain.createBufferPool(BufferPoolOptions.of(256, 4096), Access.LOCAL_WRITE)) {
 *     PooledBuffer buffer = pool.take(Duration.ofSeconds(5));
 *     buffer.memory().setString(0, "Hello");
 *     pair.send(buffer.index(), buffer.buffers(0, 6)).orThrow();
 *     // and when the completion has come:
 *     pool.buffer((int) completions.context(0)).giveBack();
 * }
 * }
 *
 * <p>May be used from any thread, also from virtual ones: a take that waits holds no carrier
 * thread. Taking and giving back allocate nothing and take no lock, unless a take has to wait.
 * Waiting takes are not served in order.
 *
 * <p>If the pool is closed while buffers are taken, takes fail, also those that wait, and its
 * memory is freed when the last buffer is given back ({@link #awaitClosed}).
 */
public final class BufferPool extends NativeObject {
    private static final System.Logger LOGGER = System.getLogger("dev.verbena");
    private static final long STRIDE = 64; // a cache line: buffers do not share one
    private static final int NONE = -1;
    private static final int SHOWN = 3;
    private static final int ENOUGH_FOR_ALL = Integer.MAX_VALUE / 2;

    // Of each buffer.
    private static final int FREE = 0;
    private static final int TAKEN = 1;

    private final BufferPoolOptions options;
    private final Maker maker;
    private final MemoryRegion region;
    private final AtomicReferenceArray<PooledBuffer> buffers;
    private final AtomicIntegerArray states;

    // The free buffers, a stack: the lower half of "head" is the index of the top, or NONE, and
    // "next" has the index of the buffer below each. The upper half counts the changes, so that a
    // compare-and-set fails after changes by others, even if the top is the same again.
    private final AtomicLong head = new AtomicLong(Integer.toUnsignedLong(NONE));
    private final int[] next;

    // A permit for each free buffer. The close adds a permit for each take that may be waiting.
    private final Semaphore available = new Semaphore(0);

    private final LongAdder taken = new LongAdder();
    private final LongAdder returned = new LongAdder();
    private final LongAdder waits = new LongAdder();
    private final LongAdder refusals = new LongAdder();

    /** Makes the buffer with an index: once, or in a pool with tracking for each take. */
    interface Maker {
        PooledBuffer make(BufferPool pool, int index, MemorySegment memory);
    }

    BufferPool(ProtectionDomain domain, BufferPoolOptions options, Access... rights) {
        this(
                domain,
                options,
                options.tracking() ? PooledBuffer::tracked : PooledBuffer::new,
                rights);
    }

    @SuppressWarnings("MustBeClosedChecker") // the region closes the arena
    BufferPool(ProtectionDomain domain, BufferPoolOptions options, Maker maker, Access... rights) {
        super(domain);
        this.options = options;
        this.maker = maker;
        int count = options.count();
        MemoryRegion made = null;
        try {
            this.buffers = new AtomicReferenceArray<>(count);
            this.states = new AtomicIntegerArray(count);
            this.next = new int[count];
            made =
                    domain.allocate(
                            domain,
                            this,
                            Arena.ofShared(),
                            Math.multiplyExact(stride(), (long) count),
                            options.memory(),
                            rights);
            this.region = made;
            for (int index = count - 1; index >= 0; index--) {
                if (!options.tracking()) {
                    buffers.set(index, maker.make(this, index, memory(index)));
                }
                push(index);
            }
            available.release(count);
        } catch (Throwable t) {
            Teardown end = teardown();
            end.failed(t);
            if (made != null) {
                end.run(made::closeWithDivider);
            }
            abandon();
            throw t;
        }
    }

    private long stride() {
        return options.bytes() + STRIDE - 1 & -STRIDE;
    }

    private MemorySegment memory(int index) {
        return region.memory().asSlice(index * stride(), options.bytes());
    }

    /**
     * Takes a buffer, and waits for one if all are taken.
     *
     * @param timeout how long to wait at most
     * @return a buffer, to be given back
     * @throws InterruptedException when the thread is interrupted while it waits
     * @throws VerbenaException IO_TIMEOUT if none was given back in time
     * @throws IllegalStateException if the pool is closed, or is closed during the wait
     */
    @CheckReturnValue
    public PooledBuffer take(Duration timeout) throws InterruptedException {
        acquire();
        int index = NONE;
        try {
            if (!available.tryAcquire()) {
                waits.increment();
                if (!available.tryAcquire(
                        TimeUnit.NANOSECONDS.convert(timeout), TimeUnit.NANOSECONDS)) {
                    refusals.increment();
                    throw exhausted(timeout);
                }
            }
            index = pop();
            if (index == NONE) { // the close added this permit
                throw new ClosedException(this);
            }
        } finally {
            if (index == NONE) {
                release();
            }
        }
        return hand(index);
    }

    /**
     * Takes a buffer if one is free.
     *
     * @return a buffer, to be given back, or null when all are taken
     * @throws IllegalStateException if the pool is closed
     */
    @CheckReturnValue
    public @Nullable PooledBuffer tryTake() {
        acquire();
        int index = available.tryAcquire() ? pop() : NONE;
        if (index == NONE) {
            release();
            refusals.increment();
            return null;
        }
        return hand(index);
    }

    private PooledBuffer hand(int index) {
        if (options.tracking()) {
            try {
                buffers.set(index, maker.make(this, index, memory(index)));
            } catch (Throwable t) { // no memory for it
                put(index);
                release();
                throw t;
            }
        }
        states.set(index, TAKEN);
        taken.increment();
        return buffers.get(index);
    }

    private VerbenaException exhausted(Duration timeout) {
        VerbenaException exception =
                new VerbenaException(
                        Status.IO_TIMEOUT,
                        "%s: none was given back within %s. Is the peer slow, or were buffers not given back? %s"
                                .formatted(
                                        describe(),
                                        Text.time(timeout),
                                        options.tracking()
                                                ? "The suppressed exceptions say where some were taken"
                                                : "A pool with tracking (BufferPoolOptions.withTracking) says where each was taken"));
        outstanding().stream().limit(SHOWN).forEach(exception::addSuppressed);
        return exception;
    }

    /** Returns a buffer to the pool; false when it is not taken. */
    boolean putBack(int index) {
        if (!states.compareAndSet(index, TAKEN, FREE)) {
            return false;
        }
        returned.increment();
        put(index);
        release();
        return true;
    }

    private void put(int index) {
        push(index);
        available.release();
    }

    boolean isTaken(int index) {
        return states.get(index) == TAKEN;
    }

    private void push(int index) {
        long seen;
        do {
            seen = head.get();
            next[index] = (int) seen;
        } while (!head.compareAndSet(seen, changed(seen, index)));
    }

    private int pop() {
        long seen;
        int first;
        do {
            seen = head.get();
            first = (int) seen;
            if (first == NONE) {
                return NONE;
            }
        } while (!head.compareAndSet(seen, changed(seen, next[first])));
        return first;
    }

    private static long changed(long before, int first) {
        return ((before >>> Integer.SIZE) + 1 << Integer.SIZE) | Integer.toUnsignedLong(first);
    }

    /**
     * The buffer with a given number, such as one that was used as a request's context.
     *
     * @param index {@link PooledBuffer#index}
     * @return the buffer, while it is taken
     * @throws IllegalStateException if it is not taken
     * @throws IndexOutOfBoundsException if there is no such buffer
     */
    public PooledBuffer buffer(int index) {
        Objects.checkIndex(index, options.count());
        PooledBuffer buffer = buffers.get(index);
        if (!isTaken(index)) {
            throw new IllegalStateException(
                    "Buffer %d of %s is not taken".formatted(index, describe()));
        }
        return buffer;
    }

    /**
     * Where each buffer was taken that has not been given back, for a pool with {@linkplain
     * BufferPoolOptions#withTracking tracking}.
     *
     * @return for each such buffer an exception, which is not thrown, with the stack trace of its
     *     take; empty without tracking
     */
    public List<Throwable> outstanding() {
        List<Throwable> places = new ArrayList<>();
        for (int index = 0; options.tracking() && index < options.count(); index++) {
            PooledBuffer buffer = buffers.get(index);
            Throwable place = buffer == null ? null : buffer.taken();
            if (place != null && isTaken(index)) {
                places.add(place);
            }
        }
        return places;
    }

    /**
     * Counts of takes and give-backs so far. Read without a lock, so concurrent calls may be in
     * some counts and not in others.
     *
     * @return a snapshot
     */
    @CheckReturnValue
    public Counters counters() {
        long back = returned.sum(); // first: a buffer is taken before it is given back
        long out = taken.sum();
        return new Counters(
                out,
                back,
                waits.sum(),
                refusals.sum(),
                Math.clamp(options.count() - (out - back), 0, options.count()));
    }

    /**
     * The counters of a pool, from {@link BufferPool#counters}.
     *
     * @param taken how often a buffer was taken
     * @param givenBack how often a buffer was given back
     * @param waits how often a take found the pool empty and waited
     * @param refusals how often a take returned no buffer: {@link BufferPool#tryTake} on an empty
     *     pool, and timeouts
     * @param free how many buffers were free
     */
    public record Counters(long taken, long givenBack, long waits, long refusals, int free) {}

    /**
     * The region of all buffers.
     *
     * @return the region, which is closed with the pool
     */
    MemoryRegion region() {
        return region;
    }

    /** Ends all waits. With tracking, reports the buffers that are still taken. */
    @Override
    void shut(Teardown end) {
        available.release(ENOUGH_FOR_ALL);
        List<Throwable> places = outstanding();
        for (Throwable place : places) {
            LOGGER.log(
                    System.Logger.Level.WARNING,
                    () ->
                            "%s was closed with %s not given back; its memory is freed when all are"
                                    .formatted(describe(), Text.count(places.size(), "buffer")),
                    place);
        }
    }

    @Override
    void destroy(Teardown end) {
        region.closeWithDivider();
    }

    @Override
    String describe() {
        return "BufferPool of %s of %s"
                .formatted(
                        Text.count(options.count(), "buffer"), Text.count(options.bytes(), "byte"));
    }
}
