package dev.verbena.internal.verbs;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

import java.lang.foreign.MemorySegment;

/** What calls of the library share. */
class CallsTest {
    @Test
    void twoCallsAtATimeLeaveTheirErrnoInTwoPlaces() {
        MemorySegment first = Calls.borrowState();
        MemorySegment second = Calls.borrowState();
        assertThat(second.address()).isNotEqualTo(first.address());
        Calls.giveBack(first);
        assertThat(Calls.borrowState().address()).isEqualTo(first.address());
        MemorySegment third = Calls.borrowState();
        assertThat(third.address()).isNotIn(first.address(), second.address());
        Calls.giveBack(first);
        Calls.giveBack(second);
        Calls.giveBack(third);
    }
}
