package dev.verbena.messaging;

import static dev.verbena.messaging.MessageEra.LONG;

import dev.verbena.Status;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.Random;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/** One end of a channel of a {@link MessageEra}: how it sends, and what it does with messages. */
final class MessageSide {
    final MessageEra.Life life;
    final MessageChannel channel;
    final Flow out;
    final Flow in;
    private final MessageEra era;
    private final Slots slots;
    final Random random; // of what it sends
    final Random ofArrivals;
    private final Semaphore room = new Semaphore(0);
    volatile boolean ended; // by this side

    MessageSide(
            MessageEra era,
            MessageEra.Life life,
            MessageChannel channel,
            Flow out,
            Flow in,
            Slots slots) {
        this.era = era;
        this.life = life;
        this.channel = channel;
        this.out = out;
        this.in = in;
        this.slots = slots;
        this.random = new Random(era.seed ^ out.name.hashCode());
        this.ofArrivals = new Random(random.nextLong());
        channel.onRoom(room::release);
    }

    /** Who ends it himself, or for a reason of his own, may not get what had come. */
    boolean mayLose() {
        return era.mayLose(ended, channel);
    }

    /** Ends this channel. Without a connection manager, the caller then ends the other one. */
    void end() {
        era.faults.incrementAndGet();
        ended = true;
        switch (random.nextInt(4)) {
            case 0 -> channel.fail(Status.INTERNAL_ERROR, "of a test", null);
            case 1 -> channel.close();
            default -> {
                var _ = channel.closeAsync();
            }
        }
        MessageSide other = this == life.client ? life.server : life.client;
        if (era.place.address == null && other != null) {
            other.ended = true;
            var _ =
                    channel.closed()
                            .thenRun(
                                    () ->
                                            other.channel.fail(
                                                    Status.INTERNAL_ERROR, "of a test", null));
        }
    }

    // ---- what it sends

    void send(boolean mayBlock, int length, byte @Nullable [] beginning)
            throws InterruptedException {
        switch (random.nextInt(mayBlock ? 8 : 6)) {
            case 0 -> trySend(length, beginning, true);
            case 1 -> trySend(length, beginning, false);
            case 2 -> sendAsync(length, beginning);
            case 3, 4 -> trySendList(length, beginning);
            case 5 -> sendListAsync(length, beginning);
            case 6 -> send(length, beginning, Duration.ofNanos(random.nextInt(300_000)));
            default -> send(length, beginning, LONG);
        }
    }

    private Source source(int length) {
        return length <= 1 << 20 && random.nextInt(8) != 0
                ? new Source(null, MemorySegment.ofArray(new byte[length]))
                : Source.ofArena(length);
    }

    private boolean result(int number, Status status) {
        if (status.isSuccess()) {
            return true;
        }
        out.refused(number);
        if (status != Status.NO_MORE_ENTRIES && status != Status.CONNECTION_INVALID) {
            era.complain("message %d of %s was refused: %s".formatted(number, out.name, status));
        }
        return false;
    }

    private void trySend(int length, byte @Nullable [] beginning, boolean reports) {
        try (Source from = source(length)) {
            int number = out.open(length, reports, beginning);
            out.fill(from.memory, number);
            Status status =
                    reports
                            ? channel.trySend(
                                    from.memory,
                                    0,
                                    length,
                                    (of, attachment, end) -> out.ended((Integer) attachment, end),
                                    number)
                            : channel.trySend(from.memory);
            result(number, status);
            from.memory.fill((byte) 0xDB);
        }
    }

    void send(int length, byte @Nullable [] beginning, Duration within)
            throws InterruptedException {
        try (Source from = source(length)) {
            int number = out.open(length, false, beginning);
            out.fill(from.memory, number);
            try {
                channel.send(from.memory, within);
            } catch (MessagingException e) {
                out.refused(number);
                if (within == LONG && e.status() == Status.IO_TIMEOUT && channel.isOpen()) {
                    era.complain(
                            "message %d of %s found no room: %s".formatted(number, out.name, e));
                }
            }
            from.memory.fill((byte) 0xDB);
        }
    }

    private void sendAsync(int length, byte @Nullable [] beginning) {
        Source from = source(length);
        int number = out.open(length, true, beginning);
        out.fill(from.memory, number);
        var _ =
                channel.sendAsync(from.memory)
                        .whenComplete(
                                (nothing, thrown) -> {
                                    done(number, thrown);
                                    from.memory.fill((byte) 0xDB);
                                    from.close();
                                });
    }

    private void done(int number, @Nullable Throwable thrown) {
        Status status = Era.statusOf(thrown);
        if (status == Status.NO_MORE_ENTRIES) {
            out.refused(number);
        } else {
            out.ended(number, status);
        }
    }

    private void trySendList(int length, byte @Nullable [] beginning) {
        Slots.Slot slot = slots.take(length, random);
        if (slot == null) {
            return;
        }
        int number = out.open(length, true, beginning);
        out.fill(slot.memory, number);
        Status status =
                channel.trySend(
                        slot.list(1 + random.nextInt(channel.maxBuffers()), random),
                        (of, attachment, end) -> {
                            slot.giveBack();
                            out.ended((Integer) attachment, end);
                        },
                        number);
        if (!result(number, status)) {
            slot.giveBack();
        }
    }

    private void sendListAsync(int length, byte @Nullable [] beginning) {
        Slots.Slot slot = slots.take(length, random);
        if (slot == null) {
            return;
        }
        int number = out.open(length, true, beginning);
        out.fill(slot.memory, number);
        var _ =
                channel.sendAsync(slot.list(1 + random.nextInt(channel.maxBuffers()), random))
                        .whenComplete(
                                (nothing, thrown) -> {
                                    slot.giveBack();
                                    done(number, thrown);
                                });
    }

    /** Fills the peer's receives, until a message is refused, and waits until there is room. */
    void fill() throws InterruptedException {
        room.drainPermits();
        Status status = Status.SUCCESS;
        for (int i = 0; status.isSuccess() && i < 200; i++) {
            byte[] bytes = new byte[era.length(channel, random)];
            int number = out.open(bytes.length, false, null);
            out.fill(MemorySegment.ofArray(bytes), number);
            status = channel.trySend(MemorySegment.ofArray(bytes));
            result(number, status);
        }
        long start = System.nanoTime();
        while (status == Status.NO_MORE_ENTRIES
                && channel.isOpen()
                && !room.tryAcquire(100, TimeUnit.MILLISECONDS)) {
            if (System.nanoTime() - start > Era.LIMIT) {
                era.complain(
                        "%s: no room was reported; %s".formatted(out.name, channel.counters()));
                return;
            }
        }
    }

    // ---- what arrives

    /** Checks a message; some are kept, and released later by another thread. */
    int arrived(Message message) {
        int number = in.arrived(message.data());
        if (number >= 0) {
            switch (ofArrivals.nextInt(16)) {
                case 0, 1 -> keep(number, message.retain());
                case 2 -> keep(number, message.detach());
                default -> {}
            }
        }
        return number;
    }

    private void keep(int number, Message message) {
        era.later(
                () -> {
                    in.check(number, message.data());
                    message.release();
                });
    }

    /** Memory that is not registered. */
    private record Source(@Nullable Arena arena, MemorySegment memory) implements AutoCloseable {
        static Source ofArena(int length) {
            Arena arena = Arena.ofShared();
            return new Source(arena, arena.allocate(length, 1));
        }

        @Override
        public void close() {
            if (arena != null) {
                arena.close();
            }
        }
    }
}
