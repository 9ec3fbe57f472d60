package dev.verbena.netty;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.Adapter;
import dev.verbena.messaging.Poller;

import io.netty.channel.IoHandle;
import io.netty.channel.IoHandler;
import io.netty.channel.IoHandlerContext;
import io.netty.channel.IoHandlerFactory;
import io.netty.channel.IoOps;
import io.netty.channel.IoRegistration;
import io.netty.util.collection.LongObjectHashMap;
import io.netty.util.collection.LongObjectMap;
import io.netty.util.concurrent.SingleThreadEventExecutor;
import io.netty.util.concurrent.ThreadAwareExecutor;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;

/**
 * Event loops over RDMA: each has a {@link Poller} and its completion queues to itself.
 *
 * <pre>{@code
 * var group = new MultiThreadIoEventLoopGroup(RdmaIoHandler.newFactory("roce0"));
 * }</pre>
 *
 * <p>The loops of one factory share the device, and memory that is registered in it: their channels
 * send buffers of each other without a copy.
 */
public final class RdmaIoHandler implements IoHandler {
    private static final System.Logger LOGGER = System.getLogger("dev.verbena.netty");
    private static final Duration LONG = Duration.ofSeconds(1);
    // A quarter of the receives that channels share: of 2,048, or of 64 MiB.
    private static final int MOST_LENT = 512;
    private static final int MOST_LENT_BYTES = 16 << 20;
    private static final int LARGE_SHARES = 32; // of the 64 that all channels of a poller may take
    private static final int MOST_BUFFERS = 4096; // over receives

    private final ThreadAwareExecutor executor;
    private final RdmaDevice device;
    private final RdmaDevice.Opened opened;
    private final Set<RdmaHandle> handles = new LinkedHashSet<>();
    private final List<Incoming> reading = new ArrayList<>(); // whose round of reads is not over
    private final List<Incoming> readable = new ArrayList<>(); // that want what has come before
    private final LongObjectMap<ReceivedByteBuf> buffers = new LongObjectHashMap<>(); // by address
    private volatile @Nullable Poller poller; // of the event loop, also when it is closed
    private @Nullable Throwable failure; // why there is none
    private final int mostLent;
    private int lent; // receives that pipelines keep, or have not read
    private final long mostLentLarge; // half of what the poller has for all channels
    private long lentLarge; // bytes of memory for large messages, in the same way
    private volatile @Nullable Thread thread;

    private RdmaIoHandler(ThreadAwareExecutor executor, RdmaDevice device) {
        this.executor = executor;
        this.device = device;
        this.mostLent =
                Math.min(MOST_LENT, MOST_LENT_BYTES / device.options.messaging().eagerLimit());
        this.mostLentLarge =
                Math.min(device.options.messaging().largeMemory(), Long.MAX_VALUE / LARGE_SHARES)
                        * LARGE_SHARES;
        this.opened = device.open();
    }

    /**
     * Event loops with {@link RdmaOptions#DEFAULTS}.
     *
     * @param device the name of the RDMA device, as `rdma link` prints it
     * @return a factory, which opens the device for its first event loop and closes it with the
     *     last. Creating a loop throws a {@link dev.verbena.VerbenaException} if there is no such
     *     device
     */
    @CheckReturnValue
    public static IoHandlerFactory newFactory(String device) {
        return newFactory(device, RdmaOptions.DEFAULTS);
    }

    /**
     * Event loops with options.
     *
     * @param device the name of the RDMA device, as `rdma link` prints it
     * @param options of all loops and channels
     * @return a factory, as {@link #newFactory(String)} returns it
     */
    @CheckReturnValue
    public static IoHandlerFactory newFactory(String device, RdmaOptions options) {
        return factory(
                RdmaDevice.named(
                        Objects.requireNonNull(device, "device"),
                        Objects.requireNonNull(options, "options")));
    }

    /**
     * Event loops over an adapter that the program has opened.
     *
     * @param adapter to be closed by the caller, after the event loops have ended
     * @param options of all loops and channels
     * @return a factory
     */
    @CheckReturnValue
    public static IoHandlerFactory newFactory(Adapter adapter, RdmaOptions options) {
        return factory(
                RdmaDevice.of(
                        Objects.requireNonNull(adapter, "adapter"),
                        Objects.requireNonNull(options, "options")));
    }

    static IoHandlerFactory factory(RdmaDevice device) {
        return executor -> new RdmaIoHandler(executor, device);
    }

    // ---- by the event loop

    @Override
    public void initialize() {
        thread = Thread.currentThread();
        if (executor instanceof SingleThreadEventExecutor loop) {
            loop.addShutdownHook(this::prepareToDestroy); // while pipelines can hear of it still
        }
        try {
            poller = Poller.onThisThread(opened.domain(), device.options.idle());
        } catch (Throwable t) {
            failure = t; // each channel that is registered gets it
        }
    }

    @Override
    public int run(IoHandlerContext context) {
        Poller polled = poller;
        if (polled == null) {
            if (context.canBlock()) {
                LockSupport.parkNanos(this, context.delayNanos(System.nanoTime()));
            }
            return 0;
        }
        boolean mayWait = context.canBlock() && readable.isEmpty();
        boolean measures = context.shouldReportActiveIoTime();
        long began = measures ? System.nanoTime() : 0;
        int count = 0;
        try {
            count = mayWait ? polled.await(delay(context)) : polled.poll();
        } catch (Throwable t) { // the other channels go on
            LOGGER.log(System.Logger.Level.WARNING, this + " could not poll", t);
            LockSupport.parkNanos(1_000_000);
        }
        finishReads();
        if (measures) {
            context.reportActiveIoTime(mayWait && count == 0 ? 0 : System.nanoTime() - began);
        }
        return count;
    }

    private static Duration delay(IoHandlerContext context) {
        if (context.deadlineNanos() == -1) {
            return LONG; // whatever it is then, a wake-up ends it
        }
        return Duration.ofNanos(Math.max(0, context.delayNanos(System.nanoTime())));
    }

    /** Ends the rounds of reads, and begins those for which there is something already. */
    private void finishReads() {
        endRounds();
        int count = readable.size();
        for (int i = 0; i < count; i++) { // no iterator, and a round may add some
            Incoming incoming = readable.get(i);
            try {
                incoming.readWaiting();
            } catch (Throwable t) {
                incoming.failed(t);
            }
        }
        if (count > 0) {
            readable.subList(0, count).clear();
        }
        endRounds();
    }

    private void endRounds() {
        for (int i = 0; i < reading.size(); i++) {
            Incoming incoming = reading.get(i);
            try {
                incoming.roundEnds();
            } catch (Throwable t) {
                incoming.failed(t);
            }
        }
        reading.clear();
    }

    /** A channel has begun to read, and hears when the loop has nothing more for it. */
    void reads(Incoming incoming) {
        reading.add(incoming);
    }

    /** A channel wants what came when it did not read. */
    void wantsWaiting(Incoming incoming) {
        readable.add(incoming);
    }

    /** A buffer over memory that a message has come to: the one of the message before. */
    ReceivedByteBuf bufferOver(MemorySegment memory) {
        long key = memory.address() >>> 6; // the map's hash takes the lowest bits
        ReceivedByteBuf last = buffers.get(key);
        if (last != null && last.isFreeOver(memory)) {
            return last;
        }
        if (buffers.size() == MOST_BUFFERS) {
            buffers.clear(); // of memory that is not received into any more, most likely
        }
        ReceivedByteBuf made = new ReceivedByteBuf(memory);
        buffers.put(key, made);
        return made;
    }

    /** Whether the channels hold as many receives as they may: others need them. */
    boolean lendsNoMore() {
        return lent >= mostLent;
    }

    /** The same of memory for large messages: whether there is not so much more. */
    boolean lendsNoMoreLarge(long bytes) {
        return lentLarge + bytes > mostLentLarge;
    }

    /** The channels hold so many receives more, and so much more memory of large messages. */
    void lends(int receives, long large) {
        lent += receives;
        lentLarge += large;
    }

    /** By any thread, also while the event loop ends: runs something where messages belong. */
    void executeForMessages(Runnable task) {
        poller().execute(task);
    }

    Poller poller() {
        return Objects.requireNonNull(poller);
    }

    /** How many channels are registered, as of a moment ago. */
    int channels() {
        return handles.size();
    }

    Adapter adapter() {
        return opened.adapter();
    }

    RegisteredByteBufAllocator allocator() {
        return opened.allocator();
    }

    RdmaOptions options() {
        return device.options;
    }

    @Override
    public void prepareToDestroy() {
        for (RdmaHandle handle : List.copyOf(handles)) {
            handle.close();
        }
    }

    @Override
    public void destroy() {
        Poller last = poller;
        try {
            prepareToDestroy(); // a shutdown without a quiet period may leave that out
        } finally {
            try {
                if (last != null) {
                    last.close();
                }
            } finally {
                device.close();
            }
        }
    }

    @Override
    public IoRegistration register(IoHandle handle) throws Exception {
        if (!(handle instanceof RdmaHandle one)) {
            throw new IllegalArgumentException(
                    "%s runs channels over RDMA only, not %s".formatted(this, handle));
        }
        if (failure != null) {
            throw new IllegalStateException(
                    "This event loop could not create its queues on " + opened.adapter().name(),
                    failure);
        }
        if (!handles.add(one)) {
            throw new IllegalStateException("This channel is registered already: " + handle);
        }
        one.registered();
        return new Registration(one);
    }

    private final class Registration implements IoRegistration {
        private final RdmaHandle handle;
        private final AtomicBoolean cancelled = new AtomicBoolean();

        Registration(RdmaHandle handle) {
            this.handle = handle;
        }

        /** The handler. */
        @Override
        @SuppressWarnings({"unchecked", "TypeParameterUnusedInFormals"}) // as Netty declares it
        public <T> T attachment() {
            return (T) RdmaIoHandler.this;
        }

        @Override
        public long submit(IoOps ops) {
            throw new UnsupportedOperationException(
                    "Channels over RDMA post their requests themselves");
        }

        @Override
        public boolean isValid() {
            return !cancelled.get();
        }

        @Override
        public boolean cancel() {
            if (!cancelled.compareAndSet(false, true)) {
                return false;
            }
            if (executor.isExecutorThread(Thread.currentThread())) {
                remove();
            } else {
                executor.execute(this::remove);
            }
            return true;
        }

        private void remove() {
            if (handles.remove(handle)) {
                handle.unregistered();
            }
        }
    }

    // ---- by any thread

    @Override
    public void wakeup() {
        if (executor.isExecutorThread(Thread.currentThread())) {
            return;
        }
        Poller polled = poller; // as of a moment ago: its first round does not wait
        if (polled != null) {
            polled.wakeUp();
        } else {
            LockSupport.unpark(thread);
        }
    }

    @Override
    public boolean isCompatible(Class<? extends IoHandle> handleType) {
        return RdmaHandle.class.isAssignableFrom(handleType);
    }

    @Override
    public String toString() {
        return "RdmaIoHandler of " + opened.adapter().name();
    }
}
