package dev.verbena.examples.nvme;

import dev.verbena.Access;
import dev.verbena.BufferList;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;
import dev.verbena.messaging.MessagingException;
import dev.verbena.messaging.RawCallback;
import dev.verbena.messaging.RawConnection;
import dev.verbena.messaging.RawHandler;
import dev.verbena.messaging.RawMessage;
import dev.verbena.messaging.RawReceives;

import java.util.ArrayDeque;
import java.util.Deque;

/**
 * One queue of a host: a connection whose messages are commands, and which sends their answers.
 * Belongs to the polling thread.
 *
 * <p>A host has at most as many commands outstanding as it said when it connected. For each there
 * is a receive, which is posted again before the command is answered, and an {@link RdmaExchange},
 * which is free again when a completion says that the answer has arrived. As each completion may
 * wake the polling thread, only every 16th answer asks for one; it frees the exchanges of the 15
 * answers before it as well, because requests end in order. So there are 15 more exchanges than
 * commands.
 */
final class TargetQueue implements RawHandler, FabricsCommands.Connection {
    private static final int REQUESTS_FOR_COMMAND = 2; // data and answer
    private static final int READS = 16; // of the host's memory, at a time
    private static final int COMPLETION_EVERY = 16; // answers
    private static final RawCallback ANSWER_ARRIVED =
            (channel, exchange, status) -> {
                RdmaExchange last = (RdmaExchange) exchange;
                if (status.isSuccess()) {
                    last.queue().answersArrived(last);
                }
            };

    private final NvmeTarget target;
    private final QueueRequest request;
    private final MemoryRegion scratch;
    private final RawConnection channel;
    private final OpFlags answerWithCompletion;
    private final OpFlags silentAnswer;
    private final Deque<RdmaExchange> free = new ArrayDeque<>();
    private final Deque<RdmaExchange> answered = new ArrayDeque<>(); // oldest first
    private final Deque<RawMessage> waiting = new ArrayDeque<>();
    private Controller controller;
    private boolean accepted;
    private int size; // how many commands are outstanding at most, as Connect says
    private int head; // how many commands have come, modulo that
    private final long madeAt = System.nanoTime();

    /** Makes the queue pair, posts its receives, and makes the exchanges. */
    TargetQueue(NvmeTarget target, QueueRequest request, RawReceives shared) {
        this.target = target;
        this.request = request;
        this.size = request.size();
        int exchanges = request.size() + COMPLETION_EVERY - 1;
        boolean inline = target.poller().adapter().info().maxInlineBytes() >= Response.BYTES;
        this.answerWithCompletion = inline ? OpFlags.INLINE : OpFlags.NONE;
        this.silentAnswer = answerWithCompletion.and(OpFlags.SILENT_SUCCESS);
        this.scratch =
                target.poller()
                        .domain()
                        .allocate(
                                (long) exchanges * RdmaExchange.BYTES,
                                Access.LOCAL_WRITE,
                                Access.RDMA_READ_SINK);
        for (int i = 0; i < exchanges; i++) {
            free.add(new RdmaExchange(this, scratch, i));
        }
        QueuePairLimits limits =
                QueuePairLimits.depths(exchanges * REQUESTS_FOR_COMMAND, request.size())
                        .withInlineBytes(inline ? Response.BYTES : 0)
                        .withReads(0, READS);
        try {
            this.channel =
                    shared == null || request.id() == 0
                            ? RawConnection.create(
                                    target.poller(), limits, capsuleBytes(), null, this)
                            : RawConnection.create(target.poller(), limits, shared, null, this);
        } catch (Throwable t) {
            scratch.close();
            throw t;
        }
    }

    private int capsuleBytes() {
        return Command.BYTES + (request.id() == 0 ? 0 : limits().inCapsuleBytes());
    }

    // ---- what exchanges call

    RawConnection channel() {
        return channel;
    }

    Limits limits() {
        return target.limits();
    }

    KeyReturn keyReturn() {
        return target.keyReturn();
    }

    int number() {
        return request.id();
    }

    int head() {
        return head;
    }

    /** Ends the connection if a request was refused, unless it has ended before. */
    void check(Status status, String what) {
        if (!status.isSuccess() && channel.closeReason() == null) {
            channel.abort("%s was refused with %s".formatted(what, status));
        }
    }

    void counted(boolean keyed, boolean invalidates, boolean failed) {
        target.counted(keyed, invalidates, failed);
    }

    /** Sends an answer, which invalidates a key of the host's or {@link KeyReturn#NONE}. */
    void answer(RdmaExchange exchange, BufferList answer, long key) {
        answered.add(exchange);
        // Each completion takes as many out, so this counts the answers since the last one with
        // one.
        boolean silent = answered.size() % COMPLETION_EVERY != 0;
        OpFlags flags = silent ? silentAnswer : answerWithCompletion;
        RawCallback callback = silent ? null : ANSWER_ARRIVED;
        Status posted =
                key == KeyReturn.NONE
                        ? channel.send(answer, flags, callback, exchange).status()
                        : channel.sendAndInvalidate(answer, (int) key, flags, callback, exchange)
                                .status();
        check(posted, "an answer");
    }

    /** The host's device has this exchange's answer, and so all answers before it. */
    private void answersArrived(RdmaExchange last) {
        RdmaExchange exchange;
        do {
            exchange = answered.remove();
            free.add(exchange);
        } while (exchange != last);
        beginWaiting();
    }

    void aside(RdmaExchange exchange, Runnable work) {
        target.aside(
                () -> {
                    if (channel.closeReason() == null) {
                        work.run();
                    }
                },
                thrown -> {
                    if (channel.closeReason() != null) {
                        return; // nobody waits for the answer
                    } else if (thrown == null) {
                        exchange.succeed(0);
                    } else {
                        broke(exchange, thrown);
                    }
                });
    }

    void later(RdmaExchange exchange, Runnable rest) {
        target.later(
                () -> {
                    if (channel.closeReason() != null) {
                        return; // the host may have connected again, and be writing there
                    }
                    try {
                        rest.run();
                    } catch (RuntimeException e) {
                        broke(exchange, e);
                    }
                });
    }

    // ---- commands

    /** The connection is established: answers can be sent. */
    void accepted() {
        accepted = true;
        beginWaiting();
    }

    @Override
    public void received(RawConnection from, RawMessage message) {
        if (waiting.size() > request.size()) { // possible where receives are shared
            Status ignored = message.repost().status();
            channel.abort("the host has sent more commands than it said");
            return;
        }
        waiting.add(message);
        beginWaiting();
    }

    private void beginWaiting() {
        while (accepted && !waiting.isEmpty() && !free.isEmpty()) {
            RawMessage message = waiting.remove();
            if (message.length() < Command.BYTES) {
                Status ignored = message.repost().status();
                channel.abort("a command of %d bytes".formatted(message.length()));
                return;
            }
            RdmaExchange exchange = free.remove();
            head = (head + 1) % size;
            exchange.begin(message);
            try {
                execute(exchange);
            } catch (RuntimeException e) {
                broke(exchange, e);
            }
        }
    }

    /** A command has made this program throw. The host gets a status, and other commands go on. */
    void broke(RdmaExchange exchange, Throwable thrown) {
        target.report("%s on queue %d".formatted(exchange.command(), number()), thrown);
        if (!exchange.isAnswered()) {
            exchange.fail(NvmeStatus.INTERNAL_ERROR);
        }
    }

    private void execute(RdmaExchange exchange) {
        long now = System.nanoTime();
        if (controller != null) {
            controller.alive(now);
        }
        if (!exchange.command().isPlain()) {
            exchange.fail(NvmeStatus.INVALID_FIELD);
        } else if (exchange.command().opcode() == Opcode.FABRICS) {
            target.fabrics().execute(this, exchange, now);
        } else if (controller == null || !controller.isEnabled()) {
            exchange.fail(NvmeStatus.COMMAND_SEQUENCE_ERROR);
        } else if (number() == 0) {
            target.admin().execute(controller, exchange);
        } else {
            controller.subsystem().io().execute(exchange);
        }
    }

    // ---- the connection

    @Override
    public QueueRequest request() {
        return request;
    }

    @Override
    public Controller controller() {
        return controller;
    }

    @Override
    public void belongTo(Controller by, int commands) {
        controller = by;
        size = commands;
        head %= commands;
        if (number() == 0) {
            target.say("New: " + by);
        }
    }

    /** Ends the connection if the host has not sent Connect for so long. */
    void endUnused(long now, long nanos) {
        if (controller == null && now - madeAt > nanos) {
            channel.abort("the host has sent no Connect");
        }
    }

    @Override
    public void abort(String why) {
        channel.abort(why);
    }

    @Override
    public void ended(RawConnection which, MessagingException reason) {
        for (RawMessage message : waiting) {
            Status ignored = message.repost().status(); // shared receives serve the others
        }
        waiting.clear();
        scratch.close();
        target.ended(this);
        if (controller != null) {
            if (number() == 0) {
                target.say("Gone: %s: %s".formatted(controller, reason.getMessage()));
            }
            controller.ended(number());
        }
    }
}
