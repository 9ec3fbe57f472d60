package dev.verbena.internal.connect;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

class FailureMessagesTest {
    @Test
    void aFailureDoesNotRepeatTheTextOfItsCause() {
        IllegalStateException cause = new IllegalStateException("of a test");
        assertThat(FailureMessages.noEvents(cause))
                .hasMessage(
                        "The adapter's event thread ended, and the cause says why: close the adapter and open it again")
                .hasCause(cause);
    }
}
