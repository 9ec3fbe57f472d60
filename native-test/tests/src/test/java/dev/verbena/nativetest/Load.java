package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Status;
import dev.verbena.messaging.Message;
import dev.verbena.messaging.MessageChannel;
import dev.verbena.messaging.MessagingOptions;
import dev.verbena.messaging.Poller;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * A channel to a server that sends each message back, kept busy by a thread of its own, and the
 * ledger of its messages: each that was accepted ends once; those that come back do so in order,
 * with their bytes.
 */
final class Load implements AutoCloseable {
    private static final int BYTES = 1500;
    private static final int SECONDS = 60;

    final MessageChannel channel;
    private final Semaphore room = new Semaphore(0);
    private final Map<Integer, Status> ends = new ConcurrentHashMap<>();
    private final List<String> wrong = new CopyOnWriteArrayList<>();
    private final Thread thread;
    private volatile int accepted;
    private volatile int back; // written by the poller
    private volatile boolean over;

    Load(Poller poller, InetSocketAddress server, MessagingOptions options) {
        channel = MessageChannel.connect(poller, server, options, this::cameBack);
        channel.onRoom(room::release);
        thread = Thread.ofPlatform().name("load").start(this::send);
    }

    private void cameBack(MessageChannel of, Message message) {
        byte[] bytes = bytes(back);
        if (message.data().mismatch(MemorySegment.ofArray(bytes)) != -1) {
            wrong.add("another message than %d came back".formatted(back));
        }
        back++;
    }

    private static byte[] bytes(int number) {
        byte[] bytes = new byte[4 + number % BYTES];
        Arrays.fill(bytes, (byte) number);
        MemorySegment.ofArray(bytes).set(ValueLayout.JAVA_INT_UNALIGNED, 0, number);
        return bytes;
    }

    private void send() {
        while (!over) {
            int number = accepted;
            byte[] bytes = bytes(number);
            Status status =
                    channel.trySend(
                            MemorySegment.ofArray(bytes),
                            0,
                            bytes.length,
                            (of, attachment, end) -> {
                                if (ends.put(number, end) != null) {
                                    wrong.add("message %d ended twice".formatted(number));
                                }
                            },
                            null);
            if (status.isSuccess()) {
                accepted = number + 1;
            } else if (status == Status.NO_MORE_ENTRIES) {
                awaitRoom();
            } else if (!channel.isOpen()) {
                return;
            } else {
                wrong.add("message %d was refused: %s".formatted(number, status));
                return;
            }
        }
    }

    private void awaitRoom() {
        try {
            var _ = room.tryAcquire(1, TimeUnit.SECONDS); // it looks whether all is over
        } catch (InterruptedException e) {
            over = true;
        }
    }

    /** Returns when some more messages have come back. */
    void goesOn(int more) {
        int enough = back + more;
        Deadline deadline = Deadline.of("messages that come back by " + channel);
        while (back < enough) {
            assertThat(channel.isOpen()).as("%s: %s", channel, channel.closeReason()).isTrue();
            deadline.check();
            LockSupport.parkNanos(1_000_000);
        }
    }

    /** As {@link #goesOn}; the channel may also end. */
    void goesOnOrEnds(int more) {
        int enough = back + more;
        while (back < enough && channel.isOpen()) {
            LockSupport.parkNanos(1_000_000); // until the deadline of a message
        }
    }

    /** Ends the sending; if the channel is open, all that was sent comes back. */
    List<String> settle() throws InterruptedException {
        over = true;
        room.release();
        assertThat(thread.join(Duration.ofSeconds(SECONDS))).isTrue();
        Deadline deadline = Deadline.of("end of all messages of " + channel);
        while (ends.size() < accepted || (channel.isOpen() && back < accepted)) {
            deadline.check();
            LockSupport.parkNanos(1_000_000);
        }
        ends.forEach(
                (number, end) -> {
                    if (!end.isSuccess() && channel.isOpen()) {
                        wrong.add("message %d of an open channel: %s".formatted(number, end));
                    }
                });
        if (back > accepted) {
            wrong.add("%d of %d came back".formatted(back, accepted));
        }
        return wrong;
    }

    int messages() {
        return accepted;
    }

    @Override
    public void close() {
        over = true;
        room.release();
        channel.close();
    }
}
