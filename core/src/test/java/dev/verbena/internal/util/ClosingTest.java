package dev.verbena.internal.util;

import static org.assertj.core.api.Assertions.assertThatCode;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class ClosingTest {
    /** Without memory, for example. */
    private static final Object WITHOUT_TEXT =
            new Object() {
                @Override
                public String toString() {
                    throw new IllegalStateException("no text");
                }
            };

    @Test
    void aPartThatCannotBeClosedIsNotThrownEvenIfThereIsNoTextToLog() {
        AutoCloseable part =
                () -> {
                    throw new IllegalStateException("not closed");
                };
        assertThatCode(() -> Closing.quietly(WITHOUT_TEXT, part)).doesNotThrowAnyException();
    }
}
