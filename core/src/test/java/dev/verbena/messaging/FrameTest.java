package dev.verbena.messaging;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

import java.lang.foreign.MemorySegment;

/** What the header of a frame says, and which headers cannot be true. */
class FrameTest {
    private static final int HEADER = Frame.HEADER_BYTES;

    private static boolean valid(int kind, int version, int notes, int length, long received) {
        long first = kind | (long) version << 8 | (long) notes << 16;
        return Frame.isValid(first, Integer.toUnsignedLong(length), received);
    }

    @Test
    void whatWasWrittenIsRead() {
        Credits credits = new Credits(8);
        for (int i = 0; i < 3; i++) {
            credits.returnOne(false);
        }
        credits.returnOne(true);
        MemorySegment frame = MemorySegment.ofArray(new byte[5 + HEADER]);
        Frame.write(frame, 5, Frame.MESSAGE, credits, 0x0102_0304, 2);
        MemorySegment received = frame.asSlice(5);
        long first = Frame.first(received);
        long second = Frame.second(received);
        assertThat(Frame.kind(first)).isEqualTo(Frame.MESSAGE);
        assertThat(Frame.notes(first)).isEqualTo(2);
        assertThat(Frame.length(second)).isEqualTo(0x0102_0304);
        assertThat(Frame.isValid(first, second, HEADER + 0x0102_0304 + 16)).isTrue();
        Credits peer = new Credits(8);
        peer.open(4);
        for (int i = 0; i < 3; i++) {
            peer.sent(false);
        }
        assertThat(Frame.grant(first, second, peer)).as("of a control frame, too").isFalse();
        peer.sent(true);
        assertThat(Frame.grant(first, second, peer)).isTrue();
        assertThat(peer.available()).isEqualTo(4);
    }

    @ParameterizedTest
    @CsvSource({"1, 0, 0", "1, 0, 77", "1, 2, 77", "2, 0, 0", "2, 2, 0", "3, 0, 0", "3, 1, 0"})
    void aFrameIsAsLongAsItsHeaderSays(int kind, int notes, int length) {
        long bytes = HEADER + length + 8L * notes;
        assertThat(valid(kind, 1, notes, length, bytes)).isTrue();
        assertThat(valid(kind, 1, notes, length, bytes - 1)).isFalse();
        assertThat(valid(kind, 1, notes, length, bytes + 1)).isFalse();
        assertThat(valid(kind, 0, notes, length, bytes)).as("of another version").isFalse();
        assertThat(valid(kind, 3, notes, length, bytes)).as("of another version").isFalse();
    }

    @ParameterizedTest
    @CsvSource({"0, 0, 0", "4, 0, 0", "255, 0, 0", "1, 3, 0", "2, 0, 1", "3, 0, 1", "1, 0, -1"})
    void whatNoVersionHasIsNotValid(int kind, int notes, int length) {
        assertThat(valid(kind, 1, notes, length, HEADER + length + 8L * notes)).isFalse();
    }
}
