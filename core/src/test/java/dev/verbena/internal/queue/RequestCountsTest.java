package dev.verbena.internal.queue;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

/** Counts that go on for longer than any test posts. */
class RequestCountsTest {
    private final RequestCounts counts = new RequestCounts();

    @Test
    void postedOnesAreCountedBeyondTheLedgersNumberWhichWrapsAround() {
        long all = 0;
        for (int i = 0; i < 10; i++) {
            all += 1 << 30;
            counts.added((int) all);
            assertThat(counts.posted((int) (all + 7))).isEqualTo(all + 7);
        }
    }

    @Test
    void nothingIsCountedAtFirst() {
        assertThat(counts.posted(0)).isZero();
        assertThat(counts.internal()).isZero();
        assertThat(counts.counters(null).bytes()).isZero();
        counts.received(3);
        assertThat(new RequestCounts().counters(null).bytes()).isZero();
        assertThat(counts.counters(null).bytes()).isEqualTo(3);
    }

    @Test
    void thoseOfThisLibraryAreNotTheCallers() {
        counts.internal(3);
        counts.internal(-1);
        assertThat(counts.internal()).isEqualTo(2);
        assertThat(counts.posted(10)).isEqualTo(8);
    }
}
