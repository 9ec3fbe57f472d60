package dev.verbena.messaging;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/** Notes go to the peer in the order in which they came, as many to a frame as it has room for. */
class NotesTest {
    private static final int OWN = 5;
    private static final int ANSWERS = 3;

    private Notes notes = new Notes(OWN, ANSWERS);
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
            long note = Frame.note(frame, Frame.MESSAGE, 0, i);
            written.add(note((int) note, (int) (note >>> Integer.SIZE)));
        }
        return written;
    }

    private void add(int kind, int token, int own, int answers) {
        long answering = expected.stream().filter(n -> n.startsWith("3")).count();
        boolean fits =
                kind == Notes.GIVEN_BACK ? answering < answers : expected.size() - answering < own;
        assertThat(notes.add((byte) kind, token)).isEqualTo(fits);
        if (fits) {
            expected.add(note(kind, token));
        }
    }

    private void sent() {
        notes.sent(true);
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
                default -> add(1 + random.nextInt(3), random.nextInt(4) - 1, OWN, ANSWERS);
            }
            compare();
        }
    }

    /** The peer is known later than the queue: only then there are keys to give back. */
    @Test
    void theQueueWithRoomForAnswersBeginsWithTheSame() {
        for (int before = 0; before < 2 * OWN; before++) {
            notes = new Notes(OWN, 0);
            for (int i = 0; i < before; i++) {
                add(1 + i % 2, i, OWN, 0); // the queue has gone round by the end
                sent();
            }
            for (int i = 0; i <= OWN; i++) {
                add(1 + i % 2, i, OWN, 0); // the last one is one too many
            }
            add(Notes.GIVEN_BACK, 7, OWN, 0);
            notes.open(ANSWERS);
            compare();
            for (int i = 0; i <= ANSWERS; i++) {
                add(Notes.GIVEN_BACK, i, OWN, ANSWERS); // so is this
            }
            while (!expected.isEmpty()) {
                compare();
                sent();
            }
            compare();
        }
    }
}
