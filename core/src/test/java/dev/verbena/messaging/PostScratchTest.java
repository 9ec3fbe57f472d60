package dev.verbena.messaging;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.Status;
import dev.verbena.Until;

import org.junit.jupiter.api.Test;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicBoolean;

/** The list and the memory of a post, which the channels of a poller share. */
class PostScratchTest {
    private static final MessagingOptions SMALL =
            MessagingOptions.DEFAULTS.withMaxMessage(256).withOutstanding(4);
    private static final Duration LONG = Duration.ofSeconds(20);

    /** The polling thread may be composing in its own. */
    @Test
    void anotherThreadComposesInOneThatItBorrows() throws Exception {
        try (Two two = new Two(SMALL, null, null)) {
            PollerMemory memory = two.poller.memory();
            PostScratch spare = spare(memory);
            String text = "from another thread";
            byte[] data = text.getBytes(StandardCharsets.ISO_8859_1);
            assertThat(two.a.trySend(MemorySegment.ofArray(data))).isEqualTo(Status.SUCCESS);
            try (Message message = two.b.receive(LONG)) {
                assertThat(message.length()).isEqualTo(data.length);
            }
            assertThat(text(spare)).contains(text);
            assertThat(text(memory.scratch(1))).doesNotContain(text);
            assertThat(spare(memory)).as("given back").isSameAs(spare);
        }
    }

    @Test
    void aPostThatThrowsGivesItBack() {
        try (Two two = new Two(SMALL, null, null)) {
            PollerMemory memory = two.poller.memory();
            PostScratch spare = spare(memory);
            Arena arena = Arena.ofShared();
            MemorySegment closed = arena.allocate(16);
            arena.close();
            assertThatThrownBy(() -> two.a.trySend(closed))
                    .isInstanceOf(IllegalStateException.class);
            assertThat(spare(memory)).isSameAs(spare);
        }
    }

    @Test
    void twoThreadsAtATimeBorrowTwo() {
        try (Two two = new Two(SMALL, null, null)) {
            PollerMemory memory = two.poller.memory();
            PostScratch one = memory.borrow();
            PostScratch other = memory.borrow();
            assertThat(other).isNotSameAs(one).isNotSameAs(memory.scratch(1));
            memory.giveBack(one);
            memory.giveBack(other);
            assertThat(memory.borrow()).as("the one that was in use last").isSameAs(other);
            assertThat(memory.borrow()).isSameAs(one);
        }
    }

    /** A control frame must not fail because others post at the same time. */
    @Test
    void withoutMemoryForAnotherItWaitsForOneThatIsInUse() throws Exception {
        try (Two two = new Two(SMALL, null, null)) {
            PollerMemory memory = two.poller.memory();
            two.device.beforeStep =
                    step -> {
                        if (step.equals("registerMemory")) {
                            throw new OutOfMemoryError("of a test");
                        }
                    };
            BlockingQueue<PostScratch> borrowed = new LinkedBlockingQueue<>();
            AtomicBoolean enough = new AtomicBoolean();
            Thread borrows =
                    Thread.startVirtualThread(
                            () -> {
                                while (!enough.get()) {
                                    borrowed.add(memory.borrow());
                                }
                            });
            Until.isIn(borrows, Thread.State.WAITING);
            borrows.interrupt();
            PostScratch first = borrowed.remove();
            enough.set(true);
            memory.giveBack(first);
            assertThat(borrows.join(LONG)).isTrue();
            assertThat(borrowed).last().isSameAs(first);
        }
    }

    /** That which another thread would borrow now. */
    private static PostScratch spare(PollerMemory memory) {
        PostScratch spare = memory.borrow();
        memory.giveBack(spare);
        return spare;
    }

    private static String text(PostScratch scratch) {
        MemorySegment memory = scratch.region.memory().asSlice(scratch.at, PostScratch.BYTES);
        return new String(memory.toArray(ValueLayout.JAVA_BYTE), StandardCharsets.ISO_8859_1)
                .replaceAll("[^ -~]", ".");
    }
}
