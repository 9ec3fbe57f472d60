package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.queue.RegisteredMemory;
import dev.verbena.internal.verbs.Pages;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Objects;

/**
 * A registered buffer of a {@link BufferPool}, valid from {@link BufferPool#take take} to {@link
 * #giveBack}.
 *
 * <p>For one thread at a time; another thread may give it back. Give it back after the last request
 * that names it has completed, not before: the device would write into the next user's bytes. Do
 * not use it after that: its methods throw, but only until the buffer is taken again. A pool
 * {@linkplain BufferPoolOptions#withTracking with tracking} detects every such use.
 */
public final class PooledBuffer implements AutoCloseable {
    private final BufferPool pool;
    private final int index;
    private final RegisteredMemory memory;
    private final BufferList list = new BufferList(1);

    // Only a tracked buffer, which is created for each take, has these; otherwise null.
    private final @Nullable Arena scope;
    private final @Nullable Throwable taken;
    private volatile @Nullable Throwable givenBack;

    /** A buffer that is taken again and again. */
    PooledBuffer(BufferPool pool, int index, MemorySegment memory) {
        this(pool, index, memory, null, null);
    }

    @SuppressWarnings("MustBeClosedChecker") // closed by giveBack
    static PooledBuffer tracked(BufferPool pool, int index, MemorySegment memory) {
        Arena scope = Arena.ofShared();
        return new PooledBuffer(
                pool,
                index,
                Pages.segment(memory.address(), memory.byteSize(), scope),
                scope,
                new Throwable("Buffer %d was taken here".formatted(index)));
    }

    private PooledBuffer(
            BufferPool pool,
            int index,
            MemorySegment memory,
            @Nullable Arena scope,
            @Nullable Throwable taken) {
        this.pool = pool;
        this.index = index;
        this.memory = pool.region().registered().part(memory);
        this.scope = scope;
        this.taken = taken;
    }

    /**
     * The bytes of the buffer. They are not cleared: the last user's bytes may still be there.
     *
     * @return all of them
     * @throws IllegalStateException if it was given back
     */
    public MemorySegment memory() {
        ensureTaken();
        return memory.memory();
    }

    /**
     * The buffer as the list of a request. Each call returns the same list, valid until the next
     * call of either {@code buffers} method. Do not change it.
     *
     * @return a list of one buffer
     * @throws IllegalStateException if it was given back
     */
    public BufferList buffers() {
        return buffers(0, memory.bytes());
    }

    /**
     * A part of the buffer as the list of a request, such as a message that is shorter than it.
     *
     * @param offset the first byte, counted from the buffer's start
     * @param length how many bytes
     * @return as {@link #buffers()}
     * @throws IllegalStateException if it was given back
     * @throws IndexOutOfBoundsException for bytes outside the buffer
     */
    public BufferList buffers(long offset, long length) {
        ensureTaken();
        Objects.checkFromIndexSize(offset, length, memory.bytes());
        return list.clear().add(memory, offset, length);
    }

    /**
     * The number of this buffer in its pool. Use it as a request's context: {@link
     * BufferPool#buffer} finds the buffer by it.
     *
     * @return from 0 to the pool's count less one
     */
    public int index() {
        return index;
    }

    /**
     * The region of the whole pool, for {@link QueuePair#bind}.
     *
     * @return the region, which is closed with the pool
     */
    public MemoryRegion region() {
        return pool.region();
    }

    /**
     * Where the buffer lies in its {@linkplain #region region}.
     *
     * @return the offset of its first byte
     */
    public long offset() {
        return memory.start() - pool.region().start();
    }

    /**
     * Describes the buffer for the peer. The remote key (NDK: token) is that of the whole pool:
     * bind a {@link MemoryWindow} to grant this buffer only.
     *
     * @return address, remote key and length
     * @throws IllegalStateException if it was given back
     */
    @CheckReturnValue
    public RemoteMemory remoteMemory() {
        ensureTaken();
        return new RemoteMemory(memory.start(), pool.region().remoteToken(), memory.bytes());
    }

    /**
     * Gives the buffer back to its pool. From any thread.
     *
     * @throws IllegalStateException if it was given back before; and, from a pool with tracking,
     *     while a thread is inside a call that uses its memory, such as a read of a file; the
     *     buffer is not given back in that case
     */
    public void giveBack() {
        ensureTaken();
        if (scope != null) {
            // First: there may be no memory for it, and then nothing has changed.
            Throwable here = new Throwable("Buffer %d was given back here".formatted(index));
            scope.close(); // throws if it is in use, or was closed by another thread at this moment
            givenBack = here;
        }
        if (!pool.putBack(index)) {
            throw notTaken();
        }
    }

    /** As {@link #giveBack}. */
    @Override
    public void close() {
        giveBack();
    }

    private void ensureTaken() {
        if (givenBack != null || !pool.isTaken(index)) {
            throw notTaken();
        }
    }

    private IllegalStateException notTaken() {
        IllegalStateException exception =
                new IllegalStateException(
                        givenBack == null
                                ? "%s is not taken: it was given back. A pool with tracking (BufferPoolOptions.withTracking) says where"
                                        .formatted(this)
                                : "%s was given back; the suppressed exceptions say where it was taken and given back"
                                        .formatted(this));
        if (taken != null) {
            exception.addSuppressed(taken);
        }
        Throwable back = givenBack;
        if (back != null) {
            exception.addSuppressed(back);
        }
        return exception;
    }

    /** Where it was taken; null without tracking. */
    @Nullable Throwable taken() {
        return taken;
    }

    @Override
    public String toString() {
        return "Buffer %d of %s".formatted(index, pool);
    }
}
