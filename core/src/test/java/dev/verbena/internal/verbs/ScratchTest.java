package dev.verbena.internal.verbs;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import static java.lang.foreign.MemoryLayout.PathElement.groupElement;

import org.junit.jupiter.api.Test;

import java.util.ArrayList;
import java.util.List;

/** What calls of the library share. */
class ScratchTest {
    @Test
    void twoCallsAtATimeHaveTheirErrnoAndMemoryInTwoPlaces() {
        try (Scratch first = Scratch.borrow();
                Scratch second = Scratch.borrow()) {
            assertThat(second.state.address()).isNotEqualTo(first.state.address());
            assertThat(second.allocate(8)).isNotEqualTo(first.allocate(8));
        }
    }

    @Test
    void aCallAfterAnotherHasItsMemoryButNotWhatWasInIt() {
        Scratch before = Scratch.borrow();
        long left = before.allocate(8);
        Native.putLong(left, 0, -1);
        before.close();
        List<Scratch> borrowed = new ArrayList<>();
        do { // what was given back before it, by other tests, has its turn first
            borrowed.add(Scratch.borrow());
        } while (borrowed.getLast() != before && borrowed.size() < 100);
        long memory = borrowed.getLast().allocate(8);
        assertThat(memory).isEqualTo(left);
        assertThat(Native.getLong(memory, 0)).isZero();
        borrowed.forEach(Scratch::close);
    }

    @Test
    void whatOneCallWantsLiesApartAndAligned() {
        try (Scratch scratch = Scratch.borrow()) {
            long small = scratch.allocate(3);
            long number = scratch.allocate(8);
            long large = scratch.allocate(9);
            assertThat(small % 8).isZero();
            assertThat(number - small).isEqualTo(8);
            assertThat(large - number).isEqualTo(8);
            assertThat(scratch.allocate(1) - large).isEqualTo(16);
        }
    }

    /** As of poll(2), whose 1 is no error. */
    @Test
    void aCountIsNoErrno() {
        try (Scratch scratch = Scratch.borrow()) {
            Native.putInt(scratch.state.address(), 0, Errno.EINVAL);
            assertThat(scratch.count(0)).isZero();
            assertThat(scratch.count(2)).isEqualTo(2);
            assertThat(scratch.count(-1)).isEqualTo(-Errno.EINVAL);
        }
    }

    @Test
    void whatIsNotThereIsRefused() {
        try (Scratch scratch = Scratch.borrow()) {
            scratch.allocate(500);
            assertThatThrownBy(() -> scratch.allocate(16))
                    .isInstanceOf(IndexOutOfBoundsException.class);
            assertThat(Native.getLong(scratch.allocate(8), 0)).isZero(); // what is, is not
        }
    }

    @Test
    void bytesAreCopiedAndNoBytesAreNull() {
        try (Scratch scratch = Scratch.borrow()) {
            assertThat(scratch.copyOf(new byte[0])).isZero();
            long copy = scratch.copyOf(new byte[] {1, 2, 3});
            assertThat(Native.getBytes(copy, 4)).containsExactly(1, 2, 3, 0);
        }
    }

    /** As the capture state is read at offset 0. */
    @Test
    void theCaptureStateIsErrno() {
        assertThat(Scratch.STATE.memberLayouts()).hasSize(1);
        assertThat(Scratch.STATE.byteOffset(groupElement("errno"))).isZero();
    }

    @Test
    void aCallThatFailsWithoutAReasonHasFailedAllTheSame() {
        try (Scratch scratch = Scratch.borrow()) {
            scratch.state.fill((byte) 0);
            assertThat(scratch.value(-1)).isEqualTo(-Errno.EIO);
            assertThat(scratch.pointer(0)).isEqualTo(-Errno.EIO);
            assertThat(scratch.value(0)).isZero();
            assertThat(scratch.value(Errno.EAGAIN)).isEqualTo(-Errno.EAGAIN);
            assertThat(scratch.value(0xFFFF_FFFFL)).as("an int of -1").isEqualTo(-Errno.EIO);
            assertThat(scratch.value(1L << 32)).as("an int of 0").isZero();
        }
    }
}
