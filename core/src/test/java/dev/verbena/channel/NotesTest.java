package dev.verbena.channel;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/** Notes go to the peer in the order in which they came, as many to a frame as it has room for. */
class NotesTest {
    private static final int MOST = 5;

    private Notes notes = new Notes(MOST);
    private final List<String> expected = new ArrayList<>();

    private static String note(int kind, int token) {
        return kind + " of " + token;
    }

    /** What the next frame says. */
    private static List<String> written(Notes notes) {
        MemorySegment frame = MemorySegment.ofArray(new byte[Frame.MOST_EXTRA_BYTES]);
        notes.write(frame, Frame.HEADER_BYTES);
        List<String> written = new ArrayList<>();
        for (int i = 0; i < notes.inNextFrame(); i++) {
            long note = Frame.note(frame, 0, i);
            written.add(note((int) note, (int) (note >>> Integer.SIZE)));
        }
        return written;
    }

    private void add(Random random, int most) {
        int kind = 1 + random.nextInt(3);
        int token = random.nextInt(4) - 1;
        boolean fits = expected.size() < most;
        assertThat(notes.add((byte) kind, token)).isEqualTo(fits);
        if (fits) {
            expected.add(note(kind, token));
        }
    }

    private void sent() {
        notes.sent();
        expected.subList(0, Math.min(Frame.MOST_NOTES, expected.size())).clear();
    }

    private void compare() {
        List<String> next = expected.subList(0, Math.min(Frame.MOST_NOTES, expected.size()));
        assertThat(written(notes)).isEqualTo(next);
        assertThat(notes.fit()).isEqualTo(expected.size() <= Frame.MOST_NOTES);
        assertThat(notes.givesBack()).isEqualTo(next.stream().anyMatch(n -> n.startsWith("3")));
        assertThat(notes.urgent())
                .isEqualTo(
                        expected.size() > Frame.MOST_NOTES
                                || expected.stream().anyMatch(n -> !n.startsWith("1")));
    }

    @Test
    void theyGoOutInOrderHoweverOftenTheQueueGoesRound() {
        Random random = new Random(1);
        for (int i = 0; i < 2000; i++) {
            switch (random.nextInt(4)) {
                case 0 -> sent();
                case 1 -> {
                    int token = random.nextInt(4) - 1;
                    assertThat(notes.withdrawExposed(token))
                            .isEqualTo(expected.remove(note(Notes.EXPOSED, token)));
                }
                default -> add(random, MOST);
            }
            compare();
        }
    }

    @Test
    void aLargerQueueBeginsWithTheSame() {
        Random random = new Random(2);
        for (int i = 0; i < 20; i++) {
            int most = MOST + i;
            while (expected.size() < most) {
                add(random, most);
            }
            sent();
            add(random, most); // the first place holds the last note
            notes = notes.withRoomFor(1);
            compare();
            while (expected.size() < most + 1) {
                add(random, most + 1);
            }
            add(random, most + 1); // is one too many
            while (!expected.isEmpty()) {
                compare();
                sent();
            }
            compare();
        }
    }
}
