package dev.verbena.internal.queue;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.verbena.internal.verbs.Membarrier;

import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** Who gets in beside whom, and who owns what. */
@Timeout(120)
class GateTest {
    private static final int ROW = 100;
    private static final int DISTURBANCES = 100; // in a second
    private static final int VISITS = DISTURBANCES - 1;

    private final Gate gate = new Gate();

    @BeforeAll
    static void prepareBarrier() {
        Membarrier.prepare();
    }

    @Test
    void whoIsInsideKeepsOthersOut() throws Exception {
        assertThat(gate.enter()).isTrue();
        Other<Boolean> other = new Other<>(gate::enter);
        other.awaitWaiting();
        gate.leave();
        assertThat(other.end()).isTrue();
    }

    @Test
    void aShutGateLetsNobodyIn() {
        gate.shut();
        assertThat(gate.enter()).isFalse();
        gate.shut();
        assertThat(gate.enter()).isFalse();
    }

    @Test
    void threadsThatTakeTurnsOwnNothing() throws Exception {
        for (int turn = 0; turn < 5; turn++) {
            passOften(gate, ROW - 1);
            assertThat(gate.isOwnedBy(null)).isTrue();
            elsewhere(() -> passOften(gate, 1));
        }
    }

    @Test
    void twoThreadsAreNeverInsideTogether() throws Exception {
        Witness witness = new Witness();
        Callable<Void> pass =
                () -> {
                    for (int i = 0; i < 100_000; i++) {
                        assertThat(gate.enter()).isTrue();
                        witness.enter();
                        gate.leave();
                    }
                    return null;
                };
        Other<Void> other = new Other<>(pass);
        pass.call();
        other.end();
        assertThat(witness.entries()).isEqualTo(200_000);
    }

    /**
     * Each carrier of virtual threads has waiters, and the thread that they wait for was unmounted
     * inside.
     */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void waitersLeaveACarrierToAVirtualThreadInside(boolean interrupted) throws Exception {
        int waiters = 4 * Runtime.getRuntime().availableProcessors();
        CountDownLatch inside = new CountDownLatch(1);
        CountDownLatch goOn = new CountDownLatch(1);
        FutureTask<Void> holder =
                new FutureTask<>(
                        () -> {
                            assertThat(gate.enter()).isTrue();
                            inside.countDown();
                            goOn.await();
                            gate.leave();
                            return null;
                        });
        Thread.startVirtualThread(holder);
        inside.await();
        CountDownLatch waiting = new CountDownLatch(waiters);
        List<FutureTask<Boolean>> tasks = new ArrayList<>();
        for (int i = 0; i < waiters; i++) {
            FutureTask<Boolean> task =
                    new FutureTask<>(
                            () -> {
                                if (interrupted) {
                                    Thread.currentThread().interrupt();
                                }
                                waiting.countDown();
                                assertThat(gate.enter()).isTrue();
                                gate.leave();
                                return Thread.interrupted();
                            });
            tasks.add(task);
            Thread.startVirtualThread(task);
        }
        waiting.await();
        goOn.countDown();
        holder.get(30, TimeUnit.SECONDS);
        for (FutureTask<Boolean> task : tasks) {
            assertThat(task.get(30, TimeUnit.SECONDS)).isEqualTo(interrupted);
        }
    }

    /** What a gate with an owner is asked by others, where the kernel has the call for it. */
    @Nested
    class Owned {
        @BeforeEach
        void own() {
            assumeTrue(Membarrier.ready(), "membarrier(2) is forbidden here, or not known");
            passOften(gate, ROW - 1);
            assertThat(gate.isOwnedBy(null)).isTrue();
            passOften(gate, 1);
            assertThat(gate.isOwnedBy(Thread.currentThread())).isTrue();
        }

        @Test
        void itsOwnerInsideKeepsOthersOut() throws Exception {
            assertThat(gate.enter()).isTrue();
            Other<Boolean> other = new Other<>(gate::enter);
            other.awaitWaiting();
            gate.leave();
            assertThat(other.end()).isTrue();
        }

        @Test
        void othersInsideKeepItsOwnerOut() throws Exception {
            Thread owner = Thread.currentThread();
            CountDownLatch inside = new CountDownLatch(1);
            Other<Void> other =
                    new Other<>(
                            () -> {
                                assertThat(gate.enter()).isTrue();
                                inside.countDown();
                                assertWaits(owner);
                                gate.leave();
                                return null;
                            });
            inside.await();
            assertThat(gate.enter()).isTrue();
            gate.leave();
            other.end();
            assertThat(gate.isOwnedBy(owner)).isTrue();
        }

        @Test
        void itIsShutByOthersAndByItsOwner() throws Exception {
            elsewhere(gate::shut);
            assertThat(gate.enter()).isFalse();
            Gate own = new Gate();
            passOften(own, ROW);
            own.shut();
            assertThat(own.enter()).isFalse();
            elsewhere(() -> assertThat(own.enter()).isFalse());
        }

        @Test
        void itIsShutWhenItsOwnerHasLeft() throws Exception {
            assertThat(gate.enter()).isTrue();
            Other<Object> close = new Other<>(Executors.callable(gate::shut));
            close.awaitWaiting();
            gate.leave();
            close.end();
            assertThat(gate.enter()).isFalse();
        }

        @Test
        void itIsNobodysWhenOthersComeOften() throws Exception {
            elsewhere(() -> passOften(gate, 10));
            assertThat(gate.isOwnedBy(Thread.currentThread())).isTrue();
            // Two seconds may begin in between.
            elsewhere(() -> passOften(gate, 3 * DISTURBANCES));
            assertThat(gate.isOwnedBy(null)).isTrue();
            passOften(gate, 2 * ROW);
            assertThat(gate.isOwnedBy(null)).isTrue();
            elsewhere(() -> passOften(gate, 2 * ROW));
            assertThat(gate.isOwnedBy(null)).isTrue();
        }

        /** A second after it was nobody's for the first time, two after the second time. */
        @Test
        void itIsOwnedAgainAfterAWhile() throws Exception {
            for (int seconds = 1; seconds <= 2; seconds++) {
                long start = System.nanoTime();
                elsewhere(() -> passOften(gate, 3 * DISTURBANCES));
                assertThat(gate.isOwnedBy(null)).isTrue();
                assertThat(gate.ownerless()).isEqualTo(seconds);
                passUntilOwned();
                assertThat(System.nanoTime() - start).isGreaterThan(seconds * 1_000_000_000L);
            }
        }

        @Test
        void anotherOwnsItWhileTheFormerOwnerWaits() throws Exception {
            elsewhere(
                    () -> {
                        passOften(gate, 3 * DISTURBANCES);
                        assertThat(gate.isOwnedBy(null)).isTrue();
                        passUntilOwned();
                    });
        }

        @Test
        void nobodyOwnsItWhileTheFormerOwnerHasNotNoticed() throws Exception {
            AtomicInteger step = new AtomicInteger();
            Other<Void> visitor =
                    new Other<>(
                            () -> {
                                passOften(gate, 3 * DISTURBANCES);
                                long start = System.nanoTime();
                                while (System.nanoTime() - start < 3_000_000_000L) {
                                    passOften(gate, 1);
                                    assertThat(gate.isOwnedBy(null)).isTrue();
                                }
                                step.set(1);
                                while (step.get() == 1) {
                                    Thread.onSpinWait();
                                }
                                passOften(gate, ROW);
                                assertThat(gate.isOwnedBy(Thread.currentThread())).isTrue();
                                return null;
                            });
            while (step.get() == 0 && !visitor.task.isDone()) {
                Thread.onSpinWait(); // does not wait as the JVM calls it: might be on its way in
            }
            passOften(gate, 1);
            step.set(2);
            visitor.end();
        }

        private void passUntilOwned() {
            long start = System.nanoTime();
            while (!gate.isOwnedBy(Thread.currentThread())) {
                passOften(gate, 1);
                assertThat(System.nanoTime() - start).isLessThan(30_000_000_000L);
            }
        }

        @Test
        void aDeadOwnersIsTheNextOnes() throws Exception {
            Gate inherited = new Gate();
            elsewhere(() -> passOften(inherited, ROW));
            assertThat(inherited.isOwnedBy(null)).isFalse();
            passOften(inherited, 1);
            assertThat(inherited.isOwnedBy(null)).isTrue();
            passOften(inherited, ROW);
            assertThat(inherited.isOwnedBy(Thread.currentThread())).isTrue();
        }

        /**
         * Many gates, as each is owned no more after so many visits; each visit is a chance for the
         * owner's processor to look before its store is seen.
         */
        @Test
        void ownersAndVisitorsAreNeverInsideTogether() throws Exception {
            for (int round = 0; round < 200; round++) {
                Gate mine = new Gate();
                Witness witness = new Witness();
                passOften(mine, ROW);
                Other<Void> visitor =
                        new Other<>(
                                () -> {
                                    for (int i = 0; i < VISITS; i++) {
                                        assertThat(mine.enter()).isTrue();
                                        if (i % 2 == 0) {
                                            witness.enterAndLookAround();
                                        } else {
                                            witness.enter(); // gone when the owner notices
                                        }
                                        mine.leave();
                                    }
                                    return null;
                                });
                long entries = 0;
                while (!visitor.task.isDone()) {
                    for (int i = 0; i < 100; i++, entries++) {
                        assertThat(mine.enter()).isTrue();
                        witness.enter();
                        mine.leave();
                    }
                }
                visitor.end();
                assertThat(mine.isOwnedBy(Thread.currentThread())).isTrue();
                assertThat(witness.somebodyElse).isFalse();
                assertThat(witness.entries()).isEqualTo(entries + VISITS);
            }
        }
    }

    /**
     * Sees whether somebody is inside beside somebody else: what it counts, without a barrier of
     * its own, is kept by the gate alone.
     */
    private static final class Witness {
        private static final VarHandle ENTRIES;

        static {
            try {
                ENTRIES =
                        MethodHandles.lookup().findVarHandle(Witness.class, "entries", long.class);
            } catch (ReflectiveOperationException e) {
                throw new ExceptionInInitializerError(e);
            }
        }

        private long entries;
        private boolean somebodyElse; // was seen

        void enter() {
            ENTRIES.setOpaque(this, entries() + 1);
        }

        /** Stays for a moment. */
        void enterAndLookAround() {
            enter();
            long before = entries();
            for (int i = 0; i < 20; i++) {
                Thread.onSpinWait();
            }
            somebodyElse |= entries() != before;
        }

        long entries() {
            return (long) ENTRIES.getOpaque(this);
        }
    }

    private static void passOften(Gate gate, int times) {
        for (int i = 0; i < times; i++) {
            assertThat(gate.enter()).isTrue();
            gate.leave();
        }
    }

    /** Another thread and what it does. */
    private static final class Other<T> {
        private final FutureTask<T> task;
        private final Thread thread;

        Other(Callable<T> what) {
            task = new FutureTask<>(what);
            thread = Thread.ofPlatform().daemon().start(task);
        }

        /** Its answer, when its thread is no more. */
        T end() throws Exception {
            T answer = task.get();
            thread.join();
            return answer;
        }

        /** Returns when it was seen waiting at a gate for a while. */
        void awaitWaiting() {
            assertWaits(thread);
            assertThat(task.isDone()).isFalse();
        }
    }

    private static void assertWaits(Thread thread) {
        for (int seen = 0; seen < 50; ) {
            assertThat(thread.isAlive()).isTrue();
            boolean waits =
                    Arrays.stream(thread.getStackTrace())
                            .anyMatch(
                                    frame ->
                                            frame.getClassName().equals(Gate.class.getName())
                                                    && frame.getMethodName().equals("pause"));
            seen += waits ? 1 : 0;
        }
    }

    private static void elsewhere(Runnable task) throws Exception {
        new Other<>(Executors.callable(task)).end();
    }
}
