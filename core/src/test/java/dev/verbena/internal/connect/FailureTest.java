package dev.verbena.internal.connect;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

class FailureTest {
    @Test
    void aFailureDoesNotRepeatTheTextOfItsCause() {
        IllegalStateException cause = new IllegalStateException("of a test");
        assertThat(ConnectionEvents.broken(cause))
                .hasMessage(
                        "The adapter's event thread ended, and the cause says why: close the adapter and open it again")
                .hasCause(cause);
    }
}
