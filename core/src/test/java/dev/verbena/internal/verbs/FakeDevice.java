package dev.verbena.internal.verbs;

import dev.verbena.AdapterEvent;
import dev.verbena.AdapterInfo;
import dev.verbena.Port;
import dev.verbena.Until;
import dev.verbena.VerbenaException;
import dev.verbena.bindings.ibv_context;
import dev.verbena.bindings.ibv_context_ops;

import java.lang.foreign.Arena;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;
import java.util.function.BooleanSupplier;
import java.util.function.IntSupplier;
import java.util.function.LongFunction;
import java.util.random.RandomGenerator;

/**
 * A device that does not exist: an {@code ibv_context} in native memory whose data path ends in
 * Java, and the control calls to go with it.
 *
 * <p>It keeps a copy of every posted request, to the byte. It behaves as hardware does where that
 * is stricter than Soft-RoCE: a slot of a queue is free again when a completion at or behind it was
 * polled, and a completion queue that overflows says so. It carries out requests when somebody
 * polls, moves data only where a test asks for it, and can refuse and fail at any index.
 * Invalidating a window that is not bound is a {@link #panics panic}.
 *
 * <p>What a test sets and reads is in {@link FakeSettings}. Behind it: {@link FakeExecution} takes
 * and carries out requests; {@link FakeQueuePairs}, {@link FakeCompletionQueues} and {@link
 * FakeMemory} have the objects, with what {@link FakeObjects} have in common; {@link
 * FakeAsyncEvents} and {@link FakeAttributes} answer for the device. All but the events are guarded
 * by the monitor of this object.
 */
public final class FakeDevice extends FakeSettings {
    private final FakeObjects objects = new FakeObjects(this);
    private final FakeAsyncEvents asyncEvents = new FakeAsyncEvents(this);
    private final FakeMemory memory = new FakeMemory(this, objects);
    private final FakeCompletionQueues completions = new FakeCompletionQueues(this, objects);
    private final FakeQueuePairs queuePairs =
            new FakeQueuePairs(this, objects, completions, memory, asyncEvents);
    private final FakeExecution execution =
            new FakeExecution(this, queuePairs, completions, memory);

    private boolean inNativeCode; // nobody looks at requests
    private final Arena arena = Arena.ofShared();
    private final MemorySegment context = ibv_context.allocate(arena);

    public FakeDevice() {
        MemorySegment ops = ibv_context.ops(context);
        ibv_context_ops.post_send(ops, ibv_context_ops.post_send.allocate(this::postSend, arena));
        ibv_context_ops.post_recv(
                ops,
                ibv_context_ops.post_recv.allocate(
                        (qp, wr, bad) -> postReceive(qp, wr, bad, false), arena));
        ibv_context_ops.post_srq_recv(
                ops,
                ibv_context_ops.post_srq_recv.allocate(
                        (srq, wr, bad) -> postReceive(srq, wr, bad, true), arena));
        ibv_context_ops.poll_cq(ops, ibv_context_ops.poll_cq.allocate(this::poll, arena));
        ibv_context_ops.req_notify_cq(
                ops, ibv_context_ops.req_notify_cq.allocate(this::requestNotify, arena));
    }

    public VerbsContext open() {
        // As a real one is opened, but for brief calls, which may not end in Java.
        return new VerbsContext(context.address(), Provider.ThroughKernel.ALL);
    }

    /**
     * From the next {@link #open} on, the data path ends in a function of the C library that does
     * nothing and returns 0: requests are accepted, and never complete. Java code of this device
     * would need more stack than a test has left, and an error there would end the JVM.
     */
    public void acceptInNativeCode() {
        inNativeCode = true;
        MemorySegment nothing =
                Linker.nativeLinker().defaultLookup().find("sched_yield").orElseThrow();
        MemorySegment ops = ibv_context.ops(context);
        ibv_context_ops.post_send(ops, nothing);
        ibv_context_ops.post_recv(ops, nothing);
        ibv_context_ops.post_srq_recv(ops, nothing);
        ibv_context_ops.poll_cq(ops, nothing);
        ibv_context_ops.req_notify_cq(ops, nothing);
    }

    @Override
    public int close() {
        destroys.add("ibv_close_device"); // frees what user space has, also without a device
        return 0;
    }

    /** Frees its memory; no object may be left. */
    public void dispose() {
        asyncEvents.close();
        arena.close();
    }

    // ---- what tests ask of it

    /** How many native objects there are. */
    public synchronized int objects() {
        return completions.count()
                + queuePairs.count()
                + memory.windowCount()
                + objects.plainCount();
    }

    /** How many queue pairs there are, and shared receive queues. */
    public synchronized int queues() {
        return queuePairs.count();
    }

    public synchronized int windowCount() {
        return memory.windowCount();
    }

    public synchronized int lastQueuePairNumber() {
        return queuePairs.lastNumber();
    }

    /** Whether the completion queue made last is armed. */
    public synchronized boolean isLastQueueArmed() {
        return completions.isArmed(completions.lastAddress());
    }

    public synchronized int lastChannelDescriptor() {
        return completions.lastDescriptor();
    }

    /** Whether a peer may read or write through the window with this token. */
    public synchronized boolean honours(int token) {
        return memory.honours(token);
    }

    /** The state of a queue pair, as verbs abbreviates it: RTS. */
    public synchronized String state(int number) {
        return queuePairs.byNumber(number).state.name();
    }

    /** The struct that a step had, byte for byte. */
    public static byte[] bytes(StateChange change) {
        return structOf(change).toArray(ValueLayout.JAVA_BYTE);
    }

    static MemorySegment structOf(StateChange change) {
        return Native.at(change.attributes(), Structs.IbvQpAttr.SIZE);
    }

    /** One that outlives the call. */
    static StateChange copyOf(StateChange change) {
        StateChange copy = new StateChange(change.state());
        structOf(copy).copyFrom(structOf(change));
        copy.mask(change.mask());
        return copy;
    }

    /** The mask that a step had. */
    public static int mask(StateChange change) {
        return change.mask();
    }

    /**
     * Waits for a fact that a send, a poll, the taking of a completion event, a step to the error
     * state or a destroy brings about. Code that the fact calls must need no lock of the library.
     */
    public void until(BooleanSupplier fact) {
        Until.notified(this, fact);
    }

    // ---- what tests make happen

    /** Carries requests out from now on, after it has let them wait. */
    public synchronized void resume() {
        running = true;
        notifyAll();
    }

    /** Carries out what was posted. */
    public synchronized void run() {
        execution.run();
    }

    /** Carries out one request of a queue pair that has any. */
    public synchronized void runOne() {
        execution.runOne();
    }

    /** Carries out the oldest request of this queue pair. */
    public synchronized void runOne(int number) {
        execution.runOne(queuePairs.byNumber(number));
    }

    /** The requests of a queue pair that it can carry out now, or none. */
    public synchronized List<PostedRequest> runnable(int number) {
        return execution.runnable(queuePairs.byNumber(number));
    }

    /** Queues a successful receive on the completion queue made last. */
    public synchronized void complete(long id, int number) {
        complete(new FakeCompletionQueues.Entry(id, 0, 128, 0, 0, 0, number));
    }

    /** Queues a completion with this status, these bytes and these flags there. */
    public synchronized void complete(long id, int status, int bytes, int flags) {
        complete(new FakeCompletionQueues.Entry(id, status, 128, bytes, flags, 0, 1));
    }

    private void complete(FakeCompletionQueues.Entry entry) {
        completions.add(completions.find(completions.lastAddress()), entry, false);
    }

    /**
     * The peer's mistake moves a queue pair to the error state; no completion reports it if nothing
     * is outstanding.
     */
    public synchronized void failQueuePair(int number) {
        queuePairs.fail(queuePairs.byNumber(number));
    }

    /** Whether a queue pair in the error state is still to be flushed. */
    public synchronized boolean isFlushDue(int number) {
        FakeQueuePairs.QueuePair pair = queuePairs.byNumber(number);
        return pair != null && pair.pollsToFlush > 0;
    }

    /** Flushes it. */
    public synchronized void bringFlush(int number) {
        queuePairs.flush(queuePairs.byNumber(number));
    }

    /** The oldest receive of a queue pair fails, and with it the queue pair. */
    public synchronized void failReceive(int number, int status) {
        queuePairs.failReceive(queuePairs.byNumber(number), status);
    }

    /** Ends the shared receives that a queue pair took. */
    public synchronized void bringLastReceive(int number) {
        queuePairs.endTaken(queuePairs.byNumber(number));
    }

    /** Events of completions that were there before, as interrupts bring them. */
    public synchronized void bringLateEvents() {
        completions.bringLateEvents();
    }

    /** An event of a completion queue comes, whether it was asked for or not. */
    public synchronized void bringEvent(long cq) {
        completions.bringEvent(completions.find(cq));
    }

    /** Raises an asynchronous event of the completion queue or shared receive queue made last. */
    public void raise(AdapterEvent.Type kind) {
        long object;
        synchronized (this) {
            object =
                    switch (kind) {
                        case SHARED_RECEIVE_QUEUE_LOW, SHARED_RECEIVE_QUEUE_FAILED ->
                                queuePairs.lastShared();
                        case DEVICE_FAILED -> 0; // it names no object
                        default -> completions.lastAddress();
                    };
        }
        raise(kind, object);
    }

    /** Raises an asynchronous event of an object, or of a port. */
    public void raise(AdapterEvent.Type kind, long object) {
        asyncEvents.raise(kind, object);
    }

    /** Raises an asynchronous event of a queue pair. */
    public void raiseOfQueuePair(AdapterEvent.Type kind, int number) {
        long object;
        synchronized (this) {
            object = queuePairs.byNumber(number).address;
        }
        raise(kind, object);
    }

    /** Raises an asynchronous event with a number of its own, as of an unknown kind. */
    public void raise(AdapterEvent.Type kind, int number, long object) {
        asyncEvents.raise(kind, number, object);
    }

    /** Unplugs it. */
    public void unplug() {
        gone = true;
        asyncEvents.setReadable();
    }

    /** Makes all channels readable, as the kernel does when a device is removed. */
    public synchronized void raiseChannels() {
        completions.raiseChannels();
    }

    /** As if what could not be destroyed had never been there. */
    public synchronized void forgetRefused() {
        objects.forgetRefused();
    }

    /**
     * The peer writes a byte somewhere into a region that is registered for that, even one that the
     * process believes to be free; a device does not ask the process.
     *
     * @return whether there is any such region
     */
    public synchronized boolean peerWrites(RandomGenerator random, byte value) {
        return memory.peerWrites(random, value);
    }

    // ---- the data path, which the provider's function pointers lead to

    private int postSend(MemorySegment qp, MemorySegment first, MemorySegment bad) {
        Runnable before = beforePost;
        Runnable after = afterPost;
        beforePost = NOTHING;
        afterPost = NOTHING;
        run(before);
        int answer;
        synchronized (this) {
            answer = execution.postSend(qp.address(), first.address(), bad.address());
            notifyAll();
        }
        run(after);
        return answer;
    }

    private int postReceive(
            MemorySegment queue, MemorySegment request, MemorySegment bad, boolean shared) {
        Runnable after = afterPost;
        afterPost = NOTHING;
        int answer;
        synchronized (this) {
            answer =
                    execution.postReceive(
                            queue.address(), request.address(), bad.address(), shared);
            notifyAll();
        }
        run(after);
        return answer;
    }

    /** What a post calls must not throw: it would end the JVM. */
    private void run(Runnable hook) {
        try {
            hook.run();
        } catch (Throwable t) {
            panics.add("during a post: " + t);
        }
    }

    private synchronized int poll(MemorySegment cq, int count, MemorySegment wcs) {
        polls++;
        notifyAll();
        int error = queueError("ibv_poll_cq");
        return error != 0 ? -error : execution.poll(cq.address(), count, wcs.address());
    }

    private synchronized int requestNotify(MemorySegment cq, int solicitedOnly) {
        int error = queueError("ibv_req_notify_cq");
        return error != 0 ? error : completions.arm(cq.address(), solicitedOnly != 0);
    }

    private int queueError(String verb) {
        beforeOther.accept(verb);
        int error = queueError;
        queueError = 0;
        return error;
    }

    // ---- control calls of the device

    @Override
    public AdapterInfo queryDevice(String name) {
        if (gone) {
            throw new VerbenaException("ibv_query_device", Errno.EIO, "");
        }
        return FakeAttributes.device(name, this);
    }

    @Override
    public VerbsContext dataPath(Provider provider) {
        beforeStep.accept("dataPath");
        return open();
    }

    @Override
    public long queryPort(int number, List<Port> ports) {
        return portError != 0 ? -portError : FakeAttributes.port(number, this, ports);
    }

    @Override
    public long queryGids(long atMost, List<Port.GidEntry> gids) {
        gidQueries++;
        gids.addAll(this.gids);
        return 0;
    }

    @Override
    public long context() {
        return context.address();
    }

    @Override
    public int completionVectors() {
        return completionVectors;
    }

    @Override
    public int await(int milliseconds, int... descriptors) {
        IntSupplier instead = loopWaits.poll();
        return instead == null ? super.await(milliseconds, descriptors) : instead.getAsInt();
    }

    @Override
    public int asyncDescriptor() {
        return asyncEvents.descriptor();
    }

    @Override
    public AsyncEvent takeAsyncEvent(LongFunction<Object> objects) {
        return asyncEvents.take(objects);
    }

    // ---- of protection domains, memory and windows

    @Override
    public synchronized long allocatePd() {
        beforeStep.accept("allocatePd");
        return objects.allocatePd();
    }

    @Override
    public synchronized int deallocatePd(long pd) {
        return objects.deallocatePd(pd);
    }

    @Override
    public synchronized long registerMemory(long pd, MemorySegment memory, int access) {
        beforeStep.accept("registerMemory");
        return this.memory.register(pd, memory, access);
    }

    @Override
    public synchronized long registerDmaBuf(
            long pd, int descriptor, long offset, long length, long iova, int access) {
        return memory.registerDmaBuf(pd, descriptor, offset, length, iova, access);
    }

    @Override
    public synchronized int prefetch(long pd, int advice, long address, int length, int localKey) {
        return memory.prefetch(advice, address, length, localKey);
    }

    @Override
    public int localKey(long mr) {
        if (keysCannotBeRead) {
            throw new IllegalStateException("no key");
        }
        return localKeyOf(mr);
    }

    /** Unique among 2^31 objects, whose addresses are 256 apart: a fuzzer makes 60 million. */
    static int localKeyOf(long mr) {
        return (int) (mr >>> 7) | 1;
    }

    @Override
    public int remoteKey(long mr) {
        return keyOf(mr);
    }

    static int keyOf(long mr) {
        return (int) mr | 0x8000_0000;
    }

    @Override
    public synchronized int deregisterMemory(long mr) {
        return memory.deregister(mr);
    }

    @Override
    public synchronized long allocateWindow(long pd) {
        beforeStep.accept("allocateWindow");
        return memory.allocateWindow(pd);
    }

    @Override
    public synchronized int windowKey(long mw) {
        Runnable before = beforeWindowKey;
        beforeWindowKey = NOTHING;
        before.run();
        return memory.windowKey(mw);
    }

    @Override
    public synchronized void setWindowKey(long mw, int key) {
        if (!inNativeCode) {
            memory.setWindowKey(mw, key); // needs memory
        }
    }

    @Override
    public int freeWindow(long mw) {
        Runnable before = beforeFreeingWindow;
        beforeFreeingWindow = NOTHING;
        before.run();
        synchronized (this) {
            return memory.freeWindow(mw);
        }
    }

    // ---- of completion queues and their channels

    @Override
    public synchronized long createChannel() {
        beforeStep.accept("createChannel");
        return completions.createChannel();
    }

    @Override
    public synchronized int channelDescriptor(long channel) {
        return completions.descriptor(channel);
    }

    @Override
    public EventWait newWait(long channel, int eventFd) {
        Error error = preparingWaits.getAndSet(null);
        if (error != null) {
            throw error;
        }
        return new EventWait(channel, channelDescriptor(channel), eventFd) {
            @Override
            public int await(int milliseconds) {
                IntSupplier instead = waits.poll();
                sleeps.add(milliseconds);
                int ended = instead == null ? super.await(milliseconds) : instead.getAsInt();
                woken.add(ended);
                return ended;
            }
        };
    }

    @Override
    public int takeEvent(long channel, EventWait wait) {
        if (gone) {
            eventsAskedFor++;
            return -Errno.EIO; // and the descriptor stays readable
        }
        if (takingAnswer != 0) {
            return takingAnswer;
        }
        return takeEventIfThere(channel, wait) ? 1 : 0;
    }

    @Override
    public synchronized boolean takeEventIfThere(long channel, EventWait wait) {
        return completions.takeEvent(channel, wait);
    }

    @Override
    public synchronized int destroyChannel(long channel) {
        return completions.destroyChannel(channel);
    }

    @Override
    public synchronized long createCq(int depth, long channel, int vector, long context) {
        beforeStep.accept("createCq");
        return completions.create(depth, channel, vector, context);
    }

    @Override
    public synchronized int resizeCq(long cq, int depth) {
        return completions.resize(cq, depth);
    }

    @Override
    public synchronized int moderateCq(long cq, int count, int microseconds) {
        return completions.moderate(count, microseconds);
    }

    @Override
    public synchronized int destroyCq(long cq) {
        FakeCompletionQueues.Queue queue = completions.find(cq);
        return !gone && queuePairs.all().stream().anyMatch(pair -> pair.uses(queue))
                ? -Errno.EBUSY
                : completions.destroy(cq);
    }

    // ---- of shared receive queues and queue pairs

    @Override
    public synchronized long createSrq(long pd, int depth, int sge) {
        beforeStep.accept("createSrq");
        return queuePairs.createShared(pd, depth, sge);
    }

    @Override
    public synchronized int limitSrq(long srq, int limit) {
        if (sharedResizeError == 0) {
            srqLimits.add(limit);
        }
        return -sharedResizeError;
    }

    @Override
    public synchronized int resizeSrq(long srq, int depth) {
        return queuePairs.resizeShared(srq, depth);
    }

    @Override
    public synchronized int destroySrq(long srq) {
        return queuePairs.destroyShared(srq);
    }

    @Override
    public synchronized long createQp(
            long pd, long sendCq, long receiveCq, long srq, QueuePairShape shape) {
        beforeStep.accept("createQp");
        return queuePairs.create(pd, sendCq, receiveCq, srq, shape);
    }

    @Override
    public synchronized int queuePairNumber(long qp) {
        if (numbersCannotBeRead) {
            throw new IllegalStateException("no number");
        }
        return queuePairs.find(qp).number;
    }

    @Override
    public synchronized int toInit(long qp, int port, int access) {
        beforeStep.accept("toInit");
        return queuePairs.toInit(qp, access);
    }

    @Override
    public synchronized int change(long qp, StateChange change) {
        beforeStep.accept("change");
        notifyAll();
        return queuePairs.change(qp, change);
    }

    @Override
    public synchronized int toError(long qp) {
        beforeErrorStep.run();
        return queuePairs.fail(qp);
    }

    @Override
    public synchronized boolean inError(long qp) {
        statesAskedFor = statesAskedFor + 1;
        return queuePairs.inError(qp);
    }

    @Override
    public synchronized int destroyQp(long qp) {
        return queuePairs.destroy(qp);
    }
}
