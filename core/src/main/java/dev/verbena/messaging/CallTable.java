package dev.verbena.messaging;

import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.internal.util.IntMap;
import dev.verbena.internal.util.SafeQueue;
import dev.verbena.internal.util.Text;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;

/**
 * The calls of this side of a channel whose answers have not come, by their numbers. Also those
 * that were given up: what the peer has yet to answer has a limit, whatever becomes of the futures.
 * Guarded by the lock of the channel; what completes a future runs without it. Of the peer's calls
 * nothing is kept, except while answers wait for room: then the requests that come keep their
 * credit, each until another of those answers was sent.
 */
final class CallTable {
    static final int HEADER_BYTES = 8;
    static final int REQUEST = 0x0101; // the first four bytes: kind and version
    static final int ANSWER = 0x0102;
    static final int FAILURE = 0x0103;
    static final int MOST_REASON = 1000; // bytes
    private static final byte[] NO_MEMORY =
            "The peer has no registered memory for its answer".getBytes(StandardCharsets.UTF_8);
    static final int MOST = 512; // without an answer; half of the requests that may wait for room

    private static final ValueLayout.OfLong HEADER =
            ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);

    /** A call whose answer has not come. */
    private static final class Outstanding<T extends @Nullable Object>
            extends CompletableFuture<T> {
        private final Function<? super Message, ? extends T> decoder;
        private final Duration timeout;
        private int id;
        private boolean timed; // whether its time began, at a tick
        private int expires; // the last tick in time

        Outstanding(Function<? super Message, ? extends T> decoder, Duration timeout) {
            this.decoder = decoder;
            this.timeout = timeout;
        }

        boolean isLate(int now) {
            if (!timed) {
                timed = true;
                expires = now + PollerClock.ticks(timeout);
            }
            return now - expires > 0;
        }

        /** The answer has come. By the polling thread. */
        void answered(Message message, boolean failure) {
            if (isDone()) {
                return; // it was given up
            }
            try {
                if (failure) {
                    throw new CallFailedException(text(message));
                }
                T value = decoder.apply(message);
                if (!complete(value)) { // it was cancelled at this moment
                    giveBack(message);
                }
            } catch (Throwable t) {
                completeExceptionally(t);
                giveBack(message);
            }
        }

        /** What the decoder kept, of which nobody will hear. */
        private static void giveBack(Message message) {
            if (message.retained()) {
                message.release();
            }
        }

        private static String text(Message message) {
            MemorySegment all = message.data();
            byte[] text =
                    all.asSlice(0, Math.min(all.byteSize(), MOST_REASON))
                            .toArray(ValueLayout.JAVA_BYTE);
            return new String(text, StandardCharsets.UTF_8);
        }
    }

    private final MessageChannel channel;
    private final IntMap<Outstanding<?>> outstanding = new IntMap<>(1);
    int next; // number; wraps around
    private final AtomicInteger unanswered = new AtomicInteger(); // calls of the peer
    private boolean calls; // whether this side has called
    private int answersWaiting; // that found no room while it had not; also read without the lock
    private Queue<Message> kept = SafeQueue.empty(); // requests, while answers wait

    CallTable(MessageChannel channel) {
        this.channel = channel;
    }

    /** How long a request or an answer may be. */
    int mostBytes() {
        return channel.maxMessage() - HEADER_BYTES;
    }

    /** As much of a reason as a message has room for. */
    MemorySegment cut(byte[] reason) {
        int most = Math.min(mostBytes(), MOST_REASON);
        return MemorySegment.ofArray(reason).asSlice(0, Math.min(reason.length, most));
    }

    private MemorySegment message(int kind, int id, MemorySegment data) {
        long bytes = data.byteSize();
        if (bytes > mostBytes()) {
            throw new IllegalArgumentException(
                    "A request or answer of %,d bytes is longer than the %,d that both sides of %s take (MessagingOptions.withMaxMessage, less %d)"
                            .formatted(bytes, mostBytes(), channel, HEADER_BYTES));
        }
        MemorySegment message = MemorySegment.ofArray(new byte[HEADER_BYTES + (int) bytes]);
        writeHeader(message, kind, id);
        MemorySegment.copy(data, 0, message, HEADER_BYTES, bytes);
        return message;
    }

    private static void writeHeader(MemorySegment message, int kind, int id) {
        message.set(HEADER, 0, (long) id << Integer.SIZE | kind);
    }

    // ---- calls of this side

    <T extends @Nullable Object> CompletableFuture<T> call(
            MemorySegment request,
            Duration timeout,
            Function<? super Message, ? extends T> decoder) {
        Outstanding<T> call = new Outstanding<>(decoder, timeout);
        MemorySegment message = message(REQUEST, 0, request);
        try (var _ = channel.lock.hold()) {
            if (!channel.takesRequests()) {
                call.completeExceptionally(channel.exception(Status.CONNECTION_INVALID));
                return call;
            }
            if (outstanding.size() == MOST) {
                call.completeExceptionally(
                        new MessagingException(
                                Status.NO_MORE_ENTRIES,
                                "%d calls on %s have no answer yet, and %d of them were given up: wait until the peer has answered some"
                                        .formatted(MOST, channel, givenUp())));
                return call;
            }
            while (outstanding.get(next) != null) {
                next++;
            }
            call.id = next++;
            calls = true;
            writeHeader(message, REQUEST, call.id);
            outstanding.put(call.id, call); // before it is sent: the answer may come at once
        }
        try {
            CompletableFuture<Void> sent = channel.sendAsync(message);
            channel.lock.whenFailed(sent, thrown -> fail(call, thrown));
            channel.lock.whenFailed(call, thrown -> withdraw(sent));
        } catch (Throwable t) {
            fail(call, t);
        }
        return call;
    }

    /** The request will not be answered. */
    private void fail(Outstanding<?> call, Throwable why) {
        call.completeExceptionally(why); // first: there may be no memory for it
        var _ = take(call.id);
    }

    /** The call was given up: if its request still waits for room, it is not sent. */
    private void withdraw(CompletableFuture<Void> sent) {
        boolean withdrawn;
        try (var _ = channel.lock.hold()) {
            withdrawn = channel.outbox.withdraw(sent);
        }
        if (withdrawn) {
            sent.cancel(false); // which fails the call
        }
    }

    private int givenUp() {
        int count = 0;
        for (int i = 0; i < outstanding.places(); i++) {
            Outstanding<?> call = outstanding.at(i);
            count += call != null && call.isDone() ? 1 : 0;
        }
        return count;
    }

    private @Nullable Outstanding<?> take(int id) {
        try (var _ = channel.lock.hold()) {
            return outstanding.remove(id);
        }
    }

    /** The number of outstanding answers, including those that nobody waits for any more. */
    int count() {
        return outstanding.size();
    }

    /** At a tick, under the lock: ends the calls whose time is over, without the lock. */
    void tick(int now) {
        for (int i = 0; i < outstanding.places() && outstanding.size() > 0; i++) {
            Outstanding<?> call = outstanding.at(i);
            if (call != null && !call.isDone() && call.isLate(now)) {
                channel.poller.execute(
                        () ->
                                call.completeExceptionally(
                                        new MessagingException(
                                                Status.IO_TIMEOUT,
                                                "%s was called, and has not answered within %s"
                                                        .formatted(
                                                                channel,
                                                                Text.time(call.timeout)))));
            }
        }
    }

    /**
     * After the end: one of the calls gets the reason.
     *
     * @return false when there is none
     */
    boolean cancelAny(Status status) {
        Outstanding<?> call;
        try (var _ = channel.lock.hold()) {
            call = outstanding.any();
        }
        if (call != null) {
            fail(call, channel.exception(status));
        }
        return call != null;
    }

    // ---- messages of the peer; by the polling thread

    void received(Message message, @Nullable CallHandler handler) {
        long header = message.length() < HEADER_BYTES ? 0 : message.buffer().get(HEADER, 0);
        int id = (int) (header >>> Integer.SIZE);
        switch ((int) header) {
            case REQUEST -> {
                if (unanswered.incrementAndGet() > MOST) {
                    channel.fail(
                            Status.INTERNAL_ERROR,
                            "the peer has called more than %d times without waiting for answers"
                                    .formatted(MOST),
                            null);
                    return;
                }
                Call call = new Call(this, message.skip(HEADER_BYTES), id);
                called(call, handler);
                boolean ignored = !message.retained() && keeps(message);
            }
            case ANSWER, FAILURE -> {
                Outstanding<?> call = take(id);
                if (call != null) {
                    call.answered(message.skip(HEADER_BYTES), (int) header == FAILURE);
                }
            }
            default ->
                    channel.fail(
                            Status.INTERNAL_ERROR,
                            "the peer sent a message that is neither a request nor an answer. Is its handler a Calls?",
                            null);
        }
    }

    private static void called(Call call, @Nullable CallHandler handler) {
        try {
            if (handler == null) {
                call.fail("The peer answers no calls");
            } else {
                handler.called(call);
            }
        } catch (Exception e) {
            if (call.isAnswered()) {
                throw new IllegalStateException("The handler of a call threw after its answer", e);
            }
            String why = e.getMessage();
            call.fail(why == null ? e.toString() : why);
        } finally {
            call.handled();
        }
    }

    /** Answers a call of the peer. */
    void answer(int kind, int id, MemorySegment data) {
        MemorySegment message = message(kind, id, data);
        unanswered.getAndDecrement(); // first: the peer may call again when the answer has come
        boolean answered = false;
        try {
            send(kind, id, message);
            answered = true;
        } finally {
            unanswered.getAndAdd(answered ? 0 : 1);
        }
    }

    /** An answer that is lost would leave the peer waiting. */
    private void send(int kind, int id, MemorySegment message) {
        CompletableFuture<Void> sent;
        boolean counts;
        try (var _ = channel.lock.hold()) {
            sent = channel.sendAsync(message);
            // If both sides kept requests, each might wait for the other's credit.
            counts = !calls && !channel.outbox.waiting.isEmpty();
            answersWaiting += counts ? 1 : 0;
        }
        boolean followed = false;
        try {
            var _ =
                    sent.whenComplete(
                            (nothing, thrown) -> {
                                if (counts) {
                                    waitingAnswerEnded(); // first: the other may throw
                                }
                                if (thrown != null && channel.takesRequests()) {
                                    notAnswered(kind, id, thrown);
                                }
                            });
            followed = true;
        } finally {
            if (counts && !followed) {
                waitingAnswerEnded();
            }
        }
    }

    private void notAnswered(int kind, int id, Throwable why) {
        Status status = why instanceof VerbenaException e ? e.status() : Status.INTERNAL_ERROR;
        if (kind == ANSWER && status == Status.INSUFFICIENT_RESOURCES) {
            send(FAILURE, id, message(FAILURE, id, cut(NO_MEMORY)));
        } else {
            channel.fail(
                    status,
                    status == Status.NO_MORE_ENTRIES
                            ? "an answer could not be sent: the peer does not take its answers"
                            : "an answer could not be sent",
                    why);
        }
    }

    private void waitingAnswerEnded() {
        try (var _ = channel.lock.hold()) {
            answersWaiting--;
            for (Message one = kept.poll(); one != null; ) {
                one.release();
                one = answersWaiting == 0 ? kept.poll() : null;
            }
        }
    }

    /**
     * Keeps the credit of a request that nobody reads any more, if answers wait for room; not its
     * memory, which is shared with other channels.
     */
    boolean keeps(Message request) {
        if (answersWaiting == 0) { // most often; the lock makes sure of it
            return false;
        }
        try (var _ = channel.lock.hold()) {
            if (answersWaiting == 0) {
                return false; // or nobody would release it
            }
            kept = SafeQueue.own(kept);
            boolean ignored = kept.add(request.skipAll().detach());
            return true;
        }
    }
}
