package dev.verbena.internal.verbs;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static java.lang.foreign.ValueLayout.JAVA_LONG_UNALIGNED;

import dev.verbena.bindings.ibv_send_wr;
import dev.verbena.internal.verbs.FakeQueuePairs.QueuePair;
import dev.verbena.internal.verbs.FakeQueuePairs.State;
import dev.verbena.internal.verbs.FakeQueuePairs.WorkQueue;

import java.lang.foreign.MemorySegment;
import java.util.Deque;
import java.util.List;

/**
 * Takes the requests that are posted to a {@link FakeDevice}, and carries them out when somebody
 * polls. A slot of a queue is free again when a completion at or behind it was polled. The caller
 * holds the device's monitor.
 */
final class FakeExecution {
    private static final int SUCCESS = 0;
    private static final int LENGTH_ERROR = 1;
    private static final int PROTECTION_ERROR = 4;
    private static final int INVALID_REQUEST = 9;
    private static final int ACCESS_ERROR = 10;
    private static final int OPERATION_ERROR = 11;
    private static final int RETRIES_EXCEEDED = 12;
    private static final int RNR = 13;

    // IBV_WC_RECV and the like
    private static final int RECEIVED = 128;
    private static final int RECEIVED_WITH_IMMEDIATE_WRITE = 129;
    private static final int HAS_IMMEDIATE = 2;
    private static final int HAS_INVALIDATED = 8;
    private static final int HAS_INVALIDATED_RXE = 4; // where rxe has its flag

    private static final int LATE = 1000; // polls in a row that find nothing

    private final FakeSettings settings;
    private final FakeQueuePairs queuePairs;
    private final FakeCompletionQueues completions;
    private final FakeMemory memory;

    private int idlePolls;

    FakeExecution(
            FakeSettings settings,
            FakeQueuePairs queuePairs,
            FakeCompletionQueues completions,
            FakeMemory memory) {
        this.settings = settings;
        this.queuePairs = queuePairs;
        this.completions = completions;
        this.memory = memory;
    }

    // ---- posts

    int postSend(long qp, long first, long bad) {
        QueuePair pair = queuePairs.find(qp);
        boolean tooEarly = pair.state.compareTo(State.RTS) < 0; // rxe refuses sends then
        if (tooEarly || settings.refusesInError && pair.state == State.ERR) {
            if (tooEarly || settings.refused >= 0) {
                setBad(bad, first);
            }
            return Errno.EINVAL;
        }
        int index = 0;
        int refuse = settings.answer;
        settings.answer = 0;
        for (long at = first; at != 0; index++) {
            PostedRequest posted = PostedRequest.send(qp, at);
            int refusal = pair.sends.refusal(posted);
            boolean chosen =
                    index == Math.max(settings.refused, 0)
                            || settings.refusesLast && posted.next() == 0;
            boolean refuseThis = refuse != 0 && chosen && !settings.keepsRefused;
            if (refusal != 0 || refuseThis) {
                if (refusal != 0 || settings.refused >= 0) {
                    setBad(bad, at);
                }
                settings.chains.add(index);
                return refusal != 0 ? refusal : settings.answersZero ? 0 : refuse;
            }
            settings.sends.add(posted);
            if (posted.opcode() == SendChain.BIND) {
                memory.posted(posted);
            }
            pair.sends.add(posted.id(), posted);
            at = posted.next();
        }
        settings.chains.add(index);
        return refuse;
    }

    int postReceive(long queue, long request, long bad, boolean shared) {
        int refuse = settings.answer;
        settings.answer = 0;
        if (refuse != 0 && !settings.keepsRefused) {
            if (settings.refused >= 0) {
                setBad(bad, request);
            }
            return refuse;
        }
        WorkQueue to = shared ? queuePairs.shared(queue) : queuePairs.find(queue).receives;
        for (long at = request; at != 0; ) {
            PostedRequest posted = PostedRequest.receive(queue, at);
            int refusal = to.refusal(posted);
            if (refusal != 0) {
                setBad(bad, at);
                return refusal;
            }
            settings.receives.add(posted);
            to.add(posted.receiveId(), posted);
            at = posted.nextReceive();
        }
        return refuse;
    }

    private static void setBad(long bad, long request) {
        Native.at(bad, Long.BYTES).set(JAVA_LONG, 0, request);
    }

    // ---- polls

    int poll(long cq, int atMost, long wcs) {
        if (settings.pollAnswer != 0) {
            return settings.pollAnswer;
        }
        run();
        if (!settings.gone) {
            queuePairs.polled();
        }
        int count = completions.poll(cq, atMost, wcs, queuePairs::free);
        idlePolls = count > 0 ? 0 : idlePolls + 1;
        if (idlePolls > LATE) {
            queuePairs.all().forEach(queuePairs::acknowledge);
            if (settings.running && !settings.gone) {
                queuePairs.all().stream().filter(this::isUnanswered).forEach(this::runOne);
            }
        }
        return count;
    }

    // ---- requests

    /** Carries out what was posted. */
    void run() {
        if (settings.forgetful) {
            queuePairs.all().forEach(FakeQueuePairs::forget);
        }
        boolean any = settings.running && !settings.gone;
        while (any) {
            any = false;
            for (QueuePair pair : queuePairs.all()) {
                if (canRun(pair)) {
                    any = true;
                    carryOut(pair, pair.sends.posted.remove());
                }
            }
        }
        for (QueuePair pair : queuePairs.all()) {
            if (pair.state == State.ERR && pair.pollsToFlush == 0 && !settings.gone) {
                queuePairs.flushSends(pair);
                if (settings.vendorId != FakeSettings.RXE) { // which never looks at late receives
                    queuePairs.flushReceives(pair);
                }
            }
        }
    }

    /** Carries out one request of a queue pair that has any. */
    void runOne() {
        queuePairs.all().stream().filter(this::canRun).findFirst().ifPresent(this::runOne);
    }

    /** Carries out the oldest request of a queue pair. */
    void runOne(QueuePair pair) {
        carryOut(pair, pair.sends.posted.remove());
    }

    /** The requests of a queue pair, oldest first; none while it can carry out none. */
    List<PostedRequest> runnable(QueuePair pair) {
        return pair != null && canRun(pair) ? List.copyOf(pair.sends.posted) : List.of();
    }

    private boolean canRun(QueuePair pair) {
        return pair.state == State.RTS
                && !pair.sends.posted.isEmpty()
                && !isUnanswered(pair)
                && !waitsForReceive(pair);
    }

    /** The device tries again without limit where a peer that shares its receives has none. */
    private boolean waitsForReceive(QueuePair pair) {
        QueuePair peer = queuePairs.byNumber(pair.peer);
        return peer != null
                && peer.srq != 0
                && queuePairs.receivesOf(peer).posted.isEmpty()
                && switch (pair.sends.posted.element().opcode()) {
                    case SendChain.SEND,
                            SendChain.SEND_WITH_IMMEDIATE,
                            SendChain.SEND_WITH_INVALIDATE,
                            SendChain.WRITE_WITH_IMMEDIATE ->
                            true;
                    default -> false;
                };
    }

    /** Whether the next request is to be sent again and again, until the device gives up. */
    private boolean isUnanswered(QueuePair pair) {
        return pair.state == State.RTS
                && !pair.sends.posted.isEmpty()
                && isUnanswered(pair, pair.sends.posted.element());
    }

    private boolean isUnanswered(QueuePair pair, PostedRequest send) {
        return switch (send.opcode()) {
            case SendChain.BIND, SendChain.INVALIDATE -> false;
            default -> !queuePairs.answers(pair.peer);
        };
    }

    private void carryOut(QueuePair pair, PostedRequest send) {
        int status =
                settings.failAt >= 0 && settings.failAt-- == 0
                        ? settings.failStatus
                        : carryOutOne(pair, send);
        if (status == SUCCESS && settings.acknowledgedLate.test(send)) {
            if (send.signaled()) {
                pair.unacknowledged.add(send.id());
            }
            return;
        }
        queuePairs.acknowledge(pair);
        if (send.signaled() || status != SUCCESS) {
            queuePairs.end(pair.sendCq, send.id(), status, pair);
        }
        if (status != SUCCESS) {
            queuePairs.fail(pair);
        }
    }

    private int carryOutOne(QueuePair pair, PostedRequest send) {
        if (isUnanswered(pair, send)) {
            return RETRIES_EXCEEDED;
        }
        if (settings.carriesBytes
                && !send.isInline()
                && !memory.admits(send, bringsBytes(send) ? Rights.LOCAL_WRITE : 0)) {
            return PROTECTION_ERROR;
        }
        return switch (send.opcode()) {
            case SendChain.BIND -> memory.bind(send, pair.address);
            case SendChain.INVALIDATE ->
                    memory.invalidate(
                            send.intAt(ibv_send_wr.invalidate_rkey$offset()), pair.address);
            case SendChain.SEND,
                    SendChain.SEND_WITH_IMMEDIATE,
                    SendChain.SEND_WITH_INVALIDATE,
                    SendChain.WRITE_WITH_IMMEDIATE ->
                    deliver(pair, send);
            case SendChain.WRITE, SendChain.READ ->
                    settings.carriesBytes ? access(pair, send) : SUCCESS;
            case SendChain.COMPARE_AND_SWAP, SendChain.FETCH_AND_ADD ->
                    settings.carriesBytes ? atomic(pair, send) : SUCCESS;
            default -> SUCCESS;
        };
    }

    /** Whether it writes into its own buffers. */
    private static boolean bringsBytes(PostedRequest send) {
        return switch (send.opcode()) {
            case SendChain.READ, SendChain.COMPARE_AND_SWAP, SendChain.FETCH_AND_ADD -> true;
            default -> false;
        };
    }

    /** A message: takes a receive of the peer. */
    private int deliver(QueuePair pair, PostedRequest send) {
        QueuePair peer = queuePairs.byNumber(pair.peer);
        if (peer == null) {
            return SUCCESS; // nobody looks
        }
        Deque<PostedRequest> queue = queuePairs.receivesOf(peer).posted;
        if (queue.isEmpty()) {
            return RNR;
        }
        boolean writes = send.opcode() == SendChain.WRITE_WITH_IMMEDIATE;
        if (settings.carriesBytes && writes) {
            int status = access(pair, send);
            if (status != SUCCESS) {
                return status;
            }
        }
        PostedRequest receive = queue.remove();
        if (peer.srq != 0 && settings.messagesHang) {
            peer.taken.add(receive);
            return SUCCESS;
        }
        if (settings.carriesBytes && !memory.admits(receive, Rights.LOCAL_WRITE)) {
            return refuse(peer, receive, PROTECTION_ERROR, OPERATION_ERROR);
        }
        if (settings.carriesBytes && !writes && !carry(send, receive)) {
            return refuse(peer, receive, LENGTH_ERROR, INVALID_REQUEST);
        }
        int extra = send.intAt(ibv_send_wr.imm_data$offset());
        int flags = 0;
        int opcode = RECEIVED;
        if (send.opcode() == SendChain.SEND_WITH_INVALIDATE) {
            flags = settings.vendorId == FakeSettings.RXE ? HAS_INVALIDATED_RXE : HAS_INVALIDATED;
            if (!memory.invalidateFor(extra, peer.address)) {
                peer.receives.posted.addFirst(receive);
                queuePairs.fail(peer);
                return ACCESS_ERROR;
            }
        } else if (send.opcode() != SendChain.SEND) {
            flags = HAS_IMMEDIATE;
            opcode =
                    send.opcode() == SendChain.SEND_WITH_IMMEDIATE
                            ? RECEIVED
                            : RECEIVED_WITH_IMMEDIATE_WRITE;
        }
        completions.add(
                peer.receiveCq,
                new FakeCompletionQueues.Entry(
                        receive.receiveId(),
                        SUCCESS,
                        opcode,
                        send.length(),
                        flags,
                        extra,
                        peer.number),
                (send.flags() & SendChain.SOLICITED) != 0);
        return SUCCESS;
    }

    /** Ends a receive that cannot take a message; the status of the send. */
    private int refuse(QueuePair peer, PostedRequest receive, int status, int sendStatus) {
        queuePairs.end(peer.receiveCq, receive.receiveId(), status, peer);
        queuePairs.fail(peer);
        return sendStatus;
    }

    /** Copies a message into the receive's buffers; false if it is longer than they are. */
    private static boolean carry(PostedRequest send, PostedRequest receive) {
        byte[] message = send.message();
        int copied = 0;
        for (MemorySegment buffer : receive.buffers()) {
            int count = (int) Math.min(buffer.byteSize(), message.length - copied);
            MemorySegment.copy(message, copied, buffer, JAVA_BYTE, 0, count);
            copied += count;
        }
        return copied == message.length;
    }

    /** Changes a word of the peer's memory, if its region or window admits the key. */
    private int atomic(QueuePair pair, PostedRequest send) {
        QueuePair peer = queuePairs.byNumber(pair.peer);
        if (peer == null) {
            return RETRIES_EXCEEDED; // it would bring nothing
        }
        long wr = ibv_send_wr.wr$offset() + ibv_send_wr.wr.atomic$offset();
        int key = send.intAt(wr + ibv_send_wr.wr.atomic.rkey$offset());
        long compareAdd = send.longAt(wr + ibv_send_wr.wr.atomic.compare_add$offset());
        long swap = send.longAt(wr + ibv_send_wr.wr.atomic.swap$offset());
        long address = send.remoteAddress();
        if ((address & Long.BYTES - 1) != 0 || send.length() != Long.BYTES) {
            queuePairs.fail(peer);
            return INVALID_REQUEST;
        }
        int refusal = refusal(peer, key, address, Long.BYTES, Rights.REMOTE_ATOMIC);
        if (refusal != SUCCESS) {
            return refusal;
        }
        MemorySegment there = Native.at(address, Long.BYTES);
        long before = there.get(JAVA_LONG, 0);
        if (send.opcode() == SendChain.FETCH_AND_ADD) {
            there.set(JAVA_LONG, 0, before + compareAdd);
        } else if (before == compareAdd) {
            there.set(JAVA_LONG, 0, swap);
        }
        send.buffers().getFirst().set(JAVA_LONG_UNALIGNED, 0, before);
        return SUCCESS;
    }

    /** Copies bytes from or to memory of the peer, if its region or window admits the key. */
    private int access(QueuePair pair, PostedRequest send) {
        QueuePair peer = queuePairs.byNumber(pair.peer);
        if (peer == null) {
            // Nobody looks at what is written; but a read would bring nothing.
            return send.opcode() == SendChain.READ ? RETRIES_EXCEEDED : SUCCESS;
        }
        long rdma = ibv_send_wr.wr$offset() + ibv_send_wr.wr.rdma$offset();
        int key = send.intAt(rdma + ibv_send_wr.wr.rdma.rkey$offset());
        long address = send.remoteAddress();
        if (send.length() == 0) {
            return SUCCESS; // neither address nor key is looked at
        }
        boolean reads = send.opcode() == SendChain.READ;
        int right = reads ? Rights.REMOTE_READ : Rights.REMOTE_WRITE;
        int refusal = refusal(peer, key, address, send.length(), right);
        if (refusal != SUCCESS) {
            return refusal;
        }
        if (!reads) {
            Native.at(address, send.length()).copyFrom(MemorySegment.ofArray(send.message()));
            return SUCCESS;
        }
        for (MemorySegment buffer : send.buffers()) {
            buffer.copyFrom(Native.at(address, buffer.byteSize()));
            address += buffer.byteSize();
        }
        return SUCCESS;
    }

    /** What the peer's device answers to an access, for which its queue pair fails, or SUCCESS. */
    private int refusal(QueuePair peer, int key, long address, long bytes, int right) {
        int status =
                (peer.rights & right) == 0
                        ? INVALID_REQUEST
                        : memory.admits(key, peer.address, address, bytes, right)
                                ? SUCCESS
                                : ACCESS_ERROR;
        if (status != SUCCESS) {
            queuePairs.fail(peer);
        }
        return status;
    }
}
