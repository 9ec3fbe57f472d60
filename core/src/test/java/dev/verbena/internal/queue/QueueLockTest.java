package dev.verbena.internal.queue;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.Until;

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

/** Shared locks exclude other threads; confined ones refuse them. */
@Timeout(120)
class QueueLockTest {
    @Nested
    class Shared {
        private final QueueLock lock = new QueueLock(null);

        @Test
        void aHeldLockKeepsOthersOut() throws Exception {
            assertThat(lock.acquire()).isTrue();
            Other<Boolean> other = new Other<>(lock::acquire);
            other.awaitWaiting();
            lock.release();
            assertThat(other.end()).isTrue();
        }

        @Test
        void aClosedLockIsNotAcquired() {
            lock.close();
            assertThat(lock.acquire()).isFalse();
            lock.close();
            assertThat(lock.acquire()).isFalse();
        }

        @Test
        void aCloseWaitsForTheHolder() throws Exception {
            assertThat(lock.acquire()).isTrue();
            Other<Object> close = new Other<>(Executors.callable(lock::close));
            close.awaitWaiting();
            lock.release();
            close.end();
            assertThat(lock.acquire()).isFalse();
        }

        @Test
        void anInterruptDuringTheWaitIsThereAfterIt() throws Exception {
            assertThat(lock.acquire()).isTrue();
            Other<Boolean> other =
                    new Other<>(
                            () -> {
                                assertThat(lock.acquire()).isTrue();
                                lock.release();
                                return Thread.interrupted();
                            });
            other.thread.interrupt();
            Until.holds(() -> !other.thread.isInterrupted()); // it is about to park
            lock.release();
            assertThat(other.end()).isTrue();
        }

        @Test
        void twoThreadsNeverHoldItTogether() throws Exception {
            Witness witness = new Witness();
            Callable<Void> pass =
                    () -> {
                        for (int i = 0; i < 100_000; i++) {
                            assertThat(lock.acquire()).isTrue();
                            witness.enter();
                            lock.release();
                        }
                        return null;
                    };
            Other<Void> other = new Other<>(pass);
            pass.call();
            other.end();
            assertThat(witness.entries()).isEqualTo(200_000);
        }

        @Test
        void itLetsOneInAtATimeAndNoneAfterItWasClosed() throws InterruptedException {
            int[] unguarded = {0};
            AtomicInteger entered = new AtomicInteger();
            CountDownLatch enough = new CountDownLatch(1);
            Thread[] threads = new Thread[3];
            for (int i = 0; i < threads.length; i++) {
                threads[i] =
                        Thread.ofPlatform()
                                .start(
                                        () -> {
                                            while (lock.acquire()) {
                                                unguarded[0]++;
                                                if (entered.incrementAndGet() == 100_000) {
                                                    enough.countDown();
                                                }
                                                lock.release();
                                            }
                                        });
            }
            enough.await();
            lock.close();
            lock.close(); // again does nothing
            for (Thread thread : threads) {
                thread.join();
            }
            assertThat(lock.acquire()).isFalse();
            assertThat(unguarded[0]).isEqualTo(entered.get());
        }

        /**
         * Each carrier of virtual threads has waiters, and the thread that they wait for was
         * unmounted while it held the lock.
         */
        @ParameterizedTest
        @ValueSource(booleans = {false, true})
        void waitersLeaveACarrierToTheVirtualThreadThatHoldsIt(boolean interrupted)
                throws Exception {
            int waiters = 4 * Runtime.getRuntime().availableProcessors();
            CountDownLatch held = new CountDownLatch(1);
            CountDownLatch goOn = new CountDownLatch(1);
            FutureTask<Void> holder =
                    new FutureTask<>(
                            () -> {
                                assertThat(lock.acquire()).isTrue();
                                held.countDown();
                                goOn.await();
                                lock.release();
                                return null;
                            });
            Thread.startVirtualThread(holder);
            held.await();
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
                                    assertThat(lock.acquire()).isTrue();
                                    lock.release();
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

        @Test
        void itIsForeignToNobody() throws Exception {
            assertThat(lock.isForeign()).isFalse();
            elsewhere(() -> assertThat(lock.isForeign()).isFalse());
            assertThat(lock.owner()).isNull();
        }
    }

    @Nested
    class Confined {
        private final QueueLock lock = new QueueLock(Thread.currentThread());

        @Test
        void itsOwnerAcquiresItAgainAndAgain() {
            assertThat(lock.acquire()).isTrue();
            lock.release();
            assertThat(lock.acquire()).isTrue();
            assertThat(lock.isForeign()).isFalse();
        }

        @Test
        void anotherThreadIsRefusedByName() throws Exception {
            Thread owner = Thread.currentThread();
            elsewhere(
                    () -> {
                        assertThat(lock.isForeign()).isTrue();
                        assertThatThrownBy(lock::acquire)
                                .isInstanceOf(WrongThreadException.class)
                                .hasMessageContaining(owner.toString())
                                .hasMessageContaining(Thread.currentThread().toString())
                                .hasMessageContaining("createConfinedCompletionQueue");
                        assertThatThrownBy(lock::close).isInstanceOf(WrongThreadException.class);
                    });
            assertThat(lock.acquire()).isTrue();
        }

        @Test
        void itsOwnerClosesIt() throws Exception {
            lock.close();
            assertThat(lock.acquire()).isFalse();
            elsewhere(
                    () ->
                            assertThatThrownBy(lock::acquire)
                                    .isInstanceOf(WrongThreadException.class));
        }

        @Test
        void noThreadFollowsAnOwnerThatEnded() throws Exception {
            QueueLock[] left = new QueueLock[1];
            elsewhere(() -> left[0] = new QueueLock(Thread.currentThread()));
            assertThatThrownBy(left[0]::acquire).isInstanceOf(WrongThreadException.class);
            assertThatThrownBy(left[0]::close).isInstanceOf(WrongThreadException.class);
        }

        @Test
        void aVirtualThreadOwnsItWhicheverCarrierItIsOn() throws Exception {
            FutureTask<Void> task =
                    new FutureTask<>(
                            () -> {
                                QueueLock own = new QueueLock(Thread.currentThread());
                                for (int i = 0; i < 100; i++) {
                                    assertThat(own.acquire()).isTrue();
                                    own.release();
                                    Thread.yield();
                                }
                                return null;
                            });
            Thread.startVirtualThread(task);
            task.get(30, TimeUnit.SECONDS);
        }
    }

    /** Counts without a barrier of its own: only the lock keeps the count right. */
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

        void enter() {
            ENTRIES.setOpaque(this, entries() + 1);
        }

        long entries() {
            return (long) ENTRIES.getOpaque(this);
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

        /** Its answer, when its thread has ended. */
        T end() throws Exception {
            T answer = task.get();
            thread.join();
            return answer;
        }

        /** Returns when it was seen waiting for a lock for a while. */
        void awaitWaiting() {
            for (int seen = 0; seen < 50; ) {
                assertThat(thread.isAlive()).isTrue();
                boolean waits =
                        Arrays.stream(thread.getStackTrace())
                                .anyMatch(
                                        frame ->
                                                frame.getClassName()
                                                                .equals(QueueLock.class.getName())
                                                        && frame.getMethodName().equals("pause"));
                seen += waits ? 1 : 0;
            }
            assertThat(task.isDone()).isFalse();
        }
    }

    private static void elsewhere(Runnable task) throws Exception {
        new Other<>(Executors.callable(task)).end();
    }
}
