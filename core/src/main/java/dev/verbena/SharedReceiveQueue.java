package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.queue.SharedQueues;
import dev.verbena.internal.queue.SharedReceives;
import dev.verbena.internal.runtime.AdapterEvents;
import dev.verbena.internal.runtime.SerialCallbacks;
import dev.verbena.internal.runtime.Teardown;
import dev.verbena.internal.runtime.Threads;
import dev.verbena.internal.verbs.DeviceControl;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.NativeMemory;
import dev.verbena.internal.verbs.ReceiveRequest;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;

/**
 * A queue of receives that many queue pairs share: NDK's SRQ, verbs' {@code ibv_srq}. A message to
 * any of the queue pairs takes the next receive, whose completion arrives at the receive completion
 * queue of that queue pair.
 *
 * {@snippet file="dev/verbena/examples/TwoPeers.java" region="receives"}
 *
 * <p>May be used from any thread. The flush of a queue pair does not cancel shared receives,
 * because the other queue pairs need them. Receives that are still posted when this queue is closed
 * get no completion. If a completion queue overruns, neither do the receives whose completions it
 * lost. Which ones they were is not known, so they stay outstanding: create this queue again, too.
 */
@CheckReturnValue
public final class SharedReceiveQueue extends NativeObject {
    private final ProtectionDomain domain;
    private final DeviceControl control;
    private final Consumer<Status> callback;
    private final int maxBuffers;
    private final NativeMemory memory = new NativeMemory();
    private final long address;
    private final SharedReceives receives;
    private final AtomicReference<@Nullable Request> requested = new AtomicReference<>();
    private boolean eventMayBeLate; // of callbacks, which run one at a time
    private volatile boolean broken; // set by a callback thread
    private volatile boolean shut;
    final SerialCallbacks callbacks = new SerialCallbacks(Threads.CALLBACKS);

    SharedReceiveQueue(
            ProtectionDomain domain, int depth, int maxBuffers, Consumer<Status> callback) {
        super(domain);
        this.domain = domain;
        this.callback = callback;
        this.maxBuffers = maxBuffers;
        Adapter adapter = domain.adapter();
        this.control = adapter.device().control();
        SharedQueues table;
        try {
            table = adapter.queueDevice().sharedQueues(); // may start a thread, which may fail
            checkLimits(adapter, depth, maxBuffers);
            this.address =
                    Errno.check(
                            control.createSrq(domain.address(), depth, maxBuffers),
                            "ibv_create_srq(depth %d, %d buffers)".formatted(depth, maxBuffers),
                            "");
        } catch (Throwable t) {
            abandon();
            throw t;
        }
        SharedReceives entered = null;
        try {
            synchronized (table) {
                long queue = table.reserve();
                if (queue == -1) {
                    throw new VerbenaException(
                            Status.INSUFFICIENT_RESOURCES,
                            "An adapter can have 65536 shared receive queues at most");
                }
                this.receives =
                        new SharedReceives(
                                queue,
                                address,
                                depth,
                                new ReceiveRequest(adapter.device().context(), memory),
                                domain.handle(),
                                maxBuffers);
                table.enter(receives);
                entered = receives;
            }
            adapter.device().events().register(address, this, this::handle);
        } catch (Throwable t) {
            if (entered != null) {
                table.remove(entered);
            }
            control.destroySrq(address);
            memory.free();
            abandon();
            throw t;
        }
    }

    /** Called by the event thread. */
    private void handle(AdapterEvent.Type event) {
        switch (event) {
            case SHARED_RECEIVE_QUEUE_LOW -> callbacks.execute(this::ranLow);
            case SHARED_RECEIVE_QUEUE_FAILED, DEVICE_FAILED -> callbacks.execute(this::breakDown);
            default -> {}
        }
    }

    private static void checkLimits(Adapter adapter, int depth, int maxBuffers) {
        AdapterInfo info = adapter.device().info();
        if (info.maxSharedReceiveDepth() == 0) {
            throw new VerbenaException(
                    Status.NOT_SUPPORTED, adapter.name() + " has no shared receive queues");
        }
        if (depth < 1
                || depth > info.maxSharedReceiveDepth()
                || maxBuffers < 1
                || maxBuffers > info.maxSharedReceiveBuffers()) {
            throw new VerbenaException(
                    Status.INVALID_PARAMETER,
                    "A shared receive queue of %s is 1 to %d deep with 1 to %d buffers, not %d with %d"
                            .formatted(
                                    adapter.name(),
                                    info.maxSharedReceiveDepth(),
                                    info.maxSharedReceiveBuffers(),
                                    depth,
                                    maxBuffers));
        }
    }

    /**
     * Posts a receive for the next message to any of the queue pairs (NdkSrqReceive). Its
     * completion has type {@link OperationType#RECEIVE}, {@link
     * OperationType#RECEIVE_AND_INVALIDATE} or {@link OperationType#RECEIVE_OF_WRITE}, and names
     * the queue pair.
     *
     * <p>The device owns the memory until the completion. {@code buffers} itself may be reused as
     * soon as this returns. Allocates nothing.
     *
     * @param context a number that the completion will carry
     * @param buffers the memory for the message, filled in order
     * @return {@link PostResult#ACCEPTED}; or, with no effect, a refusal with the status
     *     CONNECTION_INVALID if closed, NO_MORE_ENTRIES if the queue is full, INVALID_PARAMETER for
     *     too many buffers, INVALID_PARAMETER_MIX for memory of another domain, ACCESS_VIOLATION
     *     for memory that may not be written to or whose arena is closed, or the status for the
     *     provider's error
     */
    public PostResult receive(long context, BufferList buffers) {
        PostResult result = receives.post(context, buffers.buffers);
        if (result != PostResult.ACCEPTED) {
            receives.refused(result);
        }
        return result;
    }

    /**
     * Changes how many receives may be posted (NdkModifySrq with SrqDepth), where the device can
     * ({@link AdapterInfo#sharedReceiveResize}). May be called while other threads post and poll.
     *
     * @param depth the new depth; at least the number of receives that are posted, where a receive
     *     counts until its completion is polled, and at least the threshold of a {@link
     *     #notifyBelow} that has not called back yet
     * @throws IllegalStateException when this queue is closed
     * @throws VerbenaException with NOT_SUPPORTED if the device cannot do it; INVALID_PARAMETER for
     *     a smaller depth, or one that the device does not support; or the status for an error of
     *     {@code ibv_modify_srq}: then the queue refuses further receives, because the provider may
     *     have lost it
     */
    public synchronized void resize(int depth) {
        acquire();
        try {
            Adapter adapter = domain.adapter();
            if (!adapter.device().reported().sharedReceiveResize()) {
                throw new VerbenaException(
                        Status.NOT_SUPPORTED,
                        "%s cannot resize shared receive queues (AdapterInfo.sharedReceiveResize): this one keeps depth %d. Create one with the depth that is needed"
                                .formatted(adapter.name(), depth()));
            }
            checkLimits(adapter, depth, maxBuffers);
            Request request = requested.get();
            if (request == null) {
                // An answered threshold is still the device's limit, which may be above the depth.
                int _ = control.limitSrq(address, 0);
            } else if (request.receives > depth) {
                throw tooSmall(
                        depth, "notifyBelow(%d) has not called back".formatted(request.receives));
            }
            int answer = receives.resize(depth, () -> control.resizeSrq(address, depth));
            if (answer > 0) {
                throw tooSmall(depth, "%d receives are posted".formatted(answer));
            }
            if (answer < 0) {
                receives.close();
                throw VerbenaException.of(
                        "ibv_modify_srq(depth %d)".formatted(depth),
                        answer,
                        "The provider may have lost the queue: it refuses further receives. Close it and create another one");
            }
        } finally {
            release();
        }
    }

    private VerbenaException tooSmall(int depth, String why) {
        return new VerbenaException(
                Status.INVALID_PARAMETER,
                "%s cannot be resized from %d to %d: %s. Resize it when fewer are"
                        .formatted(this, depth(), depth, why));
    }

    /**
     * Requests one callback for when fewer than {@code receives} receives are posted
     * (NdkModifySrq). If there are fewer already (a receive counts until its completion is polled),
     * the callback is made immediately. If the queue or its device has failed, it is made
     * immediately with INTERNAL_ERROR.
     *
     * @param receives the threshold; 0 has no effect
     * @throws IllegalArgumentException for a negative threshold, and for one above the depth
     * @throws VerbenaException when {@code ibv_modify_srq} fails
     */
    public synchronized void notifyBelow(int receives) {
        int depth = depth();
        if (receives < 0 || receives > depth) {
            throw new IllegalArgumentException(
                    "A shared receive queue of depth %d has no threshold of %d"
                            .formatted(depth, receives));
        }
        if (receives == 0) {
            return;
        }
        Request request = new Request(receives);
        acquire();
        Request before = requested.getAndSet(request); // first: the event may come at once
        try {
            if (!broken) {
                Errno.check(
                        control.limitSrq(address, receives),
                        "ibv_modify_srq(limit %d)".formatted(receives),
                        "");
            }
            this.receives.notifyBelow(receives, () -> callbacks.execute(() -> foundLow(request)));
            // The device compares only when it takes the next receive.
            if (broken || this.receives.outstanding() < receives) {
                callbacks.execute(() -> answer(request));
            }
        } catch (Throwable t) {
            requested.compareAndSet(request, before);
            throw t;
        } finally {
            release();
        }
    }

    /**
     * How many receives are posted. A receive counts until its completion is polled.
     *
     * @return 0 to the depth
     */
    public int outstanding() {
        return receives.outstanding();
    }

    /**
     * What its posts have counted since it was made. From any thread, also after the close. What
     * became of the receives, and bytes, are counted by the queue pairs whose messages took them
     * ({@link QueuePair#counters}).
     *
     * @return a snapshot
     */
    public RequestCounters counters() {
        return receives.counters();
    }

    /**
     * How many receives may be posted.
     *
     * @return the depth it was created with, or {@linkplain #resize resized} to
     */
    public int depth() {
        return receives.depth();
    }

    /**
     * How many buffers a receive may name.
     *
     * @return the number it was created with
     */
    public int maxBuffers() {
        return maxBuffers;
    }

    /** What {@link #notifyBelow} asked for: a later one takes its place. */
    private static final class Request {
        final int receives;

        Request(int receives) {
            this.receives = receives;
        }
    }

    /** A poll has left fewer receives than asked for. */
    private void foundLow(Request request) {
        eventMayBeLate = true;
        answer(request);
    }

    /**
     * The device's event. One that comes after a callback may belong to the request before: then
     * the number counts, which polls look at, too.
     */
    void ranLow() {
        Request request = requested.get();
        boolean late = eventMayBeLate;
        eventMayBeLate = false;
        if (request != null && !(late && receives.outstanding() >= request.receives)) {
            answer(request);
        }
    }

    /** Calls back, once for each request, and not beside or after the close. */
    private void answer(Request request) {
        if (requested.compareAndSet(request, null) && !shut) {
            callback.accept(broken ? Status.INTERNAL_ERROR : Status.SUCCESS);
        }
    }

    /**
     * The queue or its device has failed: calls back once, even if no notification was requested.
     */
    void breakDown() {
        if (!broken && !shut) {
            broken = true;
            requested.set(null);
            callback.accept(Status.INTERNAL_ERROR);
        }
    }

    /**
     * The domain it was created from.
     *
     * @return the domain, which may be closed by now
     */
    public ProtectionDomain domain() {
        return domain;
    }

    /**
     * The address of the {@code ibv_srq}, for functions of libibverbs that this library does not
     * call: see {@linkplain dev.verbena Native handles}.
     *
     * @return a segment of size 0 at that address
     * @throws IllegalStateException if this object is closed
     */
    @CheckReturnValue
    public MemorySegment nativeHandle() {
        return nativeHandle(address);
    }

    SharedReceives handle() {
        return receives;
    }

    @Override
    void shut(Teardown end) {
        shut = true;
        requested.set(null);
        receives.close();
        if (!callbacks.finish(AdapterEvents.TIMEOUT)) { // no callback after the close
            throw VerbenaException.stillRunning(
                    "a callback of a shared receive queue", AdapterEvents.TIMEOUT);
        }
    }

    @Override
    void destroy(Teardown end) {
        end.run(this, queue -> queue.domain.adapter().device().events().forget(queue.address));
        end.run(
                this,
                queue ->
                        queue.domain.adapter().queueDevice().sharedQueues().remove(queue.receives));
        end.run(memory, NativeMemory::free);
        end.check(control.destroySrq(address), "ibv_destroy_srq");
    }

    @Override
    String describe() {
        return "SharedReceiveQueue of " + domain.adapter().name();
    }
}
