package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.internal.verbs.PostedRequest;

import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** Batches: what they write, that they are posted as one or not at all, and how each one ends. */
class RequestBatchTest {
    private static final int DEPTH = 16;
    private static final int POINTERS = 24; // wr_id, next and sg_list, which differ

    private static Rig rig() {
        return Rig.connected(
                QueuePairLimits.depths(DEPTH, 16).withBuffers(4, 1).withInlineBytes(64));
    }

    private static RequestBatch writes(Rig rig, int count, OpFlags flags) {
        RequestBatch batch = new RequestBatch(rig.a, DEPTH);
        for (int i = 0; i < count; i++) {
            batch.write(i, rig.bytes(8), Rig.REMOTE, 1, flags).orThrow();
        }
        return batch;
    }

    @Nested
    class WhatIsPosted {
        @Test
        void isWhatSinglePostsWouldWrite() {
            OpFlags inline = OpFlags.INLINE.and(OpFlags.READ_FENCE);
            RemoteMemory peer = new RemoteMemory(Rig.REMOTE, 7, 64);
            try (Rig rig =
                    Rig.connected(
                            QueuePairLimits.depths(DEPTH, 32)
                                    .withBuffers(4, 1)
                                    .withInlineBytes(64))) {
                BufferList two = new BufferList(2).add(rig.memory, 8, 4).add(rig.memory, 64, 3);
                BufferList none = new BufferList(1);
                BufferList eight = rig.bytes(8);
                OpFlags solicited = OpFlags.SEND_AND_SOLICIT_EVENT;
                QueuePair qp = rig.a;
                qp.send(1, two, OpFlags.NONE).orThrow();
                qp.send(2, none, OpFlags.INLINE).orThrow();
                qp.send(3, two, inline).orThrow();
                qp.sendAndInvalidate(4, two, 0xFFFF_0001, solicited).orThrow();
                qp.sendWithImmediate(5, none, 99, OpFlags.NONE).orThrow();
                qp.write(6, two, Rig.REMOTE, 7, OpFlags.NONE).orThrow();
                qp.write(7, two, peer, 5, inline).orThrow();
                qp.writeWithImmediate(8, two, Rig.REMOTE, 7, 98, solicited).orThrow();
                qp.read(9, two, Rig.REMOTE, 7, OpFlags.READ_FENCE).orThrow();
                qp.read(10, two, peer, 6, OpFlags.NONE).orThrow();
                qp.compareAndSwap(11, eight, Rig.REMOTE, 7, 5, 6, OpFlags.NONE).orThrow();
                qp.fetchAndAdd(12, eight, Rig.REMOTE, 7, 8, OpFlags.NONE).orThrow();
                List<PostedRequest> single = List.copyOf(rig.device.sends);
                List<String> ends = endsOf(rig, 12);
                rig.device.sends.clear();
                rig.device.chains.clear();

                RequestBatch batch = new RequestBatch(qp, DEPTH);
                batch.send(1, two, OpFlags.NONE).orThrow();
                batch.send(2, none, OpFlags.INLINE).orThrow();
                batch.send(3, two, inline).orThrow();
                batch.sendAndInvalidate(4, two, 0xFFFF_0001, solicited).orThrow();
                batch.sendWithImmediate(5, none, 99, OpFlags.NONE).orThrow();
                batch.write(6, two, Rig.REMOTE, 7, OpFlags.NONE).orThrow();
                batch.write(7, two, peer, 5, inline).orThrow();
                batch.writeWithImmediate(8, two, Rig.REMOTE, 7, 98, solicited).orThrow();
                batch.read(9, two, Rig.REMOTE, 7, OpFlags.READ_FENCE).orThrow();
                batch.read(10, two, peer, 6, OpFlags.NONE).orThrow();
                batch.compareAndSwap(11, eight, Rig.REMOTE, 7, 5, 6, OpFlags.NONE).orThrow();
                batch.fetchAndAdd(12, eight, Rig.REMOTE, 7, 8, OpFlags.NONE).orThrow();
                assertThat(batch.size()).isEqualTo(12);
                assertThat(rig.device.sends).as("nothing is posted yet").isEmpty();
                batch.post().orThrow();

                assertThat(rig.device.chains).containsExactly(12);
                for (int i = 0; i < 12; i++) {
                    PostedRequest posted = rig.device.sends.get(i);
                    assertThat(rest(posted)).as("request %d", i).isEqualTo(rest(single.get(i)));
                    assertThat(posted.inline()).isEqualTo(single.get(i).inline());
                    if (posted.inline().length == 0) { // otherwise they are in the request
                        assertThat(posted.sges()).isEqualTo(single.get(i).sges());
                    }
                }
                assertThat(endsOf(rig, 12)).isEqualTo(ends);
            }
        }

        private byte[] rest(PostedRequest posted) {
            return Arrays.copyOfRange(posted.request(), POINTERS, posted.request().length);
        }

        /** Without the receives that some need, they fail alike: then the first ends decide. */
        private List<String> endsOf(Rig rig, int count) {
            for (int i = 0; i < count; i++) {
                rig.b.receive(-1, rig.bytes(64)).orThrow();
            }
            return rig.poll().stream().filter(end -> !end.contains(" -1 ")).toList();
        }

        @Test
        void comesBehindWhatWasDeferred() {
            try (Rig rig = rig()) {
                RequestBatch batch = writes(rig, 3, OpFlags.NONE);
                rig.a.write(7, rig.bytes(8), Rig.REMOTE, 1, OpFlags.DEFER).orThrow();
                rig.a.write(8, rig.bytes(8), Rig.REMOTE, 1, OpFlags.DEFER).orThrow();
                batch.post().orThrow();
                assertThat(rig.device.chains).containsExactly(2, 3);
                assertThat(rig.poll())
                        .containsExactly(
                                "WRITE 7 SUCCESS",
                                "WRITE 8 SUCCESS",
                                "WRITE 0 SUCCESS",
                                "WRITE 1 SUCCESS",
                                "WRITE 2 SUCCESS");
            }
        }

        @Test
        void isWhatWasThereWhenItWasRecorded() {
            try (Rig rig = rig()) {
                rig.memory.memory().set(ValueLayout.JAVA_BYTE, 0, (byte) 1);
                BufferList list = rig.bytes(1);
                RequestBatch batch = new RequestBatch(rig.a, 2);
                batch.send(1, list, OpFlags.INLINE).orThrow();
                batch.write(2, list, Rig.REMOTE, 1, OpFlags.NONE).orThrow();
                rig.memory.memory().set(ValueLayout.JAVA_BYTE, 0, (byte) 2);
                list.clear().add(rig.memory, 100, 50);
                batch.post().orThrow();
                assertThat(rig.device.sends.get(0).inline()).containsExactly(1);
                long named =
                        java.nio.ByteBuffer.wrap(rig.device.sends.get(1).sges())
                                .order(java.nio.ByteOrder.nativeOrder())
                                .getLong();
                assertThat(named).isEqualTo(rig.memory.memory().address());
            }
        }

        @Test
        void mayBePostedAgainWithAnotherContext() {
            try (Rig rig = rig()) {
                RequestBatch batch = writes(rig, 2, OpFlags.NONE);
                batch.post().orThrow();
                batch.context(1, 77).post().orThrow(); // before the completions of the first
                assertThat(rig.poll())
                        .containsExactly(
                                "WRITE 0 SUCCESS",
                                "WRITE 1 SUCCESS",
                                "WRITE 0 SUCCESS",
                                "WRITE 77 SUCCESS");
                assertThatThrownBy(() -> batch.context(2, 1))
                        .isInstanceOf(IndexOutOfBoundsException.class);
                assertThatThrownBy(() -> batch.context(-1, 1))
                        .isInstanceOf(IndexOutOfBoundsException.class);
                // Shorter than before, then longer: the end of the chain moves.
                batch.clear().write(5, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
                batch.post().orThrow();
                batch.write(6, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
                batch.write(7, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
                batch.post().orThrow();
                assertThat(rig.poll())
                        .containsExactly(
                                "WRITE 5 SUCCESS",
                                "WRITE 5 SUCCESS",
                                "WRITE 6 SUCCESS",
                                "WRITE 7 SUCCESS");
            }
        }

        /** A queue of silent requests only needs a signal now and then, or it stays full. */
        @Test
        void hasItsInternalSignalsWhereSinglePostsHaveThem() {
            List<Boolean> single = new ArrayList<>();
            List<Boolean> batched = new ArrayList<>();
            try (Rig rig = rig()) {
                for (int i = 0; i < 60; i++) {
                    OpFlags flags = i % 13 == 5 ? OpFlags.NONE : OpFlags.SILENT_SUCCESS;
                    rig.a.write(i, rig.bytes(8), Rig.REMOTE, 1, flags).orThrow();
                    rig.poll();
                }
                rig.device.sends.forEach(posted -> single.add((posted.flags() & 2) != 0));
            }
            try (Rig rig = rig()) {
                RequestBatch batch = new RequestBatch(rig.a, 5);
                for (int i = 0; i < 60; i++) {
                    OpFlags flags = i % 13 == 5 ? OpFlags.NONE : OpFlags.SILENT_SUCCESS;
                    batch.write(i, rig.bytes(8), Rig.REMOTE, 1, flags).orThrow();
                    if (batch.size() == 5) {
                        batch.post().orThrow();
                        batch.clear();
                        rig.poll();
                    }
                }
                rig.device.sends.forEach(posted -> batched.add((posted.flags() & 2) != 0));
                assertThat(rig.a.outstandingRequests()).isLessThan(DEPTH);
            }
            assertThat(batched).isEqualTo(single).contains(true, false);
        }

        @Test
        void staysSilentWhereOneOfItAsksForAnInternalSignal() {
            try (Rig rig = rig()) {
                RequestBatch batch = writes(rig, DEPTH, OpFlags.SILENT_SUCCESS);
                for (int round = 1; round <= 3; round++) {
                    batch.post().orThrow();
                    assertThat(rig.poll()).isEmpty();
                    assertThat(rig.a.outstandingRequests()).isZero();
                    assertThat(rig.a.counters().requests().internalSignals())
                            .isEqualTo(2 * round); // one for each half of the depth
                }
            }
        }

        @Test
        void countsAsWhatIsInItWhenItIsPosted() {
            try (Rig rig = rig()) {
                RequestBatch batch = writes(rig, DEPTH, OpFlags.SILENT_SUCCESS);
                batch.post().orThrow();
                assertThat(rig.poll()).isEmpty();
                long before = rig.a.counters().requests().bytes();
                batch.clear();
                for (int i = 0; i < DEPTH; i++) {
                    batch.write(i, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
                }
                batch.buffers(0, rig.bytes(3)).orThrow();
                rig.device.running = false;
                batch.post().orThrow();
                assertThat(rig.a.counters().requests().bytes() - before)
                        .isEqualTo(8 * (DEPTH - 1) + 3);
                assertThat(rig.a.write(9, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE))
                        .as("one more than the queue holds")
                        .isEqualTo(PostResult.FULL);
            }
        }

        @Test
        void isInlineAlsoWithBuffersThatCameLater() {
            try (Rig rig = rig()) {
                RequestBatch batch = new RequestBatch(rig.a, 1);
                batch.send(1, new BufferList(1), OpFlags.INLINE).orThrow(); // has no bytes to copy
                batch.buffers(0, rig.bytes(4)).orThrow();
                batch.post().orThrow();
                assertThat(rig.device.sends.getLast().inline()).hasSize(4);
            }
        }

        /** Nobody knows which silent ones have ended, so the queue takes some more. */
        @Test
        void takesSlotsAsSilentSinglePostsDo() {
            try (Rig rig = rig()) {
                rig.device.running = false;
                writes(rig, DEPTH, OpFlags.SILENT_SUCCESS).post().orThrow();
                int more = 0;
                while (rig.a.write(100 + more, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).status()
                        == Status.SUCCESS) {
                    more++;
                }
                assertThat(more).isEqualTo(DEPTH / 2 - 1);
            }
        }

        @Test
        void endsBeforeWhatIsSynthesizedBehindIt() {
            try (Rig rig = Rig.connected(QueuePairLimits.depths(3, 1))) { // each asks for a signal
                rig.device.running = false;
                RequestBatch batch = new RequestBatch(rig.a, 1);
                batch.write(7, rig.bytes(8), Rig.REMOTE, 1, OpFlags.SILENT_SUCCESS).orThrow();
                batch.post().orThrow();
                rig.a.write(8, rig.bytes(8), Rig.REMOTE, 1, OpFlags.DEFER).orThrow();
                rig.device.answer = 22;
                rig.device.refused = 0;
                assertThat(rig.a.write(9, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).status())
                        .isEqualTo(Status.CONNECTION_INVALID);
                assertThat(rig.poll())
                        .containsExactly("WRITE 7 CANCELLED", "WRITE 8 INTERNAL_ERROR");
            }
        }
    }

    @Nested
    class Refused {
        @Test
        void isARequestWhenItIsRecordedAsWhenItIsPosted() {
            try (Rig rig = rig();
                    ProtectionDomain other = rig.adapter.createProtectionDomain();
                    MemoryRegion foreign = other.register(rig.arena.allocate(8))) {
                RequestBatch batch = new RequestBatch(rig.a, 1);
                BufferList outside = new BufferList(1).add(foreign, 0, 8);
                BufferList eight = rig.bytes(8);
                RemoteMemory small = new RemoteMemory(Rig.REMOTE, 1, 4);
                assertThat(batch.write(1, eight, Rig.REMOTE, 1, OpFlags.ALLOW_REMOTE_READ).status())
                        .isEqualTo(Status.INVALID_PARAMETER);
                assertThat(batch.send(1, rig.bytes(65), OpFlags.INLINE).status())
                        .isEqualTo(Status.INVALID_PARAMETER);
                assertThat(batch.send(1, outside, OpFlags.NONE).status())
                        .isEqualTo(Status.INVALID_PARAMETER_MIX);
                assertThat(
                                batch.fetchAndAdd(1, rig.bytes(4), Rig.REMOTE, 1, 1, OpFlags.NONE)
                                        .status())
                        .isEqualTo(Status.INVALID_PARAMETER);
                assertThat(batch.write(1, eight, small, 0, OpFlags.NONE).status())
                        .isEqualTo(Status.INVALID_PARAMETER);
                assertThat(batch.read(1, eight, small, -1, OpFlags.NONE).status())
                        .isEqualTo(Status.INVALID_PARAMETER);
                assertThat(batch.size()).isZero();
                batch.send(1, eight, OpFlags.NONE).orThrow();
                assertThat(batch.send(2, eight, OpFlags.NONE).status())
                        .isEqualTo(Status.NO_MORE_ENTRIES);
                assertThat(batch.size()).isOne();
                assertThatThrownBy(() -> batch.send(3, null, OpFlags.NONE))
                        .isInstanceOf(NullPointerException.class)
                        .hasMessage("buffers must not be null");
                assertThat(batch).hasToString("1 of 1 requests of " + rig.a);
            }
        }

        @Test
        void isABatchOfMoreThanTheQueueHolds() {
            try (Rig rig = rig()) {
                for (int capacity : new int[] {0, -1, DEPTH + 1}) {
                    assertThatThrownBy(() -> new RequestBatch(rig.a, capacity))
                            .isInstanceOf(IllegalArgumentException.class)
                            .hasMessageContaining("1 to 16");
                }
                assertThat(new RequestBatch(rig.a, DEPTH).capacity()).isEqualTo(DEPTH);
            }
        }

        @ParameterizedTest
        @ValueSource(booleans = {false, true})
        void isAllOfItWhereThereIsNotRoomForAll(boolean silent) {
            OpFlags flags = silent ? OpFlags.SILENT_SUCCESS : OpFlags.NONE;
            try (Rig rig = rig()) {
                RequestBatch batch = writes(rig, 10, OpFlags.NONE);
                for (int i = 0; i < 7; i++) {
                    rig.a.write(100 + i, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
                }
                rig.a.write(107, rig.bytes(8), Rig.REMOTE, 1, flags.and(OpFlags.DEFER)).orThrow();
                if (!silent) {
                    assertThat(batch.post().status()).isEqualTo(Status.NO_MORE_ENTRIES);
                    assertThatThrownBy(() -> batch.post().orThrow())
                            .hasMessageContaining("the queue is full of outstanding requests");
                    assertThat(rig.device.sends).as("what was deferred is posted").hasSize(8);
                    assertThat(rig.poll()).hasSize(8).doesNotContain("WRITE 0 SUCCESS");
                }
                batch.post().orThrow(); // a silent one may have ended: one more than the depth
                assertThat(rig.poll()).contains("WRITE 0 SUCCESS", "WRITE 9 SUCCESS");
            }
        }

        @Test
        void isABatchWhoseMemoryIsGone() {
            try (Rig rig = rig();
                    Arena arena = Arena.ofShared()) {
                Arena soonGone = Arena.ofShared();
                MemoryRegion gone = rig.domain.register(soonGone.allocate(8));
                MemoryRegion stays = rig.domain.register(arena.allocate(8));
                for (boolean first : new boolean[] {true, false}) {
                    RequestBatch batch = new RequestBatch(rig.a, 4);
                    BufferList lasting = new BufferList(1).add(stays, 0, 8);
                    if (!first) {
                        batch.send(1, lasting, OpFlags.NONE).orThrow();
                    }
                    BufferList both = new BufferList(2).add(stays, 0, 8).add(gone, 0, 8);
                    batch.send(2, first ? new BufferList(1).add(gone, 0, 8) : both, OpFlags.NONE)
                            .orThrow();
                    batch.send(3, lasting, OpFlags.NONE).orThrow();
                    batches.add(batch);
                }
                soonGone.close();
                for (RequestBatch batch : batches) {
                    assertThat(batch.post().status()).isEqualTo(Status.ACCESS_VIOLATION);
                }
                assertThat(rig.device.sends).isEmpty();
                // Forgotten with the requests that named it.
                batches.getFirst().clear();
                batches.getFirst().write(1, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
                batches.getFirst().post().orThrow();
                assertThat(rig.poll()).containsExactly("WRITE 1 SUCCESS");
                gone.close();
                stays.close();
            }
        }

        @Test
        void isNoBatchThatHasLetGoOfTheMemory() {
            try (Rig rig = rig()) {
                Arena soonGone = Arena.ofShared();
                MemoryRegion gone = rig.domain.register(soonGone.allocate(8));
                RequestBatch batch = new RequestBatch(rig.a, 1);
                batch.write(1, new BufferList(1).add(gone, 0, 8), Rig.REMOTE, 1, OpFlags.NONE)
                        .orThrow();
                batch.buffers(0, new BufferList(1)).orThrow();
                RequestBatch cleared = new RequestBatch(rig.a, 1);
                cleared.write(2, new BufferList(1).add(gone, 0, 8), Rig.REMOTE, 1, OpFlags.NONE)
                        .orThrow();
                cleared.clear();
                cleared.write(3, new BufferList(1), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
                gone.close();
                soonGone.close();
                batch.post().orThrow();
                cleared.post().orThrow();
                assertThat(rig.poll()).containsExactly("WRITE 1 SUCCESS", "WRITE 3 SUCCESS");
            }
        }

        private final List<RequestBatch> batches = new ArrayList<>();

        @Test
        void isABatchThatThePeerCannotServe() {
            try (Rig rig = new Rig(QueuePairLimits.depths(8, 8))) {
                RequestBatch reads = new RequestBatch(rig.a, 2);
                reads.write(1, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
                reads.read(2, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
                RequestBatch invalidates = new RequestBatch(rig.a, 2);
                invalidates.write(1, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
                invalidates.sendAndInvalidate(2, rig.bytes(8), 1, OpFlags.NONE).orThrow();
                RequestBatch neither = writes8(rig);
                assertThat(neither.post().status()).isEqualTo(Status.CONNECTION_INVALID);
                rig.a.connect(rig.b.address().withInboundReads(0).withInvalidatable(false));
                assertThat(reads.post().status()).isEqualTo(Status.NOT_SUPPORTED);
                assertThat(invalidates.post().status()).isEqualTo(Status.NOT_SUPPORTED);
                assertThat(rig.device.sends).isEmpty();
                neither.post().orThrow();
                for (RequestBatch cleared : List.of(reads.clear(), invalidates.clear())) {
                    cleared.write(3, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
                    cleared.post().orThrow();
                }
                assertThat(rig.device.sends).hasSize(3);
            }
        }

        private RequestBatch writes8(Rig rig) {
            RequestBatch batch = new RequestBatch(rig.a, 1);
            batch.write(1, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            return batch;
        }

        @Test
        void isABatchAfterAFlushOrAClose() {
            Rig rig = rig();
            RequestBatch batch = writes(rig, 3, OpFlags.NONE);
            batch.post().orThrow();
            rig.a.flush();
            assertThat(batch.post().status()).isEqualTo(Status.CONNECTION_INVALID);
            assertThat(rig.poll())
                    .containsExactly("WRITE 0 CANCELLED", "WRITE 1 CANCELLED", "WRITE 2 CANCELLED");
            rig.a.close();
            assertThat(batch.post().status()).isEqualTo(Status.CONNECTION_INVALID);
            batch.clear().write(1, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            assertThat(batch.post().status()).isEqualTo(Status.CONNECTION_INVALID);
            rig.close();
        }

        @Test
        void isAnotherThreadThanTheOwnerOfAConfinedQueue() throws Exception {
            try (Rig rig = Rig.confined(QueuePairLimits.depths(DEPTH, 1));
                    ExecutorService other = Executors.newSingleThreadExecutor()) {
                RequestBatch batch = writes(rig, 2, OpFlags.NONE);
                assertThatThrownBy(() -> other.submit(batch::post).get())
                        .isInstanceOf(ExecutionException.class)
                        .hasCauseInstanceOf(WrongThreadException.class);
                batch.post().orThrow();
                assertThat(rig.poll()).containsExactly("WRITE 0 SUCCESS", "WRITE 1 SUCCESS");
            }
        }

        @Test
        void isNothingWhenItIsEmpty() {
            try (Rig rig = rig()) {
                RequestBatch batch = new RequestBatch(rig.a, 1);
                rig.a.write(1, rig.bytes(8), Rig.REMOTE, 1, OpFlags.DEFER).orThrow();
                batch.post().orThrow();
                assertThat(rig.poll()).containsExactly("WRITE 1 SUCCESS");
            }
        }
    }

    @Nested
    class WhatTheProviderRefuses {
        /** Errno 22, -22 (siw), and 0 with bad_wr set (siw). */
        @ParameterizedTest
        @ValueSource(ints = {22, -22, 0})
        void endsOnceWhicheverItIs(int answer) {
            int length = 5;
            for (OpFlags flags : new OpFlags[] {OpFlags.NONE, OpFlags.SILENT_SUCCESS}) {
                for (int bad = 0; bad < length; bad++) {
                    try (Rig rig = rig()) {
                        RequestBatch batch = writes(rig, length, flags);
                        rig.device.answer = answer == 0 ? 22 : answer;
                        rig.device.answersZero = answer == 0;
                        rig.device.refused = bad;
                        Status status = batch.post().status();
                        if (bad == 0) {
                            assertThat(status)
                                    .isEqualTo(
                                            answer == 0
                                                    ? VerbenaException.statusOf(5)
                                                    : Status.INVALID_PARAMETER);
                            assertThat(rig.a.connected()).as("nothing has happened").isTrue();
                            assertThat(rig.a.outstandingRequests()).isZero();
                            assertThat(rig.poll()).isEmpty();
                            batch.clear();
                            batch.write(9, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
                            batch.post().orThrow();
                            assertThat(rig.poll()).containsExactly("WRITE 9 SUCCESS");
                            continue;
                        }
                        assertThat(status).isEqualTo(Status.SUCCESS);
                        assertThat(rig.a.connected()).isFalse();
                        assertThat(rig.device.state(rig.a.address().queuePairNumber()))
                                .isEqualTo("ERR");
                        List<String> expected = new ArrayList<>();
                        for (int i = 0; i < length; i++) {
                            // What had been taken is flushed, for nothing ran meanwhile.
                            String end = i == bad ? " INTERNAL_ERROR" : " CANCELLED";
                            expected.add("WRITE " + i + end);
                        }
                        List<String> seen = rig.poll();
                        assertThat(seen).containsExactlyInAnyOrderElementsOf(expected);
                        if (flags == OpFlags.NONE) { // of silent ones the device's come late
                            assertThat(seen).containsExactlyElementsOf(expected);
                        }
                        assertThat(batch.post().status()).isEqualTo(Status.CONNECTION_INVALID);
                        assertThat(rig.poll()).isEmpty();
                    }
                }
            }
        }

        /** bad_wr NULL: rxe and siw do so when the doorbell fails, and may have kept them. */
        @ParameterizedTest
        @ValueSource(booleans = {false, true})
        void withoutSayingHowFarItGotEndsOnceAndTheConnectionToo(boolean kept) {
            for (OpFlags flags : new OpFlags[] {OpFlags.NONE, OpFlags.SILENT_SUCCESS}) {
                for (int length = 1; length <= 4; length++) {
                    try (Rig rig = rig()) {
                        RequestBatch batch = writes(rig, length, flags);
                        rig.device.answer = -5;
                        rig.device.refused = -1;
                        rig.device.keepsRefused = kept;
                        batch.post().orThrow();
                        assertThat(rig.a.connected()).isFalse();
                        List<String> seen = rig.poll();
                        assertThat(seen).hasSize(length);
                        for (int i = 0; i < length; i++) {
                            assertThat(seen.get(i)).startsWith("WRITE " + i + " ");
                            assertThat(seen.get(i)).doesNotEndWith("SUCCESS");
                        }
                    }
                }
            }
        }

        /** Another thread polls between the provider's answer and what is made of it. */
        @Test
        void andHasCompletedAllTheSameWasNotRefused() {
            try (Rig rig = rig()) {
                List<String> seen = new ArrayList<>();
                RequestBatch batch = writes(rig, 3, OpFlags.NONE);
                rig.device.answer = 5;
                rig.device.refused = -1;
                rig.device.keepsRefused = true;
                rig.device.afterPost = () -> seen.addAll(rig.poll());
                batch.post().orThrow();
                assertThat(seen)
                        .containsExactly("WRITE 0 SUCCESS", "WRITE 1 SUCCESS", "WRITE 2 SUCCESS");
                assertThat(rig.a.connected()).isTrue();
                batch.post().orThrow();
                assertThat(rig.poll()).hasSize(3);
            }
        }

        @Test
        void whereItIsFullForAMomentIsAskedAgain() {
            for (int bad = 0; bad < 4; bad++) {
                try (Rig rig = rig()) {
                    rig.a.write(8, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
                    RequestBatch batch = writes(rig, 4, OpFlags.NONE);
                    rig.device.answer = 12; // ENOMEM, once
                    rig.device.refused = bad;
                    batch.post().orThrow();
                    assertThat(rig.poll())
                            .containsExactly(
                                    "WRITE 8 SUCCESS",
                                    "WRITE 0 SUCCESS",
                                    "WRITE 1 SUCCESS",
                                    "WRITE 2 SUCCESS",
                                    "WRITE 3 SUCCESS");
                    assertThat(rig.a.connected()).isTrue();
                }
            }
        }

        @Test
        void ofWhatWasDeferredRefusesTheBatch() {
            try (Rig rig = rig()) {
                RequestBatch batch = writes(rig, 2, OpFlags.NONE);
                rig.a.write(8, rig.bytes(8), Rig.REMOTE, 1, OpFlags.DEFER).orThrow();
                rig.device.answer = 22;
                rig.device.refused = 0;
                assertThat(batch.post().status()).isEqualTo(Status.CONNECTION_INVALID);
                assertThat(rig.poll()).containsExactly("WRITE 8 INTERNAL_ERROR");
            }
        }
    }
}
