package dev.verbena.messaging;

import static dev.verbena.messaging.OneThread.READ;
import static dev.verbena.messaging.OneThread.text;

import dev.verbena.Status;
import dev.verbena.child.FullHeap;
import dev.verbena.internal.queue.EventChannel;
import dev.verbena.messaging.WaitingRequests.Request;

import org.jspecify.annotations.Nullable;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** What a channel does while the heap is full. */
final class WithoutMemory {
    private static final int MANY = 20;
    private static final int BLOCK_BYTES = 5000;

    private static int done; // of what was to be done with a full heap
    private static boolean failed; // for lack of memory
    private static volatile Object @Nullable [] filled;

    private WithoutMemory() {}

    public static void main(String[] arguments) {
        try (OneThread two = OneThread.open()) {
            System.out.println(failingTask(two)); // the first problem to be reported
            System.out.println(waiters(two));
            System.out.println(ends(two));
            System.out.println(blocks(two));
            System.out.println(releases(two));
            System.out.println(events(two));
        }
    }

    private static void withFullHeap(Runnable action) {
        done = 0;
        failed = false;
        FullHeap.during(
                () -> {
                    try {
                        action.run();
                    } catch (OutOfMemoryError e) {
                        failed = true;
                    }
                });
    }

    /** A task of a polling thread fails, and there is no memory to report that. */
    private static String failingTask(OneThread two) {
        CountDownLatch goesOn = new CountDownLatch(1);
        try (Poller poller = Poller.start(two.poller.adapter(), IdleStrategy.events())) {
            boolean isOver = poller.thread.getState() == Thread.State.TERMINATED;
            poller.execute(
                    () -> {
                        filled = FullHeap.fill();
                        throw new IllegalStateException();
                    });
            while (filled == null) {
                Thread.onSpinWait();
            }
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(10);
            while (!isOver && System.nanoTime() - end < 0) { // ended, or waiting for the next round
                Thread.State state = poller.thread.getState();
                isOver = state == Thread.State.TIMED_WAITING || state == Thread.State.TERMINATED;
            }
            filled = null;
            poller.execute(goesOn::countDown);
            return "the thread of a poller goes on: %s, alive: %s"
                    .formatted(goesOn.await(10, TimeUnit.SECONDS), poller.thread.isAlive());
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** A request that finds no memory does not count as waiting. */
    private static String waiters(OneThread two) {
        WaitingRequests waiting = new WaitingRequests(two.poller);
        Request request =
                new Request(
                        RequestKind.SEND, text("x"), null, null, new CompletableFuture<>(), false);
        withFullHeap(() -> done += waiting.add(request) ? 1 : 0);
        int more = 0;
        while (waiting.add(request)) {
            more++;
        }
        return "out of memory: %s, %d waits, then %d".formatted(failed, done, more);
    }

    /** The peer takes exposures back, also such as it was asked for. */
    private static String ends(OneThread two) {
        Exposures exposures = two.a.exposures;
        int most = exposures.most();
        List<Exposure> all = new ArrayList<>();
        Runnable takeBack =
                () -> {
                    for (int i = 0; i < all.size(); i++) {
                        int token = all.get(i).token;
                        Exposure taken = exposures.takenBack(token, Frame.MESSAGE, null);
                        exposures.report(taken, Status.SUCCESS, null);
                        done += all.get(i).state == Exposure.State.ENDED ? 1 : 0;
                        done += i % 2 == 0 || exposures.givenBack(token) ? 1 : 0;
                    }
                };
        takeBack.run(); // loads classes
        for (int i = 0; i < most; i++) {
            Exposure exposure = two.tryExpose(100, READ, (ended, status, message) -> {}, null);
            all.add(exposure);
            two.announce(exposure);
            two.hangs = true; // the peer does not answer
            if (i % 2 == 1) {
                exposure.revoke();
            }
        }
        withFullHeap(takeBack);
        return "out of memory: %s, %d of %d steps".formatted(failed, done, 2 * most);
    }

    /** Memory for large messages is given back, and taken again. */
    private static String blocks(OneThread two) {
        LargeMemory large = two.poller.memory().large();
        large.raiseLimit(MANY * BLOCK_BYTES);
        LargeMemory.Block[] all = new LargeMemory.Block[MANY];
        Arrays.setAll(all, i -> large.take(BLOCK_BYTES, two.a, 0, 0));
        Runnable giveBack =
                () -> {
                    for (LargeMemory.Block block : all) {
                        large.giveBack(block);
                    }
                };
        withFullHeap(giveBack);
        int same = 0;
        for (int i = MANY - 1; i >= 0; i--) {
            same += all[i] == large.take(BLOCK_BYTES, two.a, 0, 0) ? 1 : 0;
        }
        giveBack.run();
        return "out of memory: %s, %d of %d blocks".formatted(failed, same, MANY);
    }

    /** The program releases large messages. */
    private static String releases(OneThread two) {
        LargeArrivals arrivals = new LargeArrivals(two.a, two.a.outbox);
        Message[] messages = new Message[MANY];
        for (int i = 0; i < MANY; i++) {
            arrivals.announced(BLOCK_BYTES);
            messages[i] = new Message();
            messages[i].block = two.poller.memory().large().take(BLOCK_BYTES, two.a, 0, 0);
        }
        withFullHeap(
                () -> {
                    for (int i = 0; i < MANY; i++) {
                        arrivals.released(messages[i], messages[i]);
                    }
                });
        return "out of memory: %s, %d messages left".formatted(failed, arrivals.held());
    }

    /** A completion queue that fires at each raise. */
    private static final class Fires implements EventChannel.Member {
        final EventChannel<Fires>.Entry entry;

        Fires(EventChannel<Fires> channel) {
            entry = channel.reserve();
            entry.enter(this);
        }

        @Override
        public boolean collect(int events) {
            return true;
        }

        @Override
        public boolean expectsEvent() {
            return false;
        }

        @Override
        public void channelFailed(int errno) {}
    }

    /** Completion queues fire. */
    private static String events(OneThread two) {
        EventChannel<Fires> channel = new EventChannel<>(two.device);
        Fires[] all = new Fires[MANY];
        Arrays.setAll(all, i -> new Fires(channel));
        Runnable raise =
                () -> {
                    for (Fires one : all) {
                        one.entry.raise();
                    }
                };
        all[0].entry.raise(); // loads classes
        withFullHeap(raise);
        int fired = 0;
        while (channel.await(0) != null) {
            fired++;
        }
        channel.free();
        two.device.destroyChannel(channel.address());
        return "out of memory: %s, %d of %d queues fire".formatted(failed, fired, MANY);
    }
}
