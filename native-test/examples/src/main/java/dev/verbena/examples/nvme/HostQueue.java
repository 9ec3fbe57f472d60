package dev.verbena.examples.nvme;

import dev.verbena.Access;
import dev.verbena.BufferList;
import dev.verbena.ConnectionOptions;
import dev.verbena.MemoryRegion;
import dev.verbena.MemoryWindow;
import dev.verbena.OpFlags;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.messaging.MessagingException;
import dev.verbena.messaging.Poller;
import dev.verbena.messaging.RawConnection;
import dev.verbena.messaging.RawHandler;
import dev.verbena.messaging.RawMessage;

import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;

/**
 * One queue of the initiator: a connection that commands go out by, and their answers come back.
 *
 * <p>Each {@link Call} has memory for data, and a window. Before a command is sent, the window is
 * bound to as much of the memory as the command needs, with only the right that it needs; the
 * window's token (remote key) goes into the command. The target's answer invalidates the token:
 * from then on the target cannot reach the memory any more, and the window can be bound anew.
 *
 * <p>May be used by any thread.
 */
final class HostQueue implements RawHandler, AutoCloseable {
    private static final int REQUESTS_FOR_COMMAND = 3; // bind, send, and perhaps invalidate
    private static final Duration TIMEOUT = Duration.ofSeconds(30);
    private static final ConnectionOptions FOREIGN =
            ConnectionOptions.DEFAULTS.withoutAnnouncement();

    private final QueueRequest request;
    private final int dataBytes;
    private final MemoryRegion region; // of each call: its command, and its data
    private final RawConnection channel;
    private final Call[] calls;
    private final BlockingQueue<Call> free = new LinkedBlockingQueue<>();
    private final AtomicLong keyedCommands = new AtomicLong();

    /** Which way a command's data goes. */
    enum Direction {
        NONE,
        TO_TARGET,
        FROM_TARGET
    }

    /** One command at a time, with its memory. To be closed when its data is no longer needed. */
    final class Call implements AutoCloseable {
        private final int id;
        private final long dataOffset;
        private final MemorySegment data;
        private final Command command;
        private final BufferList capsule;
        private final MemoryWindow window;
        private volatile CompletableFuture<Long> answer = new CompletableFuture<>();

        private Call(int id, long offset) {
            this.id = id;
            this.dataOffset = offset + Command.BYTES;
            this.command = new Command(region.memory().asSlice(offset, Command.BYTES));
            this.capsule = new BufferList(1).add(region, offset, Command.BYTES);
            this.data = region.memory().asSlice(dataOffset, dataBytes);
            this.window = region.domain().createMemoryWindow();
        }

        /** Memory for the data of the command. */
        MemorySegment data() {
            return data;
        }

        /** Begins a command; the caller fills in its other fields. */
        Command begin(int opcode, int namespace) {
            return command.begin(opcode, id, namespace);
        }

        /** Sends the command, and waits for its answer. */
        long run(Direction direction, int length) throws IOException {
            CompletableFuture<Long> mine = new CompletableFuture<>();
            answer = mine;
            if (direction != Direction.NONE) {
                check(
                        channel.bind(
                                        window,
                                        region,
                                        dataOffset,
                                        length,
                                        right(direction)
                                                .and(OpFlags.DEFER), // goes out with the send
                                        null,
                                        null)
                                .status());
                keyedCommands.incrementAndGet();
                command.withData(window.remoteMemory().address(), length, window.remoteToken());
            }
            check(channel.send(capsule, OpFlags.NONE, null, null).status());
            try {
                return mine.get(TIMEOUT.toSeconds(), TimeUnit.SECONDS);
            } catch (ExecutionException e) {
                throw new IOException("%s: %s".formatted(command, e.getCause().getMessage()), e);
            } catch (TimeoutException e) {
                channel.abort("a command was not answered within " + TIMEOUT);
                throw new IOException("%s: no answer within %s".formatted(command, TIMEOUT), e);
            } catch (InterruptedException e) {
                channel.abort("a thread that waited was interrupted"); // its memory is in use
                Thread.currentThread().interrupt();
                throw new IOException("interrupted", e);
            }
        }

        private static OpFlags right(Direction direction) {
            return direction == Direction.TO_TARGET
                    ? OpFlags.ALLOW_REMOTE_READ
                    : OpFlags.ALLOW_REMOTE_WRITE;
        }

        private void check(Status status) throws IOException {
            if (!status.isSuccess()) {
                MessagingException why = channel.closeReason();
                throw new IOException("%s was refused with %s".formatted(command, status), why);
            }
        }

        /**
         * The answer has come; runs on the polling thread. A token that the target has not
         * invalidated is invalidated here, before the data is used.
         */
        private void answered(MemorySegment response) {
            if (window.bound()) {
                MemorySegment copy =
                        MemorySegment.ofArray(new byte[Response.BYTES]).copyFrom(response);
                Status status =
                        channel.invalidate(
                                        window,
                                        OpFlags.NONE,
                                        (of, call, ended) -> complete(copy),
                                        this)
                                .status();
                if (!status.isSuccess()) {
                    channel.abort("a window could not be invalidated: " + status);
                }
            } else {
                complete(response);
            }
        }

        private void complete(MemorySegment response) {
            int status = Response.status(response);
            if (status == 0) {
                answer.complete(Response.result(response));
            } else {
                answer.completeExceptionally(new IOException(NvmeStatus.describe(status)));
            }
        }

        /** Makes the call free for the next user. */
        @Override
        public void close() {
            free.add(this);
        }
    }

    /** Makes a queue and connects it. The caller then sends the command Connect. */
    HostQueue(Poller poller, InetSocketAddress target, int number, int size, int dataBytes)
            throws IOException {
        this.request = new QueueRequest(number, size, size);
        this.dataBytes = dataBytes;
        int stride = Command.BYTES + dataBytes;
        this.calls = new Call[size - 1]; // a full queue would look like an empty one
        this.region =
                poller.domain()
                        // No rights for the target: each command's window gives them.
                        .allocate((long) calls.length * stride, Access.LOCAL_WRITE);
        try {
            this.channel =
                    RawConnection.create(
                            poller,
                            QueuePairLimits.depths(size * REQUESTS_FOR_COMMAND, size),
                            Response.BYTES,
                            TIMEOUT,
                            this);
        } catch (Throwable t) {
            region.close();
            throw t;
        }
        try {
            for (int i = 0; i < calls.length; i++) {
                calls[i] = new Call(i, (long) i * stride);
                free.add(calls[i]);
            }
            connect(target);
        } catch (Throwable t) {
            channel.abort("it was not connected");
            throw t;
        }
    }

    private void connect(InetSocketAddress target) throws IOException {
        try {
            channel.connect(target, FOREIGN.withPrivateData(request.toBytes()));
        } catch (VerbenaException e) {
            String why =
                    e.status() == Status.CONNECTION_REFUSED
                            ? QueueRequest.Refusal.describe(
                                    channel.connectionData().orElseThrow().privateData())
                            : e.getMessage();
            throw new IOException("queue %d at %s: %s".formatted(request.id(), target, why), e);
        }
    }

    /** What is done with a call while nobody else has it. */
    interface Use<T> {
        T of(Call call) throws IOException;
    }

    /** Waits for a free call, and uses it. If the connection ends meanwhile, its memory is gone. */
    <T> T use(Use<T> use) throws IOException {
        try (Call call = call()) {
            return use.of(call);
        } catch (IllegalStateException e) {
            MessagingException why = channel.closeReason();
            if (why == null) {
                throw e;
            }
            IOException ended = ended(why);
            ended.addSuppressed(e);
            throw ended;
        }
    }

    private static IOException ended(MessagingException why) {
        return new IOException(why.getMessage(), why);
    }

    /** Waits for a free call. */
    Call call() throws IOException {
        try {
            Call call = free.poll(TIMEOUT.toSeconds(), TimeUnit.SECONDS);
            MessagingException why = channel.closeReason();
            if (why != null) {
                throw ended(why);
            } else if (call == null) {
                throw new IOException("all calls of queue %d are in use".formatted(request.id()));
            }
            return call;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IOException("interrupted", e);
        }
    }

    int size() {
        return request.size();
    }

    int number() {
        return request.id();
    }

    /** How many commands had data, and so a window. */
    long keyedCommands() {
        return keyedCommands.get();
    }

    RawConnection channel() {
        return channel;
    }

    // ---- by the polling thread

    @Override
    public void received(RawConnection from, RawMessage message) {
        int id = message.length() < Response.BYTES ? -1 : Response.command(message.buffer());
        if (id < 0 || id >= calls.length) {
            throw new IllegalStateException("an answer to no command: " + message);
        }
        Call call = calls[id];
        if (message.hasInvalidated() && message.invalidatedToken() != call.window.remoteToken()) {
            throw new IllegalStateException("an answer has invalidated another command's token");
        }
        call.answered(message.buffer());
        message.repost().orThrow();
    }

    @Override
    public void ended(RawConnection which, MessagingException reason) {
        for (Call call : calls) {
            if (call != null) {
                call.answer.completeExceptionally(reason);
                call.window.close();
            }
        }
        region.close();
    }

    @Override
    public void close() {
        channel.close();
    }
}
