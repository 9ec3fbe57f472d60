package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.Message;
import dev.verbena.messaging.MessageChannel;
import dev.verbena.messaging.MessageServer;
import dev.verbena.messaging.Poller;
import dev.verbena.trust.Trust;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.concurrent.locks.LockSupport;

/**
 * Another connection of this process, which the fault of a test does not touch: messages go back
 * and forth on it until the end, and each must come back. Writes the row of the fault.
 */
final class Bystander implements AutoCloseable {
    private static final Duration LONG = Duration.ofSeconds(60);
    private static final Duration PAUSE = Duration.ofMillis(20);
    private static final int MORE = 3; // messages after the fault

    final Sides sides = new Sides();

    /** The one that its channel is on, for the channel that the fault is for. */
    final Poller poller = Poller.start(sides.here, IdleStrategy.events());

    private final MessageServer server =
            sides.listen(FaultsTest.LONG, 1, EchoProgram.ECHO, channel -> {});
    private final MessageChannel channel =
            MessageChannel.connect(poller, server.localAddress(), FaultsTest.LONG, null);
    private final Trust.Row row;
    private final Thread thread;
    private volatile boolean over;
    private volatile long exchanged;
    private volatile Throwable failure;

    /**
     * Begins the row.
     *
     * @param fault its name
     */
    Bystander(String fault) {
        row = Trust.row("fault: " + fault + ", devices");
        thread = Thread.ofPlatform().name("bystander").start(this::exchange);
    }

    private void exchange() {
        try {
            while (!over) {
                byte[] bytes = String.valueOf(exchanged).getBytes();
                channel.send(MemorySegment.ofArray(bytes), LONG);
                try (Message message = channel.receive(LONG)) {
                    assertThat(message).as("answer").isNotNull();
                    assertThat(message.data().toArray(ValueLayout.JAVA_BYTE)).isEqualTo(bytes);
                }
                exchanged++;
                LockSupport.parkNanos(PAUSE.toNanos());
            }
        } catch (Throwable t) {
            failure = t;
        }
    }

    /** Returns when some more messages have come back. */
    void goesOn() {
        long enough = exchanged + MORE;
        Deadline deadline = Deadline.of("messages of the other connection");
        while (exchanged < enough) {
            assertThat(failure).isNull();
            deadline.check();
            LockSupport.parkNanos(PAUSE.toNanos());
        }
    }

    /** The work requests that the faults were for. */
    Bystander requests(long count) {
        row.requests(count);
        return this;
    }

    /**
     * Asserts that the connection goes on, and writes the row.
     *
     * @param faults how many
     * @param messages those of the connection that the faults were for
     * @param losses what became of them that should not
     * @param longest how many nanoseconds a caller had to wait
     */
    void write(int faults, long messages, long losses, long longest) {
        goesOn();
        row.faults(faults)
                .messages(messages + exchanged)
                .losses(losses)
                .longestWait(Duration.ofNanos(longest));
        row.write();
    }

    @Override
    public void close() {
        over = true;
        try {
            assertThat(thread.join(Duration.ofNanos(LONG.toNanos() * 2))).isTrue();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        channel.close();
        poller.close();
        server.close();
        sides.close();
        assertThat(failure).isNull();
    }
}
