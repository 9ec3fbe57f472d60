package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.bindings.ibv_send_wr;
import dev.verbena.internal.verbs.PostedRequest;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.List;

/** Recorded requests of a batch of which a part is replaced between two posts. */
class PreparedRequestsTest {
    private static final int DEPTH = 16;
    private static final int POINTERS = 24; // wr_id, next and sg_list, which differ

    private static Rig rig() {
        return Rig.connected(
                QueuePairLimits.depths(DEPTH, 16).withBuffers(4, 1).withInlineBytes(64));
    }

    /** All fields of a request and its buffers, as the provider has seen them last. */
    private static List<Object> last(Rig rig) {
        PostedRequest posted = rig.device.sends.getLast();
        byte[] fields = Arrays.copyOfRange(posted.request(), POINTERS, (int) ibv_send_wr.sizeof());
        boolean inline = posted.inline().length > 0; // then its buffers are in the request
        return List.of(
                Arrays.toString(fields),
                inline ? "" : Arrays.toString(posted.sges()),
                Arrays.toString(posted.inline()));
    }

    /** Each kind of request, replaced and then posted, and one that was recorded like that. */
    @Test
    void areAsIfTheyHadBeenRecordedLikeThat() {
        try (Rig rig = rig()) {
            BufferList two = new BufferList(2).add(rig.memory, 8, 4).add(rig.memory, 64, 3);
            BufferList three = new BufferList(3).add(rig.memory, 0, 1).add(rig.memory, 9, 2);
            three.add(rig.memory, 80, 5);
            BufferList eight = rig.bytes(8);
            OpFlags inline = OpFlags.INLINE;
            RequestBatch one = new RequestBatch(rig.a, 7);
            one.write(1, two, Rig.REMOTE, 7, OpFlags.NONE).orThrow();
            one.read(2, two, Rig.REMOTE, 7, OpFlags.READ_FENCE).orThrow();
            one.compareAndSwap(3, eight, Rig.REMOTE, 7, 5, 6, OpFlags.NONE).orThrow();
            one.fetchAndAdd(4, eight, Rig.REMOTE, 7, 5, OpFlags.NONE).orThrow();
            one.writeWithImmediate(5, two, Rig.REMOTE, 7, 98, OpFlags.NONE).orThrow();
            one.sendAndInvalidate(6, two, 7, OpFlags.NONE).orThrow();
            one.write(7, two, Rig.REMOTE, 7, inline).orThrow();
            for (int i = 0; i < 7; i++) {
                BufferList buffers = i == 2 || i == 3 ? rig.bytes(8) : three;
                one.buffers(i, buffers).orThrow();
                if (i == 5) {
                    one.remoteToken(i, 0xFFFF_0008);
                } else {
                    one.remote(i, Rig.REMOTE + 16, 8);
                }
            }
            RequestBatch other = new RequestBatch(rig.a, 7);
            other.write(1, three, Rig.REMOTE + 16, 8, OpFlags.NONE).orThrow();
            other.read(2, three, Rig.REMOTE + 16, 8, OpFlags.READ_FENCE).orThrow();
            other.compareAndSwap(3, eight, Rig.REMOTE + 16, 8, 5, 6, OpFlags.NONE).orThrow();
            other.fetchAndAdd(4, eight, Rig.REMOTE + 16, 8, 5, OpFlags.NONE).orThrow();
            other.writeWithImmediate(5, three, Rig.REMOTE + 16, 8, 98, OpFlags.NONE).orThrow();
            other.sendAndInvalidate(6, three, 0xFFFF_0008, OpFlags.NONE).orThrow();
            other.write(7, three, Rig.REMOTE + 16, 8, inline).orThrow();
            rig.b.receive(1, rig.bytes(64)).orThrow();
            rig.b.receive(2, rig.bytes(64)).orThrow();
            one.post().orThrow();
            List<PostedRequest> replaced = List.copyOf(rig.device.sends);
            List<String> ends = rig.poll();
            rig.device.sends.clear();
            rig.b.receive(1, rig.bytes(64)).orThrow();
            rig.b.receive(2, rig.bytes(64)).orThrow();
            other.post().orThrow();
            List<PostedRequest> recorded = List.copyOf(rig.device.sends);
            for (int i = 0; i < 7; i++) {
                rig.device.sends.add(replaced.get(i));
                List<Object> seen = last(rig);
                rig.device.sends.add(recorded.get(i));
                assertThat(seen).as("request %d", i).isEqualTo(last(rig));
            }
            assertThat(rig.poll()).isEqualTo(ends);
            assertThat(rig.a.counters().requests().bytes()).isEqualTo(2 * (5 * 8 + 2 * 8));
        }
    }

    @Test
    void inlineBytesAreCopiedWhenTheyAreReplacedAlsoWhereThereWereNone() {
        try (Rig rig = rig()) {
            BufferList none = new BufferList(1);
            BufferList list = rig.bytes(2);
            RequestBatch batch = new RequestBatch(rig.a, 1);
            batch.write(1, none, Rig.REMOTE, 7, OpFlags.INLINE).orThrow();
            rig.memory.memory().set(ValueLayout.JAVA_BYTE, 0, (byte) 5);
            batch.buffers(0, list).orThrow();
            rig.memory.memory().set(ValueLayout.JAVA_BYTE, 0, (byte) 6);
            batch.post().orThrow();
            assertThat(rig.device.sends.getLast().inline()).containsExactly(5, 0);
            batch.buffers(0, none).orThrow();
            batch.post().orThrow();
            assertThat(rig.device.sends.getLast().inline()).isEmpty();
            assertThat(rig.device.sends.getLast().sges()).isEmpty();
            assertThat(rig.poll()).containsExactly("WRITE 1 SUCCESS", "WRITE 1 SUCCESS");
        }
    }

    @Test
    void whatIsRefusedLeavesThemAsTheyWere() {
        try (Rig rig = rig();
                Arena arena = Arena.ofConfined();
                ProtectionDomain elsewhere = rig.adapter.createProtectionDomain();
                MemoryRegion foreign = elsewhere.register(arena.allocate(8))) {
            RemoteMemory peer = new RemoteMemory(Rig.REMOTE, 7, 64);
            RequestBatch batch = new RequestBatch(rig.a, 3);
            batch.write(1, rig.bytes(40), peer, 0, OpFlags.NONE).orThrow();
            batch.write(2, rig.bytes(8), peer, 0, OpFlags.INLINE).orThrow();
            batch.fetchAndAdd(3, rig.bytes(8), Rig.REMOTE, 7, 5, OpFlags.NONE).orThrow();
            batch.post().orThrow();
            List<PostedRequest> before = List.copyOf(rig.device.sends);
            rig.device.sends.clear();

            assertThat(batch.remote(0, peer, 25).status()).isEqualTo(Status.INVALID_PARAMETER);
            assertThat(batch.remote(0, peer, -1).status()).isEqualTo(Status.INVALID_PARAMETER);
            assertThat(batch.remote(2, peer, 4).status()).isEqualTo(Status.INVALID_PARAMETER);
            assertThatThrownBy(() -> batch.remote(2, Rig.REMOTE + 7, 7))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageStartingWith("Request 2 of the batch is a fetchAndAdd, which")
                    .hasMessageEndingWith("multiple of 8, not 0x700000000007");
            BufferList five = new BufferList(5);
            for (int i = 0; i < 5; i++) {
                five.add(rig.memory, i, 1);
            }
            assertThat(batch.buffers(0, five).isAccepted()).isFalse();
            BufferList others = new BufferList(1).add(foreign, 0, 8);
            assertThat(batch.buffers(0, others).isAccepted()).isFalse();
            assertThat(batch.buffers(1, rig.bytes(65)).isAccepted()).isFalse();
            assertThat(batch.buffers(2, rig.bytes(4)).isAccepted()).isFalse();
            assertThatThrownBy(() -> batch.buffers(3, rig.bytes(8)))
                    .isInstanceOf(IndexOutOfBoundsException.class);
            assertThatThrownBy(() -> batch.remote(-1, Rig.REMOTE, 1))
                    .isInstanceOf(IndexOutOfBoundsException.class);
            assertThatThrownBy(() -> batch.remoteToken(0, 1))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessage("Request 0 of the batch is a write, which invalidates no token");

            batch.remote(0, peer, 24).orThrow();
            batch.remote(0, peer, 0).orThrow();
            batch.post().orThrow();
            for (int i = 0; i < 3; i++) {
                byte[] now = rig.device.sends.get(i).request();
                assertThat(Arrays.copyOfRange(now, POINTERS, now.length))
                        .isEqualTo(
                                Arrays.copyOfRange(before.get(i).request(), POINTERS, now.length));
                assertThat(rig.device.sends.get(i).inline()).isEqualTo(before.get(i).inline());
            }
            assertThat(rig.poll()).hasSize(6).allMatch(end -> end.endsWith(" SUCCESS"));
            assertThat(rig.a.counters().requests().bytes()).isEqualTo(2 * (40 + 8 + 8));
        }
    }

    @Test
    void whatIsReplacedTwiceIsStillInlineAndHasItsLength() {
        RemoteMemory peer = new RemoteMemory(Rig.REMOTE, 7, 8);
        try (Rig rig = rig()) {
            RequestBatch batch = new RequestBatch(rig.a, 1);
            batch.write(1, rig.bytes(8), Rig.REMOTE, 1, OpFlags.INLINE).orThrow();
            batch.buffers(0, rig.bytes(2)).orThrow();
            batch.buffers(0, rig.bytes(4)).orThrow();
            assertThat(batch.remote(0, peer, 5).status()).isEqualTo(Status.INVALID_PARAMETER);
            batch.remote(0, peer, 4).orThrow();
            batch.post().orThrow();
            List<Object> seen = last(rig);
            rig.a.write(1, rig.bytes(4), peer, 4, OpFlags.INLINE).orThrow();
            assertThat(seen).isEqualTo(last(rig));
            rig.poll();
        }
    }

    @Test
    void eachHasItsOwnContextAndCallsMayBeChained() {
        try (Rig rig = rig()) {
            RequestBatch batch = new RequestBatch(rig.a, 4);
            for (int i = 0; i < 4; i++) {
                batch.write(i, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            }
            for (int i = 0; i < 4; i++) {
                assertThat(batch.context(i, 10 + i)).isSameAs(batch);
                assertThat(batch.remote(i, Rig.REMOTE, 2)).isSameAs(batch);
            }
            batch.post().orThrow();
            assertThat(rig.poll())
                    .containsExactly(
                            "WRITE 10 SUCCESS",
                            "WRITE 11 SUCCESS",
                            "WRITE 12 SUCCESS",
                            "WRITE 13 SUCCESS");
            batch.clear();
            batch.sendAndInvalidate(1, rig.bytes(8), 1, OpFlags.NONE).orThrow();
            assertThat(batch.remoteToken(0, 2)).isSameAs(batch);
        }
    }

    @Test
    void bytesOfAnotherThreadsMemoryAreNotCopied() throws Exception {
        try (Rig rig = rig()) {
            try (MemoryRegion confined = rig.memoryOfAnotherThread()) {
                BufferList list = new BufferList(1).add(confined, 0, 8);
                RequestBatch batch = new RequestBatch(rig.a, 2);
                assertThat(batch.write(1, list, Rig.REMOTE, 1, OpFlags.INLINE).status())
                        .isEqualTo(Status.ACCESS_VIOLATION);
                assertThat(batch.size()).isZero();
                batch.write(1, rig.bytes(8), Rig.REMOTE, 1, OpFlags.INLINE).orThrow();
                assertThat(batch.buffers(0, list).status()).isEqualTo(Status.ACCESS_VIOLATION);
            }
        }
    }

    /** Whichever of two arenas it is, and however many buffers a request may have. */
    @ParameterizedTest
    @CsvSource({"1, true", "1, false", "4, true", "4, false"})
    void memoryOfEachArenaIsLookedAt(int buffers, boolean first) {
        QueuePairLimits limits = QueuePairLimits.depths(DEPTH, 16).withBuffers(buffers, 1);
        try (Rig rig = Rig.connected(limits);
                Arena stays = Arena.ofShared()) {
            Arena goes = Arena.ofShared();
            try (MemoryRegion lasting = rig.domain.register(stays.allocate(8));
                    MemoryRegion gone = rig.domain.register(goes.allocate(8))) {
                RequestBatch batch = new RequestBatch(rig.a, 2);
                for (MemoryRegion region :
                        first ? List.of(gone, lasting) : List.of(lasting, gone)) {
                    BufferList list = new BufferList(1).add(region, 0, 8);
                    batch.write(1, list, Rig.REMOTE, 1, OpFlags.NONE).orThrow();
                }
                batch.post().orThrow();
                assertThat(rig.poll()).hasSize(2);
                goes.close();
                assertThat(batch.post().status()).isEqualTo(Status.ACCESS_VIOLATION);
            }
        }
    }

    @Test
    void arenasThatWereForgottenMayGo() {
        try (Rig rig = rig();
                Arena one = Arena.ofShared();
                Arena two = Arena.ofShared()) {
            Arena goes = Arena.ofShared();
            try (MemoryRegion gone = rig.domain.register(goes.allocate(8));
                    MemoryRegion first = rig.domain.register(one.allocate(8));
                    MemoryRegion second = rig.domain.register(two.allocate(8))) {
                RequestBatch batch = new RequestBatch(rig.a, 3);
                BufferList list = new BufferList(1).add(gone, 0, 8);
                batch.write(1, list, Rig.REMOTE, 1, OpFlags.NONE).orThrow();
                batch.clear();
                goes.close();
                batch.write(1, rig.bytes(8), Rig.REMOTE, 1, OpFlags.INLINE).orThrow();
                for (MemoryRegion region : List.of(first, second)) {
                    BufferList lasting = new BufferList(1).add(region, 0, 8);
                    batch.write(2, lasting, Rig.REMOTE, 1, OpFlags.NONE).orThrow();
                }
                batch.post().orThrow();
                assertThat(rig.poll()).hasSize(3);
            }
        }
    }

    @Test
    void theLastMayHaveAsManyBuffersAsThereAre() {
        try (Rig rig = rig()) {
            RequestBatch batch = new RequestBatch(rig.a, 1);
            BufferList four = new BufferList(4);
            for (int i = 0; i < 4; i++) {
                four.add(rig.memory, i, 1);
            }
            batch.write(1, four, Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            batch.post().orThrow();
            assertThat(rig.poll()).containsExactly("WRITE 1 SUCCESS");
        }
    }

    @Test
    void aSendNamesNothingAtThePeer() {
        try (Rig rig = rig()) {
            RequestBatch batch = new RequestBatch(rig.a, 1);
            batch.send(1, rig.bytes(8), OpFlags.NONE).orThrow();
            assertThatThrownBy(() -> batch.remote(0, Rig.REMOTE, 1))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessage(
                            "Request 0 of the batch is a send, which names no memory of the peer");
        }
    }

    /** Only what a request names now has to be alive. */
    @Test
    void memoryThatWasReplacedMayGo() {
        try (Rig rig = rig()) {
            Arena first = Arena.ofShared();
            Arena second = Arena.ofShared();
            MemoryRegion soonGone = rig.domain.register(first.allocate(8));
            MemoryRegion stays = rig.domain.register(second.allocate(8));
            RequestBatch batch = new RequestBatch(rig.a, 2);
            BufferList list = new BufferList(2).add(soonGone, 0, 8).add(stays, 0, 4);
            batch.write(1, list, Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            batch.write(2, list.clear().add(stays, 0, 8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            batch.buffers(0, list).orThrow();
            soonGone.close();
            first.close();
            batch.post().orThrow();
            assertThat(rig.poll()).containsExactly("WRITE 1 SUCCESS", "WRITE 2 SUCCESS");
            stays.close();
            second.close();
            assertThat(batch.post().status()).isEqualTo(Status.ACCESS_VIOLATION);
            batch.buffers(0, rig.bytes(8)).orThrow();
            assertThat(batch.post().status()).isEqualTo(Status.ACCESS_VIOLATION);
            batch.buffers(1, rig.bytes(8)).orThrow();
            batch.post().orThrow();
            assertThat(rig.poll()).containsExactly("WRITE 1 SUCCESS", "WRITE 2 SUCCESS");
        }
    }
}
