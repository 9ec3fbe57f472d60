package dev.verbena.internal.verbs;

import dev.verbena.Gid;
import dev.verbena.Port;
import dev.verbena.bindings.Verbs;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.function.IntSupplier;
import java.util.function.Predicate;

/**
 * What a test sets of a {@link FakeDevice}, and what it reads afterwards. Error numbers are
 * positive; 0 stands for success.
 */
abstract class FakeSettings extends DeviceControl {
    /** Vendor ids, to make it behave as one of them. */
    public static final int PLAIN = 0x1234;

    public static final int RXE = 0xFFFFFF;
    public static final int SIW = 0x626D74;
    public static final int MELLANOX = 0x02C9;

    public static final long NODE_GUID = 0x0200_5EFF_FE00_5301L;

    static final Runnable NOTHING = () -> {};

    /** Called first by each call that makes or changes an object, with its name. It may throw. */
    public volatile Consumer<String> beforeStep = step -> {};

    /** When a queue pair in the error state has ended the shared receives it took, and says so. */
    public enum LastReceive {
        AT_ONCE,
        /** With {@link FakeDevice#bringLastReceive}. */
        LATE,
        NEVER
    }

    // ---- what it is, and what queries answer

    public int vendorId = PLAIN;
    public int vendorPartId = 0x1017;

    /** Whether its transport is iWARP. */
    public boolean iwarp;

    public int transport = Verbs.IBV_TRANSPORT_IB;
    public int maxInline = 300;
    public int maxSge = 8;
    public int maxDepth = 4096;
    public int maxProduct = Integer.MAX_VALUE; // of depth and buffers
    public boolean windows = true;
    public boolean invalidates = true;
    public boolean atomics = true;
    public boolean globalAtomics;
    public boolean sharedQueues = true;
    public boolean sharedResizes = true;

    public int ports = 1;
    public boolean portUp = true; // each of them
    public boolean ethernet = true;
    public int portError; // of each query of a port
    public int speed = 32; // EDR
    public int width = 2; // four lanes

    /** Its GID table; at first with the GID of 10.0.0.1, of RoCE v2. */
    public List<Port.GidEntry> gids =
            List.of(
                    new Port.GidEntry(
                            1, 0, new Gid(0, 0xFFFF_0A00_0001L), Port.GidType.ROCE_V2, 0));

    /** How often its GID table was read. */
    public volatile int gidQueries;

    // ---- objects that are made and destroyed

    public int controlError; // of the next call that makes something, once

    /**
     * Called first by each destroy, poll and arm, with the name of the verb. It may not throw, but
     * have the call fail by {@link #destroyErrors}, or by {@link #queueError}.
     */
    public volatile Consumer<String> beforeOther = verb -> {};

    /** The errno of the next poll or arm of a completion queue, once. */
    public int queueError;

    /** What destroys answer, by the name of the verb; what was to be destroyed stays then. */
    public final Map<String, Integer> destroyErrors = new ConcurrentHashMap<>();

    /** The destroys that were tried, by the names of the verbs. */
    public final List<String> destroys = Collections.synchronizedList(new ArrayList<>());

    /**
     * Whether it was unplugged: control calls answer EIO, nothing is carried out, and its async
     * descriptor stays readable with nothing to read, as the kernel's does.
     */
    public volatile boolean gone;

    /** Whether it answers EAGAIN then, as kernels before 6.5 do, and not that it has ended. */
    public volatile boolean hidesTheEnd;

    // ---- memory

    public final List<Integer> registeredFor = new ArrayList<>(); // the rights of each region

    /** Whether memory is mapped for reading only, as a read-only mapping of a file is. */
    public boolean pagesAreReadOnly;

    /** What it can do with memory that is not pinned: {@code general_caps} of ibv_odp_caps, */
    public long paging;

    /** and {@code rc_odp_caps}. */
    public int pagingOperations = 63;

    /** The errno of a registration that has optional rights, or 0. */
    public int optionalRightsError;

    /** The errno of each registration of a dma-buf, or 0. */
    public int dmaBufError;

    /** The registered dma-bufs: descriptor, offset, length, iova. */
    public final List<List<Long>> dmaBufs = new ArrayList<>();

    /** The prefetches: advice, address, length, local key. */
    public final List<List<Long>> prefetches = new ArrayList<>();

    public int prefetchError; // of each
    public boolean keysCannotBeRead;

    /** What happens before the next window is freed. */
    public volatile Runnable beforeFreeingWindow = NOTHING;

    public volatile Runnable beforeWindowKey = NOTHING; // what windowKey() runs once

    // ---- completion queues and their events

    public int completionVectors = 4;
    public final List<Integer> vectors = new ArrayList<>(); // of each completion queue made
    public int moderationCount; // the most that it takes, also as microseconds
    public final List<String> moderations = new ArrayList<>();
    public int resizeError; // of each resize of a completion queue
    public int sharedResizeError; // of each ibv_modify_srq
    public int overruns;
    public int polls; // of any completion queue

    /** What poll_cq answers instead, when not 0. */
    public int pollAnswer;

    /** What req_notify_cq answers, and then does nothing, when not 0. */
    public int notifyAnswer;

    public final List<Boolean> arms = new ArrayList<>(); // solicitedOnly of each

    /** Whether events come only with {@link FakeDevice#bringLateEvents}. */
    public boolean eventsAreLate;

    public int mostEventsNotTaken; // of one channel at any moment
    public volatile int eventsAskedFor; // how often a channel was

    /** What taking a completion channel's event answers instead, when not 0: a negative errno. */
    public int takingAnswer;

    /** Thrown once after a completion channel's event was taken. */
    public final AtomicReference<Error> takingCompletionEvent = new AtomicReference<>();

    /** Thrown once by the preparation of waits for a completion channel. */
    public final AtomicReference<Error> preparingWaits = new AtomicReference<>();

    /** What the next waits for a completion channel do instead, each once. */
    public final Queue<IntSupplier> waits = new ConcurrentLinkedQueue<>();

    /** What the next waits of the event thread do instead, each once. */
    public final Queue<IntSupplier> loopWaits = new ConcurrentLinkedQueue<>();

    /** How long each wait for a completion channel was to last at most, and how it ended. */
    public final List<Integer> sleeps = Collections.synchronizedList(new ArrayList<>());

    public final List<Integer> woken = Collections.synchronizedList(new ArrayList<>());

    // ---- asynchronous events

    /** Thrown, once, by the next call that takes an asynchronous event. */
    public final AtomicReference<Error> taking = new AtomicReference<>();

    /** Runs when an asynchronous event was taken, and the object that it names was found. */
    public volatile Runnable afterTake = () -> {};

    public volatile int askedForAsyncEventsInVain;

    // ---- queue pairs and shared receive queues

    public int initError; // of each queue pair's first step
    public int reachError; // of each queue pair's step to ready-to-receive
    public boolean numbersCannotBeRead;
    public final List<StateChange> changes = new ArrayList<>(); // steps of connections, in order

    /** The errno of the next step of a connection. */
    public int changeError;

    /** The state that only is refused by it, or 0 for any. */
    public int changeErrorAt;

    /** The errno of the next destruction of a queue pair, which is gone all the same. */
    public int destroyError;

    public boolean lastRnrUnlimited;
    public volatile int statesAskedFor; // of queue pairs

    /** How often a queue pair was moved to the error state. */
    public int errorsAskedFor;

    /** The errno of each step of a queue pair to the error state, or 0. */
    public int errorStepError;

    /**
     * How many polls of any completion queue it takes until a queue pair in the error state is
     * flushed, which hardware does at its own pace; 0 for at once.
     */
    public volatile int pollsToFlush;

    /** Flushes it if no one polls: by default, it never does. */
    public volatile Executor flusher = flush -> {};

    /** What happens before each of those steps; it may throw. */
    public volatile Runnable beforeErrorStep = NOTHING;

    public final List<Integer> srqLimits = new ArrayList<>();

    /** Of those vendors' devices that say so at all. */
    public volatile LastReceive lastReceive = LastReceive.AT_ONCE;

    // ---- requests

    public final List<PostedRequest> sends = new ArrayList<>();
    public final List<PostedRequest> receives = new ArrayList<>();
    public final List<Integer> chains = new ArrayList<>(); // how many requests each post had

    /** What would have stopped a kernel. */
    public final List<String> panics = new ArrayList<>();

    /** What the next post answers, once; 0 is success. */
    public int answer;

    /** Which request of the chain is refused then; -1 leaves bad_wr alone. */
    public int refused = -1;

    /** Whether a chain that has no request there has its last one refused; else it is kept. */
    public boolean refusesLast;

    /** Whether those that were refused with bad_wr NULL stay in the queue, as with rxe. */
    public boolean keepsRefused;

    /** Whether requests to a queue pair in the error state are refused, as cxgb4 does. */
    public boolean refusesInError;

    /** Whether a refusal answers 0 with bad_wr set, as siw may. */
    public boolean answersZero;

    /** What happens while the next post is in the provider, before it has looked at anything; */
    public Runnable beforePost = NOTHING;

    /** and after it has done all that it will do, before it answers. */
    public Runnable afterPost = NOTHING;

    /** Whether requests are carried out; else they wait. */
    public boolean running = true;

    /** Which request from now on fails, -1 for none; with which status. */
    public int failAt = -1;

    public int failStatus;

    /** Whether the device loses outstanding requests, without a completion. */
    public boolean forgetful;

    /** Whether a message to a queue pair with shared receives takes one and does not end. */
    public boolean messagesHang;

    /**
     * Which requests are acknowledged late: carried out at once, but complete only when many polls
     * in a row have found nothing.
     */
    public Predicate<PostedRequest> acknowledgedLate = request -> false;

    /** A send that invalidates a key that is free is the peer's mistake, and no panic. */
    public boolean peerIsHostile;

    /** A send may invalidate windows of other queue pairs, too, as on Soft-RoCE. */
    public boolean anyoneInvalidates;

    public boolean carriesBytes; // of messages, reads and writes
}
