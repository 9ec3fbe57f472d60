package dev.verbena.internal.queue;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.OperationType;

import org.junit.jupiter.api.Test;

import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** What is known of windows: their tokens, how many requests name them, and whose they are. */
class WindowTableTest {
    private static final int FIRST_TOKEN = 0x1234_56FE;

    private final Domain domain = new Domain(1);
    private final WindowTable table = domain.windows();
    private final Endpoint queue = new Endpoint(table);
    private final Endpoint other = new Endpoint(table);
    private final List<String> freed = new ArrayList<>();

    private Window window(int token) {
        Window window =
                new Window(domain) {
                    @Override
                    protected int prepare() {
                        return 12;
                    }

                    @Override
                    protected void freeFormer() {
                        freed.add("former");
                    }
                };
        table.add(window);
        assertThat(table.renew(window, 0x1000, token)).isZero();
        return window;
    }

    @Test
    void aNewOneIsFreeAndNamedByNoRequest() {
        Window window = window(FIRST_TOKEN);
        assertThat(window.bound()).isFalse();
        assertThat(window.idle()).isTrue();
        assertThat(window.queue()).isNull();
        assertThat(window.token()).isEqualTo(FIRST_TOKEN);
        assertThat(window.domain()).isSameAs(domain);
        assertThat(window.prepare()).isEqualTo(12);
        window.freeFormer();
        assertThat(freed).containsExactly("former");
        assertThat(table.renew(window, 0x2000, 7)).isEqualTo(0x1000);
        assertThat(window.address()).isEqualTo(0x2000);
        assertThat(window.token()).isEqualTo(7);
    }

    /** What the peer took back was the token of an earlier bind. */
    @Test
    void anInvalidateThatIsRefusedLeavesItBound() {
        Window window = window(FIRST_TOKEN);
        table.bind(window, queue);
        table.invalidated(window.token());
        table.retire(window, false);
        table.bind(window, queue);
        table.invalidate(window);
        table.takeBack(window, OperationType.INVALIDATE);
        assertThat(window.bound()).isTrue();
    }

    /** Native windows are allocated and freed by a thread that holds the table. */
    @Test
    void whoeverHoldsTheTableHoldsUpNoCompletion() throws Exception {
        Window window = window(FIRST_TOKEN);
        table.bind(window, queue);
        synchronized (table) {
            CompletableFuture.runAsync(
                            () -> {
                                table.invalidated(window.token());
                                table.retire(window, false);
                            })
                    .get(10, TimeUnit.SECONDS);
        }
        assertThat(window.bound()).isFalse();
        assertThat(window.idle()).isTrue();
    }

    /** The low 8 bits go round; what is taken back is the token before, round the end as well. */
    @Test
    void aRefusedBindGivesItsTokenBack() {
        Window window = window(FIRST_TOKEN);
        for (int token : new int[] {0x1234_56FF, 0x1234_5600, 0x1234_5601}) {
            int before = window.token();
            assertThat(window.nextToken()).isEqualTo(token);
            table.bind(window, queue);
            assertThat(window.token()).isEqualTo(token);
            table.takeBack(window, OperationType.BIND);
            assertThat(window.token()).isEqualTo(before);
            assertThat(window.bound()).isFalse();
            assertThat(window.idle()).isTrue();
            table.bind(window, queue);
            table.invalidate(window);
            table.retire(window, false);
            table.retire(window, false);
        }
    }

    @Test
    void itIsWornOutAfter255BindsThatWereAccepted() {
        Window window = window(FIRST_TOKEN);
        for (int i = 0; i < 255; i++) {
            assertThat(window.wornOut()).as("after %d", i).isFalse();
            table.bind(window, queue);
            table.takeBack(window, OperationType.BIND);
            table.bind(window, queue);
            table.invalidate(window);
        }
        assertThat(window.wornOut()).isTrue();
        table.renew(window, 0x2000, 0x100);
        assertThat(window.wornOut()).isFalse();
    }

    @Test
    void itKnowsHowManyRequestsThatNameItHaveEnded() {
        Window window = window(FIRST_TOKEN);
        int before = window.posted();
        table.bind(window, queue);
        int bound = window.posted();
        table.invalidate(window);
        int invalidated = window.posted();
        assertThat(bound).isEqualTo(before + 1);
        assertThat(invalidated).isEqualTo(before + 2);
        assertThat(window.hasRetired(before)).isTrue();
        assertThat(window.hasRetired(bound)).isFalse();
        table.retire(window, false);
        assertThat(window.hasRetired(bound)).isTrue();
        assertThat(window.hasRetired(invalidated)).isFalse();
        assertThat(window.idle()).isFalse();
        table.retire(window, false);
        assertThat(window.hasRetired(invalidated)).isTrue();
        assertThat(window.idle()).isTrue();
        assertThat(window.wornOut()).isFalse();
    }

    @Test
    void aPeerInvalidatesTheOneThatHasTheTokenNow() {
        Window window = window(FIRST_TOKEN);
        Window another = window(0x7777_7700);
        table.bind(window, queue);
        table.bind(another, queue);
        table.invalidated(FIRST_TOKEN); // the one before
        table.invalidated(0);
        assertThat(window.bound()).isTrue();
        table.invalidated(window.token());
        assertThat(window.bound()).isFalse();
        assertThat(another.bound()).isTrue();
        assertThat(window.idle()).isFalse(); // its bind is outstanding still
    }

    @Test
    void anInvalidateThatWasRefusedLeavesItBound() {
        Window window = window(FIRST_TOKEN);
        table.bind(window, queue);
        table.invalidate(window);
        table.takeBack(window, OperationType.INVALIDATE);
        assertThat(window.bound()).isTrue();
        assertThat(window.posted()).isEqualTo(1);
        table.invalidated(window.token());
        assertThat(window.bound()).isFalse();
    }

    /** A peer may name it later all the same: then it is not the window's. */
    @Test
    void theTokenOfWhatIsFreeIsNobodys() {
        Window window = window(FIRST_TOKEN);
        for (Runnable end :
                List.<Runnable>of(
                        () -> {
                            table.invalidate(window);
                            table.renew(window, 0, window.token());
                            table.renew(window, 0x2000, 0x7777_7700);
                        },
                        () -> table.takeBack(window, OperationType.BIND),
                        () -> table.retire(window, true),
                        () -> table.invalidated(window.token()),
                        () -> table.lost(queue),
                        () -> table.remove(window))) {
            table.renew(window, 0x1000, FIRST_TOKEN);
            table.bind(window, queue);
            int token = window.token();
            end.run();
            assertThat(window.bound()).isFalse();
            window.bind(queue); // the table does not know, so this shows whether it finds it
            table.invalidated(token);
            assertThat(window.bound()).isTrue();
            window.revoke();
        }
    }

    /** The device gives the key of a native window that was freed to another. */
    @Test
    void theTokenOfAClosedOneMayBeAnothersByThen() {
        Window closed = window(FIRST_TOKEN);
        table.bind(closed, queue);
        table.invalidate(closed);
        table.renew(closed, 0, closed.token());
        Window another = window(FIRST_TOKEN);
        table.bind(another, other);
        assertThat(another.token()).isEqualTo(closed.token());
        table.remove(closed);
        table.invalidated(another.token());
        assertThat(another.bound()).isFalse();
    }

    @Test
    void oneWhoseBindFailedIsMadeAnewByTheNext() {
        Window window = window(FIRST_TOKEN);
        table.bind(window, queue);
        table.retire(window, true);
        assertThat(window.bound()).isFalse();
        assertThat(window.idle()).isTrue();
        assertThat(window.wornOut()).isTrue();
    }

    @Test
    void aQueuePairTakesTheOnesWithItThatWereBoundOnItLast() {
        Window bound = window(0x100);
        Window free = window(0x200);
        Window claimed = window(0x300);
        Window others = window(0x400);
        Window never = window(0x500);
        Window gone = window(0x600);
        Window closed = window(0x700);
        for (Window window : List.of(bound, free, claimed, gone, closed)) {
            table.bind(window, queue);
        }
        table.bind(others, other);
        table.invalidate(free);
        table.invalidate(claimed);
        table.claim(claimed, other);
        table.renew(gone, 0, 0);
        table.remove(closed);
        assertThat(table.lost(queue))
                .containsExactly(
                        new WindowTable.Lost(bound, 0x1000), new WindowTable.Lost(free, 0x1000));
        for (Window window : List.of(bound, free)) {
            assertThat(window.bound()).isFalse();
            assertThat(window.address()).isZero();
            assertThat(window.wornOut()).isTrue();
            assertThat(window.queue()).isNull();
            assertThat(window.idle()).isTrue();
        }
        assertThat(claimed.queue()).isSameAs(other);
        assertThat(claimed.idle()).isFalse();
        assertThat(others.bound()).isTrue();
        assertThat(never.address()).isEqualTo(0x1000);
        assertThat(table.lost(queue)).isEmpty();
    }

    @Test
    void bindsNeedNoMemory() {
        var threads = (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
        List<Window> windows = new ArrayList<>();
        for (int i = 0; i < 5_000; i++) {
            windows.add(window(i << 8));
        }
        long before = threads.getCurrentThreadAllocatedBytes();
        for (Window window : windows) {
            table.bind(window, queue);
        }
        assertThat(threads.getCurrentThreadAllocatedBytes() - before).isLessThan(1 << 12);
    }
}
