package dev.verbena.messaging;

import static dev.verbena.messaging.OneThread.LONG;
import static dev.verbena.messaging.OneThread.text;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;

/** Until when a message may be read, and what happens to a program that reads it later. */
@Timeout(60)
class MessageTest {
    private static final MessagingOptions TRACKED = OneThread.SMALL.withTracking(true);

    private final List<Message> kept = new ArrayList<>();
    private final List<MemorySegment> segments = new ArrayList<>();

    private static void assertReleased(Message message) {
        assertThatThrownBy(message::data)
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("was released");
        assertThatThrownBy(message::buffer).isInstanceOf(IllegalStateException.class);
        assertThatThrownBy(message::retain).isInstanceOf(IllegalStateException.class);
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void oneThatIsNotRetainedIsReleasedWhenItsHandlerReturns(boolean tracking) {
        MessagingOptions options = OneThread.SMALL.withTracking(tracking);
        try (OneThread two = new OneThread(options, (channel, message) -> kept.add(message))) {
            two.a.trySend(text("hello")).orThrow();
            two.run();
            assertReleased(kept.getFirst());
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void oneThatIsRetainedIsReadUntilItsRelease(boolean tracking) {
        MessagingOptions options = OneThread.SMALL.withTracking(tracking);
        try (OneThread two =
                new OneThread(options, (channel, message) -> kept.add(message.retain()))) {
            two.a.trySend(text("hello")).orThrow();
            two.run();
            assertThat(OneThread.text(kept.getFirst())).isEqualTo("hello");
            kept.getFirst().release();
            kept.getFirst().release(); // does nothing
            assertReleased(kept.getFirst());
            for (int i = 0; i < 10; i++) { // its receive is used again, and no message is lost
                two.a.trySend(text("more" + i)).orThrow();
                two.run();
                assertThat(OneThread.text(kept.getLast())).isEqualTo("more" + i);
                kept.getLast().release();
            }
            assertReleased(kept.getFirst());
        }
    }

    /** Without tracking it would read the bytes of a later message. */
    @Test
    void aSegmentOfATrackedMessageThrowsAfterItsRelease() {
        try (OneThread two =
                new OneThread(TRACKED, (channel, message) -> segments.add(message.data()))) {
            two.a.trySend(text("one")).orThrow();
            two.a.trySend(text("two")).orThrow();
            two.run();
            assertThat(segments).hasSize(2);
            for (MemorySegment segment : segments) {
                assertThatThrownBy(() -> segment.get(ValueLayout.JAVA_BYTE, 0))
                        .isInstanceOf(IllegalStateException.class);
            }
        }
    }

    /** What waits for a thread at the end is copied, and is read and released as before. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void oneThatIsReceivedAfterTheEndIsRead(boolean tracking) throws Exception {
        MessagingOptions options = OneThread.SMALL.withTracking(tracking);
        try (OneThread two = new OneThread(options, null)) {
            two.a.trySend(text("last words")).orThrow();
            two.run();
            two.b.close();
            two.run();
            Message message = two.b.receive(LONG);
            assertThat(message).isNotNull();
            assertThat(OneThread.text(message)).isEqualTo("last words");
            message.release();
            assertReleased(message);
        }
    }
}
