package dev.verbena.internal.verbs;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_INT_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static java.lang.foreign.ValueLayout.JAVA_LONG_UNALIGNED;

import dev.verbena.bindings.Verbs;
import dev.verbena.bindings.ibv_context;
import dev.verbena.bindings.ibv_context_ops;
import dev.verbena.bindings.ibv_device_attr;
import dev.verbena.bindings.ibv_qp_attr;
import dev.verbena.bindings.ibv_recv_wr;
import dev.verbena.bindings.ibv_send_wr;
import dev.verbena.bindings.ibv_sge;
import dev.verbena.bindings.ibv_wc;

import java.io.ByteArrayOutputStream;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.IntSupplier;
import java.util.function.LongFunction;
import java.util.random.RandomGenerator;

/**
 * A device that does not exist: an {@code ibv_context} in native memory whose data path ends in
 * Java, and the control calls to go with it.
 *
 * <p>It keeps a copy of every posted request, to the byte. It behaves as hardware does where that
 * is stricter than Soft-RoCE: a place in a send queue is free again when a completion at or behind
 * it was polled, and a completion queue that overflows says so. It carries out requests when
 * somebody polls, moves data only where a test asks for it, and can refuse and fail at any index.
 * Invalidating a window that is not bound is a {@link #panics panic}.
 */
public final class FakeDevice implements DeviceControl {
    /** Vendor ids, to make it behave as one of them. */
    public static final int PLAIN = 0x1234;

    public static final int RXE = 0xFFFFFF;
    public static final int SIW = 0x626D74;
    public static final int MELLANOX = 0x02C9;

    public static final long NODE_GUID = 0x0200_5EFF_FE00_5301L;

    private static final int SUCCESS = 0;
    private static final int QP_OP_ERROR = 2;
    private static final int FLUSHED = 5;
    private static final int BIND_ERROR = 6;
    private static final int ACCESS_ERROR = 10;
    private static final int RNR = 13;
    private static final Runnable NOTHING = () -> {};
    private static final int LAST_PORT = 255; // addresses are higher

    /**
     * A posted request: the bytes of it, of its buffer list, and of its buffers if it is inline.
     */
    public record Posted(long queue, byte[] request, byte[] sges, byte[] inline) {
        public long id() {
            return number(ibv_send_wr.wr_id$offset());
        }

        public long receiveId() {
            return MemorySegment.ofArray(request)
                    .get(JAVA_LONG_UNALIGNED, ibv_recv_wr.wr_id$offset());
        }

        public int opcode() {
            return (int) number(ibv_send_wr.opcode$offset());
        }

        public int flags() {
            return (int) number(ibv_send_wr.send_flags$offset());
        }

        boolean signaled() {
            return (flags() & SendChain.SIGNALED) != 0;
        }

        private long number(long offset) {
            MemorySegment segment = MemorySegment.ofArray(request);
            return offset == 0
                    ? segment.get(JAVA_LONG_UNALIGNED, offset)
                    : segment.get(JAVA_INT_UNALIGNED, offset);
        }

        private int key(long offset) {
            return (int) number(offset);
        }
    }

    /** Keeps every event until somebody takes it, one at a time, as the kernel does. */
    private static final class Channel {
        final int descriptor = Descriptors.newEventFd();
        final Deque<Cq> events = new ArrayDeque<>();

        void add(Cq cq) {
            events.add(cq);
            Descriptors.setReadable(descriptor);
        }

        void forget(Cq cq) {
            if (events.removeIf(of -> of == cq) && events.isEmpty()) {
                Descriptors.drain(descriptor);
            }
        }

        Cq take() {
            Cq taken = events.poll();
            if (taken != null && events.isEmpty()) {
                Descriptors.drain(descriptor);
            }
            return taken;
        }
    }

    private static final class Cq {
        final Deque<byte[]> entries = new ArrayDeque<>();
        int depth;
        int vector;
        long context;
        Channel channel;
        boolean armed;
        boolean solicitedOnly;
    }

    private static final class Qp {
        long address;
        int number;
        QueuePairShape shape;
        Cq sendCq;
        Cq receiveCq;
        long srq;
        String state = "RESET";
        int peer;
        final Deque<Posted> sends = new ArrayDeque<>(); // not carried out yet
        final Deque<Long> slots = new ArrayDeque<>(); // ids whose places are taken
        final Deque<Posted> receives = new ArrayDeque<>();
        final Deque<Posted> taken = new ArrayDeque<>(); // shared receives, not ended yet
    }

    /** Memory that the peer may write to. */
    private record Open(long start, long bytes) {}

    private static final class Mw {
        int key;
        Qp boundOn;
    }

    // What tests look at.
    public final List<Posted> sends = new ArrayList<>();
    public final List<Posted> receives = new ArrayList<>();
    public final List<Integer> chains = new ArrayList<>(); // how many requests each post had
    public final List<Boolean> arms = new ArrayList<>(); // solicitedOnly of each
    public volatile int eventsAskedFor; // how often a channel was

    /** How long each wait for a completion channel was to last at most, and how it ended. */
    public final List<Integer> sleeps = Collections.synchronizedList(new ArrayList<>());

    public final List<Integer> woken = Collections.synchronizedList(new ArrayList<>());
    public volatile int statesAskedFor; // of queue pairs
    public boolean carriesBytes; // of messages, and of reads and writes through windows
    public int completionVectors = 4;
    public final List<Integer> vectors = new ArrayList<>(); // of each completion queue made
    public int mostEventsNotTaken; // of one channel at any moment

    public final List<String> panics = new ArrayList<>();
    public int overruns;
    public final List<StateChange> changes = new ArrayList<>(); // steps of connections, in order

    /** The errno of the next step of a connection. */
    public int changeError;

    /** The state that only is refused by it, or 0 for any. */
    public int changeErrorAt;

    /** The errno of the next destruction of a queue pair, which is gone all the same. */
    public int destroyError;

    /** What destroys answer, by the name of the verb; what was to be destroyed stays then. */
    public final Map<String, Integer> destroyErrors = new ConcurrentHashMap<>();

    /**
     * Whether it was unplugged: control calls answer EIO, nothing is carried out, and its async
     * descriptor stays readable with nothing to read, as the kernel's does.
     */
    public volatile boolean gone;

    /** Whether it answers EAGAIN then, as kernels before 6.5 do, and not that it has ended. */
    public volatile boolean hidesTheEnd;

    public volatile int askedForAsyncEventsInVain;

    /** When a queue pair in the error state has ended the shared receives it took, and says so. */
    public enum LastReceive {
        AT_ONCE,
        /** With {@link #bringLastReceive}. */
        LATE,
        NEVER
    }

    /** Of those vendors' devices that say so at all. */
    public volatile LastReceive lastReceive = LastReceive.AT_ONCE;

    /** Whether a message to a queue pair with shared receives takes one and does not end. */
    public boolean messagesHang;

    /** The destroys that were tried, by the names of the verbs. */
    public final List<String> destroys = Collections.synchronizedList(new ArrayList<>());

    public final List<Integer> registeredFor = new ArrayList<>(); // the rights of each region

    /** Whether memory is mapped for reading only, as a read-only mapping of a file is. */
    public boolean pagesAreReadOnly;

    /** What it can do with memory that is not pinned. */
    public PagingAttributes paging = PagingAttributes.NONE;

    public int moderationCount; // the most that it takes, also as microseconds
    public final List<String> moderations = new ArrayList<>();

    /** The errno of a registration that has optional rights, or 0. */
    public int optionalRightsError;

    /** The errno of each registration of a dma-buf, or 0. */
    public int dmaBufError;

    /** The registered dma-bufs: descriptor, offset, length, iova. */
    public final List<List<Long>> dmaBufs = new ArrayList<>();

    /** The prefetches: advice, address, length, local key. */
    public final List<List<Long>> prefetches = new ArrayList<>();

    public int prefetchError; // of each

    public final List<Integer> srqLimits = new ArrayList<>();

    // What tests set.
    /** What the next post answers, once; 0 is success. */
    public int answer;

    /** Which request of the chain is refused then; -1 leaves bad_wr alone. */
    public int refused = -1;

    /** Whether those that were refused with bad_wr NULL stay in the queue, as with rxe. */
    public boolean keepsRefused;

    /** Whether events come only with {@link #bringLateEvents}. */
    public boolean eventsAreLate;

    /** Whether a refusal answers 0 with bad_wr set, as siw may. */
    public boolean answersZero;

    /** What happens while the next post is in the provider, before it has looked at anything; */
    public Runnable beforePost = NOTHING;

    /** and after it has done all that it will do, before it answers. */
    public Runnable afterPost = NOTHING;

    /** Which request from now on fails, -1 for none; with which status. */
    public int failAt = -1;

    public int failStatus;

    /** Whether requests are carried out; else they wait. */
    public boolean running = true;

    /** Whether the device loses outstanding requests, without a completion. */
    public boolean forgetful;

    /** How often a queue pair was moved to the error state. */
    public int errorsAskedFor;

    public boolean lastRnrUnlimited;

    /** What the next waits for a completion channel do instead, each once. */
    public final Queue<IntSupplier> waits = new ConcurrentLinkedQueue<>();

    /** Thrown once after a completion channel's event was taken. */
    public final AtomicReference<Error> takingCompletionEvent = new AtomicReference<>();

    /** Thrown once by the preparation of waits for a completion channel. */
    public final AtomicReference<Error> preparingWaits = new AtomicReference<>();

    /** What req_notify_cq answers, and then does nothing, when not 0. */
    public int notifyAnswer;

    /** What taking a completion channel's event answers instead, when not 0: a negative errno. */
    public int takingAnswer;

    /** What poll_cq answers instead, when not 0. */
    public int pollAnswer;

    public int vendorId = PLAIN;
    public int vendorPartId = 0x1017;

    /** Whether its transport is iWARP. */
    public boolean iwarp;

    public int maxInline = 300;
    public int maxSge = 8;
    public int maxDepth = 4096;
    public int maxProduct = Integer.MAX_VALUE; // of depth and buffers
    public boolean windows = true;
    public boolean invalidates = true;
    public boolean atomics = true;
    public boolean globalAtomics;
    public boolean sharedQueues = true;
    public boolean portUp = true;
    public boolean ethernet = true;
    public int transport = Verbs.IBV_TRANSPORT_IB;
    public int portError; // of each query of a port
    public int speed = 32; // EDR
    public int width = 2; // four lanes

    /** How often its GID table was read. */
    public volatile int gidQueries;

    /** Its GID table; at first with the GID of 10.0.0.1, of RoCE v2. */
    public List<GidTableEntry> gids = List.of(new GidTableEntry(1, 0, 2, 0, 0xFFFF_0A00_0001L, 0));

    public int controlError; // of the next call that makes something, once
    public int resizeError; // of each resize of a completion queue
    public int reachError; // of each queue pair's step to ready-to-receive
    public boolean keysCannotBeRead;
    public int initError; // of each queue pair's first step
    public boolean numbersCannotBeRead;

    /** Thrown, once, by the next call that takes an asynchronous event. */
    public final AtomicReference<Error> taking = new AtomicReference<>();

    private final Arena arena = Arena.ofShared();
    private final MemorySegment context = ibv_context.allocate(arena);
    private final Map<Long, Cq> cqs = new HashMap<>();
    private final Map<Long, Qp> qps = new HashMap<>();
    private final Map<Integer, Qp> byNumber = new HashMap<>();
    private final Map<Long, Mw> mws = new HashMap<>();
    private final Map<Long, Deque<Posted>> srqs = new HashMap<>();
    private final Map<Long, Channel> channels = new HashMap<>();
    private final Map<Long, String> others = new HashMap<>();
    private final Map<Long, Open> open = new HashMap<>(); // by region
    private final List<Long> openRegions = new ArrayList<>(); // its keys, to choose one
    private final int async = Descriptors.newEventFd();
    private final Queue<AsyncEvent> asyncEvents = new ConcurrentLinkedQueue<>();
    private final List<Runnable> refusedToDestroy = new ArrayList<>(); // forgets each
    private final List<Cq> lateEvents = new ArrayList<>();
    private long nextAddress = 0x10_0000;
    private int nextNumber = 100;

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
        return new VerbsContext(context.address()).withCriticalCalls(Provider.ThroughKernel.ALL);
    }

    /** How many native objects there are. */
    public int objects() {
        return cqs.size() + qps.size() + mws.size() + srqs.size() + channels.size() + others.size();
    }

    public int windowCount() {
        return mws.size();
    }

    public int lastQueuePairNumber() {
        return nextNumber - 1;
    }

    public int lastSendDepth() {
        return byNumber.get(nextNumber - 1).shape.sendDepth();
    }

    public synchronized int lastChannelDescriptor() {
        return channels.get(channels.keySet().stream().max(Long::compare).orElseThrow()).descriptor;
    }

    /** Whether a peer may read or write through the window with this token. */
    public synchronized boolean honours(int token) {
        return mws.values().stream().anyMatch(mw -> mw.key == token && mw.boundOn != null);
    }

    public synchronized String state(int number) {
        return byNumber.get(number).state;
    }

    // ---- the data path

    private int postSend(MemorySegment qpAddress, MemorySegment first, MemorySegment bad) {
        Runnable before = beforePost;
        Runnable after = afterPost;
        beforePost = NOTHING;
        afterPost = NOTHING;
        run(before);
        int answer = takeSends(qpAddress, first, bad);
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

    private synchronized int takeSends(
            MemorySegment qpAddress, MemorySegment first, MemorySegment bad) {
        Qp qp = qps.get(qpAddress.address());
        int index = 0;
        int refuse = answer;
        answer = 0;
        for (long at = first.address(); at != 0; index++) {
            boolean full = qp.slots.size() == qp.shape.sendDepth();
            boolean refuseThis = refuse != 0 && index == Math.max(refused, 0) && !keepsRefused;
            if (full || refuseThis) {
                if (full || refused >= 0) {
                    Native.at(bad.address(), Long.BYTES).set(JAVA_LONG, 0, at);
                }
                chains.add(index);
                return full ? Errno.ENOMEM : answersZero ? 0 : refuse;
            }
            Posted posted =
                    read(
                            qp.address,
                            at,
                            ibv_send_wr.sizeof(),
                            ibv_send_wr.sg_list$offset(),
                            ibv_send_wr.num_sge$offset(),
                            true);
            sends.add(posted);
            qp.sends.add(posted);
            qp.slots.add(posted.id());
            at = next(posted, ibv_send_wr.next$offset());
        }
        chains.add(index);
        return refuse;
    }

    private int postReceive(
            MemorySegment queue, MemorySegment request, MemorySegment bad, boolean shared) {
        Runnable after = afterPost;
        afterPost = NOTHING;
        int answer = takeReceive(queue, request, bad, shared);
        run(after);
        return answer;
    }

    private synchronized int takeReceive(
            MemorySegment queue, MemorySegment request, MemorySegment bad, boolean shared) {
        int refuse = answer;
        answer = 0;
        if (refuse != 0 && !keepsRefused) {
            if (refused >= 0) {
                Native.at(bad.address(), Long.BYTES).set(JAVA_LONG, 0, request.address());
            }
            return refuse;
        }
        Posted posted =
                read(
                        queue.address(),
                        request.address(),
                        ibv_recv_wr.sizeof(),
                        ibv_recv_wr.sg_list$offset(),
                        ibv_recv_wr.num_sge$offset(),
                        false);
        receives.add(posted);
        if (shared) {
            srqs.get(queue.address()).add(posted);
        } else {
            qps.get(queue.address()).receives.add(posted);
        }
        return refuse;
    }

    private static Posted read(
            long queue, long at, long size, long sgesOffset, long countOffset, boolean send) {
        MemorySegment request = Native.at(at, size);
        long sges = request.get(JAVA_LONG, sgesOffset);
        int count = request.get(JAVA_INT, countOffset);
        MemorySegment list =
                count == 0 ? MemorySegment.NULL : Native.at(sges, count * ibv_sge.sizeof());
        ByteArrayOutputStream inline = new ByteArrayOutputStream();
        boolean isInline =
                send
                        && (request.get(JAVA_INT, ibv_send_wr.send_flags$offset())
                                        & SendChain.INLINE)
                                != 0;
        for (int i = 0; i < count && isInline; i++) {
            MemorySegment sge = ibv_sge.asSlice(list, i);
            inline.writeBytes(
                    Native.at(ibv_sge.addr(sge), Integer.toUnsignedLong(ibv_sge.length(sge)))
                            .toArray(JAVA_BYTE));
        }
        return new Posted(
                queue, request.toArray(JAVA_BYTE), list.toArray(JAVA_BYTE), inline.toByteArray());
    }

    private static long next(Posted posted, long offset) {
        return MemorySegment.ofArray(posted.request()).get(JAVA_LONG_UNALIGNED, offset);
    }

    private synchronized int poll(MemorySegment address, int count, MemorySegment wcs) {
        if (pollAnswer != 0) {
            return pollAnswer;
        }
        run();
        Cq cq = cqs.get(address.address());
        MemorySegment room = Native.at(wcs.address(), count * ibv_wc.sizeof());
        int given = 0;
        while (given < count && !cq.entries.isEmpty()) {
            MemorySegment entry = MemorySegment.ofArray(cq.entries.remove());
            MemorySegment.copy(entry, 0, room, given * ibv_wc.sizeof(), ibv_wc.sizeof());
            free(entry.get(JAVA_LONG_UNALIGNED, ibv_wc.wr_id$offset()));
            given++;
        }
        return given;
    }

    /** Frees the places of a send and all before it. */
    private void free(long id) {
        for (Qp qp : qps.values()) {
            if (qp.slots.contains(id)) {
                while (qp.slots.remove() != id) {
                    continue;
                }
            }
        }
    }

    private synchronized int requestNotify(MemorySegment address, int solicitedOnly) {
        Cq cq = cqs.get(address.address());
        arms.add(solicitedOnly != 0);
        if (notifyAnswer != 0) {
            return notifyAnswer;
        }
        cq.armed = true;
        cq.solicitedOnly = solicitedOnly != 0;
        return 0;
    }

    // ---- what it does

    /** Carries out what was posted. */
    public synchronized void run() {
        if (forgetful) {
            qps.values().forEach(qp -> qp.sends.clear());
            qps.values().forEach(qp -> qp.receives.clear());
        }
        boolean any = running && !gone;
        while (any) {
            any = false;
            for (Qp qp : qps.values()) {
                if (qp.state.equals("RTS") && !qp.sends.isEmpty()) {
                    any = true;
                    carryOut(qp, qp.sends.remove());
                }
            }
        }
        for (Qp qp : qps.values()) {
            if (qp.state.equals("ERR") && !gone) {
                flush(qp.sends, qp.sendCq, qp);
                if (vendorId != RXE) { // which never hears of receives posted now
                    flush(qp.receives, qp.receiveCq, qp);
                }
            }
        }
    }

    /** Carries out one request of a queue pair that has any. */
    public synchronized void runOne() {
        qps.values().stream()
                .filter(qp -> qp.state.equals("RTS") && !qp.sends.isEmpty())
                .findFirst()
                .ifPresent(qp -> carryOut(qp, qp.sends.remove()));
    }

    private void carryOut(Qp qp, Posted send) {
        int status = SUCCESS;
        if (failAt >= 0 && failAt-- == 0) {
            status = failStatus;
        } else {
            status =
                    switch (send.opcode()) {
                        case SendChain.BIND -> bind(qp, send);
                        case SendChain.INVALIDATE ->
                                invalidate(send.key(ibv_send_wr.invalidate_rkey$offset()), qp);
                        case SendChain.SEND,
                                SendChain.SEND_WITH_IMMEDIATE,
                                SendChain.SEND_WITH_INVALIDATE,
                                SendChain.WRITE_WITH_IMMEDIATE ->
                                deliver(qp, send);
                        case SendChain.WRITE, SendChain.READ ->
                                carriesBytes ? access(qp, send) : SUCCESS;
                        default -> SUCCESS;
                    };
        }
        if (send.signaled() || status != SUCCESS) {
            complete(qp.sendCq, send.id(), status, 0, 0, 0, 0, qp.number, false);
        }
        if (status != SUCCESS) {
            toErrorState(qp);
        }
    }

    private int deliver(Qp qp, Posted send) {
        Qp peer = byNumber.get(qp.peer);
        if (peer == null || !peer.state.equals("RTS")) {
            return SUCCESS; // nobody looks
        }
        Deque<Posted> queue = peer.srq != 0 ? srqs.get(peer.srq) : peer.receives;
        if (queue.isEmpty()) {
            return RNR;
        }
        Posted receive = queue.remove();
        if (peer.srq != 0 && messagesHang) {
            peer.taken.add(receive);
            return SUCCESS;
        }
        int bytes = 0;
        for (int i = 0; i < send.sges().length; i += 16) {
            bytes += MemorySegment.ofArray(send.sges()).get(JAVA_INT_UNALIGNED, i + 8);
        }
        if (carriesBytes) {
            carry(send, receive);
        }
        int extra = send.key(ibv_send_wr.imm_data$offset());
        int flags = 0;
        int opcode = 128; // IBV_WC_RECV
        if (send.opcode() == SendChain.SEND_WITH_INVALIDATE) {
            flags = vendorId == RXE ? 4 : 8;
            invalidate(extra, null);
        } else if (send.opcode() != SendChain.SEND) {
            flags = 2;
            opcode = send.opcode() == SendChain.SEND_WITH_IMMEDIATE ? 128 : 129;
        }
        complete(
                peer.receiveCq,
                receive.id(),
                SUCCESS,
                opcode,
                bytes,
                flags,
                extra,
                peer.number,
                (send.flags() & SendChain.SOLICITED) != 0);
        return SUCCESS;
    }

    /** Copies bytes from or to memory of the peer, if its window is bound there. */
    private int access(Qp qp, Posted send) {
        Qp peer = byNumber.get(qp.peer);
        if (peer == null || !peer.state.equals("RTS")) {
            return SUCCESS; // nobody looks
        }
        int key =
                send.key(
                        ibv_send_wr.wr$offset()
                                + ibv_send_wr.wr.rdma$offset()
                                + ibv_send_wr.wr.rdma.rkey$offset());
        if (mws.values().stream().noneMatch(mw -> mw.key == key && mw.boundOn == peer)) {
            toErrorState(peer);
            return ACCESS_ERROR;
        }
        long address =
                MemorySegment.ofArray(send.request())
                        .get(
                                JAVA_LONG_UNALIGNED,
                                ibv_send_wr.wr$offset()
                                        + ibv_send_wr.wr.rdma$offset()
                                        + ibv_send_wr.wr.rdma.remote_addr$offset());
        for (MemorySegment buffer : buffers(send)) {
            MemorySegment there = Native.at(address, buffer.byteSize());
            if (send.opcode() == SendChain.WRITE) {
                there.copyFrom(buffer);
            } else {
                buffer.copyFrom(there);
            }
            address += buffer.byteSize();
        }
        return SUCCESS;
    }

    /** Copies a message into the receive's buffers. */
    private static void carry(Posted send, Posted receive) {
        byte[] message = send.inline();
        if ((send.flags() & SendChain.INLINE) == 0) {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            buffers(send).forEach(buffer -> bytes.writeBytes(buffer.toArray(JAVA_BYTE)));
            message = bytes.toByteArray();
        }
        int copied = 0;
        for (MemorySegment buffer : buffers(receive)) {
            int count = (int) Math.min(buffer.byteSize(), message.length - copied);
            MemorySegment.copy(message, copied, buffer, JAVA_BYTE, 0, count);
            copied += count;
        }
        if (copied < message.length) {
            throw new IllegalStateException("A message is longer than its receive");
        }
    }

    private static List<MemorySegment> buffers(Posted posted) {
        MemorySegment list = MemorySegment.ofArray(posted.sges());
        List<MemorySegment> buffers = new ArrayList<>();
        for (int i = 0; i < posted.sges().length; i += 16) {
            buffers.add(
                    Native.at(
                            list.get(JAVA_LONG_UNALIGNED, i),
                            Integer.toUnsignedLong(list.get(JAVA_INT_UNALIGNED, i + 8))));
        }
        return buffers;
    }

    private int bind(Qp qp, Posted send) {
        MemorySegment request = MemorySegment.ofArray(send.request());
        Mw mw =
                mws.get(
                        request.get(
                                JAVA_LONG_UNALIGNED,
                                ibv_send_wr.bind_mw$offset() + ibv_send_wr.bind_mw.mw$offset()));
        if (mw == null || mw.boundOn != null) {
            return BIND_ERROR;
        }
        mw.boundOn = qp;
        mw.key =
                request.get(
                        JAVA_INT_UNALIGNED,
                        ibv_send_wr.bind_mw$offset() + ibv_send_wr.bind_mw.rkey$offset());
        return SUCCESS;
    }

    private int invalidate(int key, Qp by) {
        for (Mw mw : mws.values()) {
            if (mw.key == key) {
                if (mw.boundOn == null) {
                    panics.add("window 0x%08x is not bound".formatted(key));
                } else if (by != null && mw.boundOn != by) {
                    return QP_OP_ERROR;
                }
                mw.boundOn = null;
                return SUCCESS;
            }
        }
        return by == null ? SUCCESS : QP_OP_ERROR;
    }

    private void toErrorState(Qp qp) {
        qp.state = "ERR";
        if (forgetful) {
            qp.sends.clear();
            qp.receives.clear();
        }
        flush(qp.sends, qp.sendCq, qp);
        flush(qp.receives, qp.receiveCq, qp);
        if (qp.srq != 0 && vendorId == MELLANOX && lastReceive == LastReceive.AT_ONCE) {
            endTaken(qp);
        }
    }

    private void endTaken(Qp qp) {
        flush(qp.taken, qp.receiveCq, qp);
        raise(AsyncEvent.Kind.LAST_RECEIVE_REACHED, qp.address);
    }

    /** The oldest receive of a queue pair fails, and with it the queue pair. */
    public synchronized void failReceive(int number, int status) {
        Qp qp = byNumber.get(number);
        long id = (qp.srq != 0 ? qp.taken : qp.receives).remove().receiveId();
        complete(qp.receiveCq, id, status, 0, 0, 0, 0, number, false);
        toErrorState(qp);
    }

    /** Ends the shared receives that a queue pair took. */
    public synchronized void bringLastReceive(int number) {
        endTaken(byNumber.get(number));
    }

    private void flush(Deque<Posted> posted, Cq cq, Qp qp) {
        while (!posted.isEmpty()) {
            Posted one = posted.remove();
            long id = posted == qp.sends ? one.id() : one.receiveId();
            complete(cq, id, FLUSHED, 0, 0, 0, 0, qp.number, false);
        }
    }

    /** Queues a successful receive on the completion queue made last. */
    public synchronized void complete(long id, int number) {
        complete(cqMadeLast(), id, SUCCESS, 128, 0, 0, 0, number, false);
    }

    /** Queues a completion with this status, these bytes and these flags there. */
    public synchronized void complete(long id, int status, int bytes, int flags) {
        complete(cqMadeLast(), id, status, 128, bytes, flags, 0, 1, false);
    }

    private Cq cqMadeLast() {
        long last = cqs.keySet().stream().mapToLong(Long::longValue).max().orElseThrow();
        return cqs.get(last);
    }

    /** Queues a completion that has only what a real one has. */
    private void complete(
            Cq cq,
            long id,
            int status,
            int opcode,
            int bytes,
            int flags,
            int extra,
            int number,
            boolean solicited) {
        byte[] raw = new byte[(int) ibv_wc.sizeof()];
        MemorySegment wc = MemorySegment.ofArray(raw);
        Arrays.fill(raw, (byte) 0xA5); // what is not valid is not zero either
        wc.set(JAVA_LONG_UNALIGNED, ibv_wc.wr_id$offset(), id);
        wc.set(JAVA_INT_UNALIGNED, ibv_wc.status$offset(), status);
        wc.set(JAVA_INT_UNALIGNED, ibv_wc.vendor_err$offset(), status == SUCCESS ? 0xA5 : 0x77);
        wc.set(JAVA_INT_UNALIGNED, ibv_wc.qp_num$offset(), number);
        if (status == SUCCESS) {
            wc.set(JAVA_INT_UNALIGNED, ibv_wc.opcode$offset(), opcode);
            wc.set(JAVA_INT_UNALIGNED, ibv_wc.byte_len$offset(), bytes);
            wc.set(JAVA_INT_UNALIGNED, ibv_wc.wc_flags$offset(), flags);
            wc.set(JAVA_INT_UNALIGNED, ibv_wc.imm_data$offset(), extra);
        }
        if (cq.entries.size() == cq.depth) {
            overruns++;
            return;
        }
        cq.entries.add(raw);
        boolean failureWakes = status != SUCCESS && vendorId != RXE;
        boolean solicitedWakes = solicited && vendorId != SIW;
        if (cq.armed && (!cq.solicitedOnly || solicitedWakes || failureWakes)) {
            cq.armed = false;
            if (cq.channel != null && eventsAreLate) {
                lateEvents.add(cq);
            } else if (cq.channel != null) {
                bringEvent(cq);
            }
        }
    }

    /** Events of completions that were there before, as interrupts bring them. */
    public synchronized void bringLateEvents() {
        lateEvents.forEach(this::bringEvent);
        lateEvents.clear();
    }

    /** An event of a completion queue comes, whether it was asked for or not. */
    public synchronized void bringEvent(long cq) {
        bringEvent(cqs.get(cq));
    }

    private void bringEvent(Cq cq) {
        cq.channel.add(cq);
        mostEventsNotTaken = Math.max(mostEventsNotTaken, cq.channel.events.size());
    }

    /** Raises an asynchronous event of the completion queue or shared receive queue made last. */
    public void raise(AsyncEvent.Kind kind) {
        boolean ofSharedQueue =
                kind == AsyncEvent.Kind.RECEIVES_RAN_LOW
                        || kind == AsyncEvent.Kind.SHARED_QUEUE_BROKEN;
        long object;
        synchronized (this) {
            object =
                    (ofSharedQueue ? srqs.keySet() : cqs.keySet())
                            .stream().mapToLong(Long::longValue).max().orElse(0);
        }
        raise(kind, object);
    }

    /** The struct that a step had, byte for byte. */
    public static byte[] bytes(StateChange change) {
        return change.attributes().toArray(ValueLayout.JAVA_BYTE);
    }

    /** The mask that a step had. */
    public static int mask(StateChange change) {
        return change.mask();
    }

    /** As if what could not be destroyed had never been there. */
    public synchronized void forgetRefused() {
        refusedToDestroy.forEach(Runnable::run);
        refusedToDestroy.clear();
    }

    /** Unplugs it. */
    public void unplug() {
        gone = true;
        Descriptors.setReadable(async);
    }

    /** Makes all channels readable, as the kernel does when a device is removed. */
    public synchronized void raiseChannels() {
        channels.values().forEach(channel -> Descriptors.setReadable(channel.descriptor));
    }

    /** Raises an asynchronous event of an object, or of a port. */
    public void raise(AsyncEvent.Kind kind, long object) {
        raise(kind, kind.number(), object);
    }

    /** Raises an asynchronous event with a number of its own, as of an unknown kind. */
    public void raise(AsyncEvent.Kind kind, int number, long object) {
        asyncEvents.add(new AsyncEvent(kind, number, object, null));
        Descriptors.setReadable(async);
    }

    // ---- control calls

    private long made() {
        if (controlError != 0) {
            int error = controlError;
            controlError = 0;
            return -error;
        }
        nextAddress += 0x100;
        return nextAddress;
    }

    private long other(String what) {
        long address = made();
        if (address > 0) {
            others.put(address, what);
        }
        return address;
    }

    /** What a destroy answers that fails, or 0. */
    private int refusal(String verb) {
        destroys.add(verb);
        return -destroyErrors.getOrDefault(verb, gone ? Errno.EIO : 0);
    }

    private int destroy(String verb, Map<Long, ?> objects, long address) {
        int refusal = refusal(verb);
        if (refusal != 0) {
            refusedToDestroy.add(() -> objects.remove(address));
        }
        return refusal != 0 ? refusal : objects.remove(address) == null ? -Errno.EINVAL : 0;
    }

    @Override
    public int close() {
        destroys.add("ibv_close_device"); // frees what user space has, also without a device
        return 0;
    }

    /** Frees its memory; no object may be left. */
    public void dispose() {
        Descriptors.close(async);
        arena.close();
    }

    @Override
    public DeviceAttributes queryDevice() {
        try (Arena call = Arena.ofConfined()) {
            MemorySegment a = ibv_device_attr.allocate(call);
            ibv_device_attr.fw_ver(a).setString(0, "1.0");
            ibv_device_attr.node_guid(a, Long.reverseBytes(NODE_GUID));
            ibv_device_attr.phys_port_cnt(a, (byte) 1);
            ibv_device_attr.vendor_id(a, vendorId);
            ibv_device_attr.vendor_part_id(a, vendorPartId);
            ibv_device_attr.hw_ver(a, 3);
            ibv_device_attr.max_qp(a, 100);
            ibv_device_attr.max_cq(a, 101);
            ibv_device_attr.max_mr(a, 102);
            ibv_device_attr.max_pd(a, 103);
            ibv_device_attr.max_mw(a, windows ? 104 : 0);
            ibv_device_attr.max_srq(a, sharedQueues ? 105 : 0);
            ibv_device_attr.max_qp_wr(a, maxDepth);
            ibv_device_attr.max_sge(a, maxSge);
            ibv_device_attr.max_sge_rd(a, maxSge / 2);
            ibv_device_attr.max_cqe(a, 4 * maxDepth);
            ibv_device_attr.max_srq_wr(a, sharedQueues ? maxDepth : 0);
            ibv_device_attr.max_srq_sge(a, maxSge / 2);
            ibv_device_attr.max_mr_size(a, -1); // as rxe says that there is no limit
            ibv_device_attr.max_qp_rd_atom(a, 8);
            ibv_device_attr.max_qp_init_rd_atom(a, 4);
            ibv_device_attr.device_cap_flags(
                    a,
                    (invalidates ? Verbs.IBV_DEVICE_MEM_MGT_EXTENSIONS : 0)
                            | (windows ? Verbs.IBV_DEVICE_MEM_WINDOW_TYPE_2B : 0));
            ibv_device_attr.atomic_cap(
                    a,
                    !atomics
                            ? Verbs.IBV_ATOMIC_NONE
                            : globalAtomics ? Verbs.IBV_ATOMIC_GLOB : Verbs.IBV_ATOMIC_HCA);
            return new DeviceAttributes(
                    gone ? -Errno.EIO : 0,
                    a.address(),
                    iwarp ? Verbs.IBV_TRANSPORT_IWARP : transport);
        }
    }

    @Override
    public PortAttributes queryPort(int port) {
        return new PortAttributes(
                -portError,
                portUp ? 4 : 1,
                3,
                gids.size(),
                1 << 23,
                0,
                ethernet ? 2 : 1,
                speed,
                width);
    }

    @Override
    public long queryGids(int atMost, List<GidTableEntry> gids) {
        gidQueries++;
        gids.addAll(this.gids);
        return 0;
    }

    @Override
    public synchronized long allocatePd() {
        return other("pd");
    }

    @Override
    public synchronized int deallocatePd(long pd) {
        return destroy("ibv_dealloc_pd", others, pd);
    }

    @Override
    public synchronized long registerMemory(long pd, MemorySegment memory, int access) {
        registeredFor.add(access);
        if (pagesAreReadOnly && (access & ~Rights.REMOTE_READ) != 0) {
            return -Errno.EFAULT; // the kernel pins them as writable
        }
        if (optionalRightsError != 0 && (access & Rights.OPTIONAL) != 0) {
            return -optionalRightsError;
        }
        long address = other("mr");
        if (address > 0 && (access & Rights.REMOTE_WRITE) != 0) {
            open.put(address, new Open(memory.address(), memory.byteSize()));
            openRegions.add(address);
        }
        return address;
    }

    /**
     * The peer writes a byte somewhere into a region that is registered for that, even one that the
     * process believes to be free; a device does not ask the process.
     *
     * @return whether there is any such region
     */
    public synchronized boolean peerWrites(RandomGenerator random, byte value) {
        if (openRegions.isEmpty()) {
            return false;
        }
        Open region = open.get(openRegions.get(random.nextInt(openRegions.size())));
        Native.EVERYWHERE.set(JAVA_BYTE, region.start + random.nextLong(region.bytes), value);
        return true;
    }

    @Override
    public synchronized long registerDmaBuf(
            long pd, int descriptor, long offset, long length, long iova, int access) {
        registeredFor.add(access);
        if (dmaBufError != 0) {
            return -dmaBufError;
        }
        dmaBufs.add(List.of((long) descriptor, offset, length, iova));
        return other("mr");
    }

    @Override
    public ExtendedAttributes extended() {
        return new ExtendedAttributes(paging, moderationCount, moderationCount);
    }

    @Override
    public synchronized int moderateCq(long cq, int count, int microseconds) {
        if (moderationCount == 0) {
            return -Errno.EOPNOTSUPP;
        }
        moderations.add("%d after %d us".formatted(count, microseconds));
        return count > moderationCount ? -Errno.EINVAL : 0;
    }

    @Override
    public synchronized int prefetch(long pd, int advice, long address, int length, int localKey) {
        prefetches.add(
                List.of((long) advice, address, Integer.toUnsignedLong(length), (long) localKey));
        return -prefetchError;
    }

    @Override
    public int localKey(long mr) {
        if (keysCannotBeRead) {
            throw new IllegalStateException("no key");
        }
        return (int) mr | 1;
    }

    @Override
    public int remoteKey(long mr) {
        return (int) mr | 0x8000_0000;
    }

    @Override
    public synchronized int deregisterMemory(long mr) {
        if (open.remove(mr) != null) {
            openRegions.remove(mr);
        }
        return destroy("ibv_dereg_mr", others, mr);
    }

    @Override
    public synchronized long allocateWindow(long pd) {
        long address = windows ? made() : -Errno.EOPNOTSUPP;
        if (address > 0) {
            Mw mw = new Mw();
            mw.key = (int) (address << 8 | 0x80000000L);
            mws.put(address, mw);
        }
        return address;
    }

    @Override
    public synchronized int windowKey(long mw) {
        return mws.get(mw).key;
    }

    @Override
    public synchronized void setWindowKey(long mw, int key) {
        if (!mws.containsKey(mw)) {
            panics.add("wrote into a freed window");
        }
    }

    @Override
    public synchronized int freeWindow(long mw) {
        return destroy("ibv_dealloc_mw", mws, mw);
    }

    @Override
    public synchronized long createChannel() {
        long address = made();
        if (address > 0) {
            channels.put(address, new Channel());
        }
        return address;
    }

    @Override
    public synchronized int channelDescriptor(long channel) {
        return channels.get(channel).descriptor;
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
        eventsAskedFor = eventsAskedFor + 1;
        Cq of = channels.get(channel).take();
        boolean taken = of != null;
        if (taken) {
            wait.context(of.context);
        }
        Error error = taken ? takingCompletionEvent.getAndSet(null) : null;
        if (error != null) {
            throw error;
        }
        return taken;
    }

    @Override
    public synchronized int destroyChannel(long channel) {
        destroys.add("ibv_destroy_comp_channel"); // of which the kernel is not asked
        int refusal = -destroyErrors.getOrDefault("ibv_destroy_comp_channel", 0);
        if (refusal == 0
                && cqs.values().stream().anyMatch(q -> q.channel == channels.get(channel))) {
            return -Errno.EBUSY;
        }
        if (refusal == 0) {
            Descriptors.close(channels.remove(channel).descriptor);
        }
        return refusal;
    }

    @Override
    public int completionVectors() {
        return completionVectors;
    }

    @Override
    public synchronized long createCq(int depth, long channel, int vector, long context) {
        long address = depth > 4 * maxDepth ? -Errno.EINVAL : made();
        if (address > 0) {
            Cq cq = new Cq();
            cq.depth = depth;
            cq.vector = vector;
            cq.context = context;
            cq.channel = channels.get(channel);
            if (cq.channel != null) { // not of a probe
                vectors.add(vector);
            }
            cqs.put(address, cq);
        }
        return address;
    }

    @Override
    public synchronized int resizeCq(long cq, int depth) {
        if (resizeError != 0) {
            return -resizeError;
        }
        cqs.get(cq).depth = depth;
        return 0;
    }

    @Override
    public synchronized int destroyCq(long cq) {
        Cq removed = cqs.get(cq);
        if (!gone
                && qps.values().stream()
                        .anyMatch(q -> q.sendCq == removed || q.receiveCq == removed)) {
            return -Errno.EBUSY;
        }
        if (removed.channel != null) {
            removed.channel.forget(removed); // as the kernel does
        }
        return destroy("ibv_destroy_cq", cqs, cq);
    }

    @Override
    public synchronized long createSrq(long pd, int depth, int sge) {
        long address = sharedQueues ? made() : -Errno.ENOSYS;
        if (address > 0) {
            srqs.put(address, new ArrayDeque<>());
        }
        return address;
    }

    @Override
    public synchronized int limitSrq(long srq, int limit) {
        srqLimits.add(limit);
        return 0;
    }

    @Override
    public synchronized int destroySrq(long srq) {
        return !gone && qps.values().stream().anyMatch(q -> q.srq == srq)
                ? -Errno.EBUSY
                : destroy("ibv_destroy_srq", srqs, srq);
    }

    @Override
    public synchronized long createQp(
            long pd, long sendCq, long receiveCq, long srq, QueuePairShape shape) {
        boolean fits =
                shape.sendDepth() <= maxDepth
                        && shape.receiveDepth() <= maxDepth
                        && shape.sendSge() <= maxSge
                        && shape.receiveSge() <= maxSge
                        && shape.inlineBytes() <= maxInline
                        && (long) shape.sendDepth() * shape.sendSge() <= maxProduct;
        long address = fits ? made() : -Errno.EINVAL;
        if (address > 0) {
            Qp qp = new Qp();
            qp.address = address;
            qp.number = nextNumber++;
            qp.shape = shape;
            qp.sendCq = cqs.get(sendCq);
            qp.receiveCq = cqs.get(receiveCq);
            qp.srq = srq;
            qps.put(address, qp);
            byNumber.put(qp.number, qp);
        }
        return address;
    }

    @Override
    public synchronized int queuePairNumber(long qp) {
        if (numbersCannotBeRead) {
            throw new IllegalStateException("no number");
        }
        return qps.get(qp).number;
    }

    @Override
    public synchronized int toInit(long qp, int port, int access) {
        if (initError != 0) {
            return -initError;
        }
        qps.get(qp).state = "INIT";
        return 0;
    }

    @Override
    public synchronized int change(long qp, StateChange change) {
        changes.add(change);
        if (reachError != 0 && change.state() == StateChange.READY_TO_RECEIVE) {
            return -reachError;
        }
        int peer = ibv_qp_attr.dest_qp_num(change.attributes());
        if (peer != 0) {
            qps.get(qp).peer = peer;
        }
        if (changeError != 0 && (changeErrorAt == 0 || changeErrorAt == change.state())) {
            int error = changeError;
            changeError = 0;
            return -error;
        }
        lastRnrUnlimited = change.rnrRetries() == 7;
        qps.get(qp).state =
                switch (change.state()) {
                    case StateChange.INITIALIZED -> "INIT";
                    case StateChange.READY_TO_RECEIVE -> "RTR";
                    default -> "RTS";
                };
        return 0;
    }

    @Override
    public synchronized int toError(long qp) {
        errorsAskedFor++;
        if (gone) {
            return -Errno.EIO;
        }
        toErrorState(qps.get(qp));
        return 0;
    }

    @Override
    public boolean inError(long qp, StateQuery query) {
        statesAskedFor = statesAskedFor + 1;
        return inError(qp);
    }

    public synchronized boolean inError(long qp) {
        return qps.get(qp).state.equals("ERR");
    }

    /**
     * The peer's mistake moves a queue pair to the error state; no completion reports it if nothing
     * is outstanding.
     */
    public synchronized void failQueuePair(int number) {
        toErrorState(byNumber.get(number));
    }

    @Override
    public synchronized int destroyQp(long qp) {
        int refusal = refusal("ibv_destroy_qp");
        if (refusal != 0) {
            return refusal;
        }
        Qp removed = qps.remove(qp);
        if (mws.values().stream().anyMatch(mw -> mw.boundOn == removed)) {
            panics.add("a queue pair was destroyed with a window bound on it");
        }
        byNumber.remove(removed.number);
        if (vendorId == MELLANOX) { // __mlx5_cq_clean
            removed.sendCq.entries.removeIf(wc -> isOf(removed, wc));
            removed.receiveCq.entries.removeIf(wc -> isOf(removed, wc));
        }
        int error = destroyError;
        destroyError = 0;
        return -error;
    }

    private static boolean isOf(Qp qp, byte[] wc) {
        return MemorySegment.ofArray(wc).get(JAVA_INT_UNALIGNED, ibv_wc.qp_num$offset())
                == qp.number;
    }

    @Override
    public int asyncDescriptor() {
        return async;
    }

    @Override
    public AsyncEvent takeAsyncEvent(LongFunction<Object> objects) {
        Error error = taking.getAndSet(null);
        if (error != null) {
            throw error;
        }
        AsyncEvent event = asyncEvents.poll();
        if (event != null && event.element() > LAST_PORT) {
            event =
                    new AsyncEvent(
                            event.kind(),
                            event.number(),
                            event.element(),
                            objects.apply(event.element()));
        }
        if (gone) {
            askedForAsyncEventsInVain += event == null ? 1 : 0;
            return event != null
                    ? event
                    : new AsyncEvent(
                            hidesTheEnd
                                    ? AsyncEvent.Kind.NONE
                                    : AsyncEvent.Kind.DEVICE_DISASSOCIATED);
        }
        if (asyncEvents.isEmpty()) {
            Descriptors.drain(async);
        }
        return event == null ? new AsyncEvent(AsyncEvent.Kind.NONE) : event;
    }
}
