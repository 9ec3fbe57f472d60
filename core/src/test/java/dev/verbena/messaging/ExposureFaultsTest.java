package dev.verbena.messaging;

import static dev.verbena.messaging.OneThread.LONG;
import static dev.verbena.messaging.OneThread.READ;
import static dev.verbena.messaging.OneThread.WRITE;
import static dev.verbena.messaging.OneThread.text;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.BufferList;
import dev.verbena.RemoteMemory;
import dev.verbena.Status;

import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;

import org.junit.jupiter.api.Test;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;

/** Whatever fails, wherever: every waiter hears it once, and no key is invalidated twice. */
class ExposureFaultsTest {
    private static final MessagingOptions SMALL =
            MessagingOptions.DEFAULTS
                    .withMaxMessage(100)
                    .withOutstanding(4)
                    .withReceives(4)
                    .withExposures(3);

    /** Everything that can be done with an exposure; returns how many ends there must be. */
    private static int exchange(OneThread two, List<CompletableFuture<?>> futures) {
        int ends = 0;
        List<RemoteMemory> known = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            Exposure exposure =
                    two.tryExpose(
                            1000,
                            WRITE.and(READ),
                            (ended, status, message) -> two.log.add("end " + status.name()),
                            null);
            if (exposure != null) {
                ends++;
                if (i == 2) {
                    exposure.revoke(); // the peer has not heard of it
                } else {
                    known.add(exposure.remoteMemory());
                }
            }
        }
        if (two.a.trySend(text("exposed"), 0, 7, two.logged(), "end").isSuccess()) {
            ends++;
        }
        two.run();
        PeerMemory memory = two.b.peerMemory();
        BufferList bytes = two.bytes("bytes");
        for (RemoteMemory remote : known) {
            if (memory.tryWrite(bytes, remote, 0, two.logged(), "end").isSuccess()) {
                ends++;
            }
            if (memory.tryRead(bytes, remote, 0, two.logged(), "end").isSuccess()) {
                ends++;
            }
            if (remote == known.getFirst()) {
                if (memory.tryWriteAndInvalidate(
                                bytes, remote, 0, text("m"), 0, 1, two.logged(), "end")
                        .isSuccess()) {
                    ends++;
                }
            } else {
                futures.add(memory.sendAndInvalidateAsync(text("m"), remote));
            }
            futures.add(two.a.sendAsync(text("between")));
            two.run();
        }
        Exposure last = two.a.isOpen() ? two.expose(WRITE, LONG) : null;
        if (last != null) {
            ends++;
            futures.add(two.a.sendAsync(text("announced")));
            two.run();
            last.revoke();
            two.run();
        }
        return ends;
    }

    private static void check(OneThread two, int ends, List<CompletableFuture<?>> futures) {
        two.a.fail(Status.CANCELLED, "of a test", null);
        two.b.fail(Status.CANCELLED, "of a test", null);
        two.run();
        assertThat(two.log.stream().filter(one -> !one.startsWith("a got")))
                .as("ends of %s", two.log)
                .hasSize(ends)
                .noneMatch(one -> one.contains("in use"));
        assertThat(futures).allMatch(CompletableFuture::isDone);
        assertThat(two.a.closed()).isDone();
        assertThat(two.b.closed()).isDone();
    }

    @Test
    void everyFailureReachesEveryWaiterOnce() {
        List<Integer> posts = cleanRun();
        int requests = posts.stream().mapToInt(Integer::intValue).sum();
        for (int i = 0; i < requests; i++) {
            int index = i;
            boolean open =
                    brokenRun(
                            "failed request " + i,
                            two -> {
                                two.device.failAt = index;
                                two.device.failStatus = 10; // REM_ACCESS_ERR
                            });
            assertThat(open).isFalse();
        }
    }

    @Test
    void everyRefusalReachesEveryWaiterOnce() {
        List<Integer> posts = cleanRun();
        int closed = 0; // what refuses a mere write or read leaves the channel open
        for (int i = 0; i < posts.size(); i++) {
            for (int refused = 0; refused < posts.get(i); refused++) {
                int post = i;
                int request = refused;
                boolean open =
                        brokenRun(
                                "refused request %d of post %d".formatted(refused, i),
                                two -> refuseAt(two, post, request));
                closed += open ? 0 : 1;
            }
        }
        assertThat(closed).isGreaterThan(posts.size() / 2);
    }

    /** How many requests each post has when nothing fails. */
    private static List<Integer> cleanRun() {
        try (OneThread two = new OneThread(SMALL, (channel, message) -> {})) {
            List<CompletableFuture<?>> futures = new ArrayList<>();
            int ends = exchange(two, futures);
            List<Integer> posts = List.copyOf(two.device.chains);
            assertThat(two.a.isOpen()).isTrue();
            assertThat(futures).noneMatch(CompletableFuture::isCompletedExceptionally);
            check(two, ends, futures);
            assertThat(posts).hasSizeGreaterThan(10);
            return posts;
        }
    }

    /** Returns whether both channels were open after all of it. */
    private static boolean brokenRun(String what, Consumer<OneThread> fault) {
        try (OneThread two = new OneThread(SMALL, (channel, message) -> {})) {
            fault.accept(two);
            List<CompletableFuture<?>> futures = new ArrayList<>();
            int ends = exchange(two, futures);
            boolean open = two.a.isOpen() && two.b.isOpen();
            check(two, ends, futures);
            return open;
        } catch (AssertionError e) {
            throw new AssertionError(what, e);
        }
    }

    /** The provider refuses a request of the post of this number. */
    private static void refuseAt(OneThread two, int post, int request) {
        two.device.beforePost =
                () -> {
                    if (post == 0) {
                        two.device.answer = 22; // EINVAL
                        two.device.refused = request;
                    } else {
                        refuseAt(two, post - 1, request);
                    }
                };
    }

    /** Both sides do what they like, in any order; at the end all is as it was. */
    @Property(tries = 300)
    void noKeyIsInvalidatedTwiceAndEveryEndIsHeardOnce(
            @ForAll long seed, @ForAll @IntRange(min = 1, max = 4) int most) {
        Random random = new Random(seed);
        Map<Integer, String> ended = new HashMap<>(); // by the number of the exposure
        Map<Integer, Exposure> open = new HashMap<>();
        List<RemoteMemory> known = new ArrayList<>(); // to b, though they may be gone
        int[] answers = {0, 0}; // accepted, ended
        int made = 0;
        try (OneThread two = new OneThread(SMALL.withExposures(most), (channel, message) -> {})) {
            for (int step = 0; step < 300; step++) {
                switch (random.nextInt(7)) {
                    case 0 -> {
                        Exposure exposure =
                                two.tryExpose(
                                        1000,
                                        WRITE.and(READ),
                                        (one, status, message) -> {
                                            Integer number = (Integer) one.attachment();
                                            String before =
                                                    ended.put(
                                                            number,
                                                            status.name()
                                                                    + (two.device.honours(one.token)
                                                                            ? ", in use"
                                                                            : ""));
                                            assertThat(before).isNull();
                                            open.remove(number);
                                        },
                                        made);
                        if (exposure != null) {
                            open.put(made++, exposure);
                            known.add(exposure.remoteMemory());
                        }
                    }
                    case 1 -> {
                        boolean _ = two.a.trySend(text("hello")).isSuccess();
                    }
                    case 2 ->
                            open.values().stream()
                                    .skip(random.nextInt(open.size() + 1))
                                    .findFirst()
                                    .ifPresent(Exposure::revoke);
                    case 3, 4 -> {
                        if (!known.isEmpty()) {
                            use(two, known.get(random.nextInt(known.size())), random, answers);
                        }
                    }
                    case 5 -> two.poller.poll();
                    default -> two.pollerOfB.poll();
                }
                two.device.running = random.nextInt(3) > 0;
                if (random.nextInt(4) == 0) {
                    two.device.runOne();
                }
            }
            two.device.resume();
            two.run();
            open.values().forEach(Exposure::revoke);
            two.run();
            assertThat(two.a.isOpen()).as("a: %s", two.a.closeReason()).isTrue();
            assertThat(two.b.isOpen()).as("b: %s", two.b.closeReason()).isTrue();
            assertThat(ended).hasSize(made);
            assertThat(ended.values()).allMatch(one -> one.matches("SUCCESS|CANCELLED"));
            assertThat(ended.values().stream().filter("SUCCESS"::equals).count())
                    .as("answers")
                    .isEqualTo(answers[0])
                    .isEqualTo(answers[1]);
            for (int i = 0; i < most; i++) {
                two.announce(two.expose(WRITE, LONG)); // all windows are free
            }
        }
    }

    private static void use(OneThread two, RemoteMemory remote, Random random, int[] answers) {
        PeerMemory memory = two.b.peerMemory();
        BufferList bytes = two.bytes("bytes");
        SendCallback answered = (channel, attachment, status) -> answers[1]++;
        boolean accepted =
                switch (random.nextInt(4)) {
                    case 0 -> {
                        boolean _ = memory.tryWrite(bytes, remote, 0, null, null).isSuccess();
                        yield false;
                    }
                    case 1 -> {
                        boolean _ = memory.tryRead(bytes, remote, 0, null, null).isSuccess();
                        yield false;
                    }
                    case 2 ->
                            memory.trySendAndInvalidate(text("m"), 0, 1, remote, answered, null)
                                    .isSuccess();
                    default ->
                            memory.tryWriteAndInvalidate(
                                            bytes, remote, 1, text("m"), 0, 1, answered, null)
                                    .isSuccess();
                };
        if (accepted) {
            answers[0]++;
        }
    }
}
