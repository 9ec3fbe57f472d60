package dev.verbena.messaging;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Random;

/** The outstanding requests of a connection, against a queue of the JDK. */
class RequestRingTest {
    private record Request(int slot, String callback, Object attachment, int postedAt, int note) {}

    @Test
    void requestsEndInTheOrderInWhichTheyWerePosted() {
        for (long seed = 0; seed < 200; seed++) {
            follow(new Random(seed), seed);
        }
    }

    private static void follow(Random random, long seed) {
        int most = 1 + random.nextInt(20);
        int timeout = 1 + random.nextInt(3);
        RequestRing<String> ring = new RequestRing<>(most, timeout, 2);
        Deque<Request> outstanding = new ArrayDeque<>();
        int now = random.nextInt(); // ticks wrap around
        int posted = 0;
        for (int step = 0; step < 100; step++) {
            assertThat(ring.isFull()).as("seed %d", seed).isEqualTo(outstanding.size() == most);
            int oldest = outstanding.isEmpty() ? -1 : outstanding.element().slot;
            assertThat(ring.oldest()).as("seed %d", seed).isEqualTo(oldest);
            switch (random.nextInt(3)) {
                case 0 -> {
                    if (!ring.isFull()) {
                        // From the next tick on it has its time.
                        Request made =
                                new Request(
                                        ring.next(),
                                        "call " + posted,
                                        posted++,
                                        now + 1,
                                        random.nextInt());
                        ring.note(made.slot, 1, made.note);
                        ring.posted(made.callback, made.attachment);
                        outstanding.add(made);
                    }
                }
                case 1 -> {
                    if (!outstanding.isEmpty()) {
                        Request first = outstanding.remove();
                        assertThat(ring.callback(first.slot)).isEqualTo(first.callback);
                        assertThat(ring.attachment(first.slot)).isEqualTo(first.attachment);
                        assertThat(ring.note(first.slot, 1)).isEqualTo(first.note);
                        ring.ended(first.slot);
                        assertThat(ring.attachment(first.slot)).isNull();
                    }
                }
                default -> {
                    now++;
                    boolean late =
                            !outstanding.isEmpty()
                                    && now - outstanding.element().postedAt > timeout;
                    assertThat(ring.isLate(now)).as("seed %d, step %d", seed, step).isEqualTo(late);
                }
            }
        }
    }

    /** A program that posts one request after the other needs few slots. */
    @Test
    void growsByWhatIsOutstandingAtOnce() {
        RequestRing<String> ring = new RequestRing<>(20, 0, 1);
        for (int i = 0; i < 100; i++) {
            ring.posted("one", ring.next());
            ring.ended(ring.oldest());
        }
        assertThat(ring.slots()).isEqualTo(4);
        while (!ring.isFull()) {
            ring.posted("many", ring.next());
        }
        assertThat(ring.next()).as("allocates nothing for it").isEqualTo(120);
        assertThat(ring.slots()).isEqualTo(32);
    }

    @Test
    void withoutATimeoutNothingIsLate() {
        RequestRing<String> ring = new RequestRing<>(1, 0, 0);
        ring.posted(null, null);
        assertThat(ring.isLate(1)).isFalse();
        assertThat(ring.isLate(1_000_000)).isFalse();
    }
}
