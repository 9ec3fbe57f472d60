package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.internal.verbs.PostedRequest;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Supplier;

/** What a list of buffers looks at, and when. */
@Timeout(60)
class BufferListTest {
    @Test
    @SuppressWarnings("restricted") // nobody looks at this memory
    void oneBufferHoldsWhatVerbsHasBitsFor() {
        MemorySegment huge = MemorySegment.ofAddress(4096).reinterpret(1L << 32);
        BufferList list = new BufferList(2);
        assertThatThrownBy(() -> list.addUnregistered(huge))
                .isInstanceOf(IndexOutOfBoundsException.class)
                .hasMessageContaining("not 4294967296");
        assertThat(list.addUnregistered(huge.asSlice(1)).bytes()).isEqualTo(0xFFFF_FFFFL);
    }

    @Test
    @SuppressWarnings("restricted") // nobody looks at this memory
    void aPartOfARegionIsNoLongerEither() {
        MemorySegment huge = MemorySegment.ofAddress(4096).reinterpret(1L << 33);
        try (Rig rig = Rig.connected(QueuePairLimits.depths(4, 4));
                MemoryRegion region = rig.domain.register(huge, Access.REMOTE_READ)) {
            BufferList list = new BufferList(2);
            assertThatThrownBy(() -> list.add(region, 8, 1L << 32))
                    .isInstanceOf(IndexOutOfBoundsException.class)
                    .hasMessageContaining("not 4294967296");
            assertThatThrownBy(() -> BufferList.of(region))
                    .isInstanceOf(IndexOutOfBoundsException.class);
            assertThat(list.size()).isZero();
            assertThat(list.add(region, 8, 0xFFFF_FFFFL).bytes()).isEqualTo(0xFFFF_FFFFL);
        }
    }

    @Test
    void aFullListSaysSo() {
        MemorySegment memory = MemorySegment.ofAddress(4096);
        BufferList one = new BufferList(1).addUnregistered(memory);
        assertThatThrownBy(() -> one.addUnregistered(memory))
                .isInstanceOf(IndexOutOfBoundsException.class)
                .hasMessage(
                        "This list of buffers is full: it holds 1 buffer at most. Clear it, or create one with a higher capacity");
        BufferList two = new BufferList(2).addUnregistered(memory).addUnregistered(memory);
        assertThatThrownBy(() -> two.addUnregistered(memory))
                .hasMessageContaining("it holds 2 buffers at most");
        assertThat(two.size()).isEqualTo(2);
    }

    /** What fits was added: to a list that the device must not read, as its key is none. */
    @Test
    void aListFilledFromAnotherByHalfIsRefusedLikeThatOne() {
        try (Rig rig = Rig.connected(QueuePairLimits.depths(4, 4));
                Arena arena = Arena.ofShared()) {
            MemorySegment memory = arena.allocate(8);
            BufferList other = new BufferList(2).addUnregistered(memory).addUnregistered(memory);
            BufferList list = new BufferList(1);
            assertThatThrownBy(() -> list.add(other, 0, 16))
                    .isInstanceOf(IndexOutOfBoundsException.class);
            assertThat(list.size()).isEqualTo(1);
            assertThat(rig.a.send(1, list)).isEqualTo(PostResult.NOT_REGISTERED);
        }
    }

    @Test
    void aFullListStaysAsItIs() {
        try (Rig rig = Rig.connected(QueuePairLimits.depths(4, 4));
                Arena arena = Arena.ofShared();
                MemoryRegion region = rig.domain.register(arena.allocate(8), Access.REMOTE_READ)) {
            BufferList other = new BufferList(1).addUnregistered(arena.allocate(8));
            BufferList list = BufferList.of(region);
            assertThatThrownBy(() -> list.add(other, 0, 8))
                    .isInstanceOf(IndexOutOfBoundsException.class);
            assertThat(rig.a.send(1, list)).isEqualTo(PostResult.ACCEPTED);
        }
    }

    /** Its memory is there still, but the device does not know its key any more. */
    @Test
    void aClosedRegionIsRefused() {
        try (Rig rig = Rig.connected(QueuePairLimits.depths(4, 4));
                Arena arena = Arena.ofShared()) {
            MemoryRegion region = rig.domain.register(arena.allocate(64), Access.REMOTE_READ);
            assertThat(BufferList.of(region).bytes()).isEqualTo(64);
            region.close();
            BufferList list = new BufferList(1);
            assertThatThrownBy(() -> list.add(region, 0, 8))
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("closed");
            assertThat(list.size()).isZero();
        }
    }

    /** One thread may use a list at a time; a second one damages nothing but the message. */
    @Nested
    class ChangedByAnotherThread {
        private static final int INLINE_BYTES = 50;

        private static Rig rig() {
            return Rig.connected(
                    QueuePairLimits.depths(16, 16)
                            .withBuffers(1, 1)
                            .withInlineBytes(INLINE_BYTES)
                            .withMaxDeferred(1));
        }

        @Test
        void anInlineRequestCarriesWhatThePostLookedAt() {
            try (Rig rig = rig()) {
                BufferList list = rig.bytes(8);
                rig.device.beforePost = () -> list.clear().add(rig.memory, 0, 300);
                rig.a.send(1, list, OpFlags.INLINE).orThrow();
                assertThat(rig.device.sends.getLast().inline()).hasSize(8);
            }
        }

        @Test
        void noMoreIsCopiedThanARequestHasRoomFor() throws InterruptedException {
            try (Rig rig = rig()) {
                BufferList list = new BufferList(4).add(rig.memory, 0, 40);
                AtomicBoolean over = new AtomicBoolean();
                Thread other =
                        Thread.ofPlatform()
                                .daemon()
                                .start(
                                        () -> {
                                            while (!over.get()) {
                                                list.clear().add(rig.memory, 0, 40);
                                                list.clear();
                                                for (int i = 0; i < 4; i++) {
                                                    list.add(rig.memory, 100L * i, 25);
                                                }
                                            }
                                        });
                try {
                    OpFlags inline = OpFlags.INLINE.and(OpFlags.DEFER).and(OpFlags.SILENT_SUCCESS);
                    BufferList empty = new BufferList(1);
                    for (int i = 0; i < 20_000; i++) {
                        var _ = rig.a.write(1, list, Rig.REMOTE, 1, inline);
                        var _ =
                                rig.a.write(
                                        2,
                                        list,
                                        Rig.REMOTE,
                                        1,
                                        OpFlags.DEFER.and(OpFlags.SILENT_SUCCESS));
                        if (rig.a.receive(3, list).status() == Status.SUCCESS) {
                            rig.b.send(4, empty).orThrow();
                        }
                        if (i % 8 == 7) {
                            for (PostedRequest send : rig.device.sends) {
                                assertThat(send.inline().length).isLessThanOrEqualTo(INLINE_BYTES);
                                assertThat(send.sges().length).isLessThanOrEqualTo(16);
                            }
                            for (PostedRequest receive : rig.device.receives) {
                                assertThat(receive.sges().length).isLessThanOrEqualTo(16);
                            }
                            rig.device.sends.clear();
                            rig.device.receives.clear();
                            rig.poll();
                        }
                    }
                } finally {
                    over.set(true);
                    other.join();
                }
            }
        }
    }

    /** The arena of what a list names is closed, or belongs to another thread. */
    @Nested
    class MemoryThatIsGone {
        private final Rig rig =
                Rig.connected(QueuePairLimits.depths(16, 16).withBuffers(2, 2).withInlineBytes(64));
        private final Arena arena = Arena.ofShared();
        private final MemoryRegion region =
                rig.domain.register(arena.allocate(64), Access.REMOTE_READ, Access.REMOTE_WRITE);

        @AfterEach
        void close() {
            region.close();
            rig.close();
        }

        /** Looked at one by one: only what is gone is missed. */
        @Test
        void isDistinguishedFromMemoryOfOpenArenas() {
            try (Arena other = Arena.ofShared();
                    MemoryRegion there = rig.domain.register(other.allocate(8))) {
                BufferList list = new BufferList(2).add(region, 0, 8).add(there, 0, 8);
                rig.a.write(1, list, Rig.REMOTE, 1, OpFlags.NONE).orThrow();
                assertThat(rig.poll()).containsExactly("WRITE 1 SUCCESS");
                arena.close();
                assertThat(rig.a.write(2, list, Rig.REMOTE, 1, OpFlags.NONE).status())
                        .isEqualTo(Status.ACCESS_VIOLATION);
            }
        }

        @Test
        void isThatOfTheListAsItIsNow() {
            BufferList list = new BufferList(1).add(rig.memory, 0, 8); // whose arena stays open
            list.clear().add(region, 0, 8);
            rig.a.write(1, list, Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            arena.close();
            assertThat(rig.a.write(2, list, Rig.REMOTE, 1, OpFlags.NONE).status())
                    .isEqualTo(Status.ACCESS_VIOLATION);
        }

        @Test
        void isNotAdded() {
            MemorySegment unregistered = arena.allocate(8);
            arena.close();
            BufferList list = new BufferList(2).add(rig.memory, 0, 8);
            assertThatThrownBy(() -> list.add(region, 0, 8))
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("arena was closed");
            assertThatThrownBy(() -> list.addUnregistered(unregistered))
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("arena was closed");
            assertThat(list.size()).isEqualTo(1);
            rig.a.write(1, list, Rig.REMOTE, 1, OpFlags.NONE).orThrow();
        }

        /**
         * A program may post until a post returns CONNECTION_INVALID. After a close it must get
         * that status even if the arena of its memory is closed by then.
         */
        @Test
        void isNotWhatAClosedQueueSays() {
            SharedReceiveQueue shared = rig.domain.createSharedReceiveQueue(4, 1, s -> {});
            BufferList list = new BufferList(1).add(region, 0, 8);
            rig.a.close();
            shared.close();
            arena.close();
            assertThat(rig.a.receive(1, list).status()).isEqualTo(Status.CONNECTION_INVALID);
            assertThat(shared.receive(1, list).status()).isEqualTo(Status.CONNECTION_INVALID);
            assertThat(rig.a.send(1, list).status()).isEqualTo(Status.CONNECTION_INVALID);
        }

        @Test
        void isRefusedByEachPost() {
            try (SharedReceiveQueue shared = rig.domain.createSharedReceiveQueue(4, 1, s -> {});
                    MemoryWindow window = rig.domain.createMemoryWindow()) {
                BufferList alone = new BufferList(1).add(region, 0, 8);
                BufferList second = new BufferList(2).add(rig.memory, 0, 8).add(region, 0, 8);
                arena.close();
                OpFlags both = OpFlags.ALLOW_REMOTE_READ.and(OpFlags.ALLOW_REMOTE_WRITE);
                List<Supplier<PostResult>> posts =
                        List.of(
                                () -> rig.a.send(1, alone),
                                () -> rig.a.send(1, second),
                                () -> rig.a.send(1, alone, OpFlags.INLINE),
                                () -> rig.a.send(1, second, OpFlags.INLINE),
                                () -> rig.a.send(1, alone, OpFlags.DEFER),
                                () -> rig.a.send(1, alone, OpFlags.DEFER.and(OpFlags.INLINE)),
                                () -> rig.a.sendWithImmediate(1, alone, 1, OpFlags.NONE),
                                () -> rig.a.sendAndInvalidate(1, alone, 1, OpFlags.NONE),
                                () -> rig.a.write(1, alone, Rig.REMOTE, 1, OpFlags.NONE),
                                () -> rig.a.read(1, second, Rig.REMOTE, 1, OpFlags.NONE),
                                () -> rig.a.fetchAndAdd(1, alone, Rig.REMOTE, 1, 1, OpFlags.NONE),
                                () -> rig.a.bind(1, window, region, 0, 8, both),
                                () -> rig.a.receive(1, alone),
                                () -> rig.a.receive(1, second),
                                () -> shared.receive(1, alone));
                for (Supplier<PostResult> post : posts) {
                    assertThat(post.get().status()).isEqualTo(Status.ACCESS_VIOLATION);
                }
                assertThat(rig.device.sends).isEmpty();
                assertThat(rig.device.receives).isEmpty();
                assertThat(rig.a.connected()).isTrue();

                // The list itself is good for other memory, and for none.
                rig.a.write(2, alone.clear(), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
                rig.a.write(3, alone.add(rig.memory, 0, 8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
                second.clear().add(rig.memory, 0, 8).add(rig.memory, 8, 8);
                rig.a.write(4, second, Rig.REMOTE, 1, OpFlags.INLINE).orThrow();
                assertThat(rig.poll())
                        .containsExactly("WRITE 2 SUCCESS", "WRITE 3 SUCCESS", "WRITE 4 SUCCESS");
            }
        }

        @Test
        void orAnotherThreadsIsReadByItsThreadOnly() throws Exception {
            try (MemoryRegion confined = rig.memoryOfAnotherThread()) {
                assertThatThrownBy(() -> new BufferList(1).addUnregistered(confined.memory()))
                        .isInstanceOf(WrongThreadException.class)
                        .hasMessageContaining("Arena.ofShared()");
                BufferList list = new BufferList(1).add(confined, 0, 8);
                rig.a.write(1, list, Rig.REMOTE, 1, OpFlags.NONE).orThrow();
                for (OpFlags flags :
                        new OpFlags[] {OpFlags.INLINE, OpFlags.INLINE.and(OpFlags.DEFER)}) {
                    assertThat(rig.a.write(2, list, Rig.REMOTE, 1, flags).status())
                            .isEqualTo(Status.ACCESS_VIOLATION);
                }
                assertThat(rig.poll()).containsExactly("WRITE 1 SUCCESS");
            }
            arena.close();
        }
    }
}
