package dev.verbena.internal.verbs;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import org.junit.jupiter.api.Test;

import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;

/** What calls of the library share. */
class ScratchTest {
    @Test
    void twoCallsAtATimeHaveTheirErrnoAndMemoryInTwoPlaces() {
        try (Scratch first = Scratch.borrow();
                Scratch second = Scratch.borrow()) {
            assertThat(second.state.address()).isNotEqualTo(first.state.address());
            long of = first.allocate(JAVA_LONG).address();
            assertThat(second.allocate(JAVA_LONG).address()).isNotEqualTo(of);
        }
    }

    @Test
    void aCallAfterAnotherHasItsMemoryButNotWhatWasInIt() {
        Scratch before = Scratch.borrow();
        MemorySegment left = before.allocate(JAVA_LONG);
        left.set(JAVA_LONG, 0, -1);
        before.close();
        List<Scratch> borrowed = new ArrayList<>();
        do { // what was given back before it, by other tests, has its turn first
            borrowed.add(Scratch.borrow());
        } while (borrowed.getLast() != before && borrowed.size() < 100);
        MemorySegment memory = borrowed.getLast().allocate(JAVA_LONG);
        assertThat(memory.address()).isEqualTo(left.address());
        assertThat(memory.get(JAVA_LONG, 0)).isZero();
        borrowed.forEach(Scratch::close);
    }

    @Test
    void whatOneCallWantsLiesApartAndAligned() {
        try (Scratch scratch = Scratch.borrow()) {
            MemorySegment small = scratch.allocate(3);
            MemorySegment number = scratch.allocate(JAVA_INT);
            MemorySegment large = scratch.allocate(JAVA_LONG);
            assertThat(number.address() - small.address()).isEqualTo(4);
            assertThat(large.address() - number.address()).isEqualTo(4);
        }
    }

    @Test
    void whatIsNotThereIsRefused() {
        try (Scratch scratch = Scratch.borrow()) {
            scratch.allocate(500);
            assertThatThrownBy(() -> scratch.allocate(JAVA_LONG, 2))
                    .isInstanceOf(IndexOutOfBoundsException.class);
            assertThat(scratch.allocate(JAVA_LONG).get(JAVA_LONG, 0)).isZero(); // what is, is not
        }
    }

    @Test
    void aCallThatFailsWithoutAReasonHasFailedAllTheSame() {
        try (Scratch scratch = Scratch.borrow()) {
            scratch.state.fill((byte) 0);
            assertThat(scratch.value(-1)).isEqualTo(-Errno.EIO);
            assertThat(scratch.pointer(MemorySegment.NULL)).isEqualTo(-Errno.EIO);
            assertThat(scratch.value(0)).isZero();
            assertThat(scratch.value(Errno.EAGAIN)).isEqualTo(-Errno.EAGAIN);
        }
    }
}
