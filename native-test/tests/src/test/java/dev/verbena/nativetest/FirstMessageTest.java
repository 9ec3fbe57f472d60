package dev.verbena.nativetest;

import static dev.verbena.nativetest.Pair.fill;
import static dev.verbena.nativetest.Pair.whole;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.BufferList;
import dev.verbena.Completions;
import dev.verbena.MemoryRegion;
import dev.verbena.OperationType;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@NeedsDevices
class FirstMessageTest {
    @ParameterizedTest
    @ValueSource(ints = {1, 1023, 4096, 65_536, 1 << 20})
    void aMessageArrivesAsItWasSent(int bytes) {
        try (Pair pair = Pair.connected(1)) {
            MemoryRegion source = pair.left.memory(bytes);
            MemoryRegion target = pair.right.memory(bytes);
            fill(source.memory(), bytes);

            assertThat(pair.right.queuePair.receive(-2, whole(target)).status())
                    .isEqualTo(Status.SUCCESS);
            assertThat(pair.left.queuePair.send(Long.MIN_VALUE, whole(source)).status())
                    .isEqualTo(Status.SUCCESS);

            Completions received = pair.right.completion();
            assertThat(received.status(0)).isEqualTo(Status.SUCCESS);
            assertThat(received.type(0)).isEqualTo(OperationType.RECEIVE);
            assertThat(received.context(0)).isEqualTo(-2);
            assertThat(received.queuePair(0)).isSameAs(pair.right.queuePair);
            assertThat(received.bytes(0)).isEqualTo(bytes);
            assertThat(received.providerCode(0)).isZero();

            Completions sent = pair.left.completion();
            assertThat(sent.status(0)).isEqualTo(Status.SUCCESS);
            assertThat(sent.type(0)).isEqualTo(OperationType.SEND);
            assertThat(sent.context(0)).isEqualTo(Long.MIN_VALUE);
            assertThat(sent.queuePair(0)).isSameAs(pair.left.queuePair);
            assertThat(sent.bytes(0)).isZero();

            assertThat(target.memory().mismatch(source.memory())).isEqualTo(-1);
        }
    }

    @Test
    void anEmptyMessageArrives() {
        try (Pair pair = Pair.connected(1)) {
            pair.right.queuePair.receive(1, new BufferList(1)).orThrow();
            pair.left.queuePair.send(2, new BufferList(1)).orThrow();
            Completions received = pair.right.completion();
            assertThat(received.status(0)).isEqualTo(Status.SUCCESS);
            assertThat(received.bytes(0)).isZero();
        }
    }

    @Test
    void buffersAreGatheredAndScatteredInOrder() {
        try (Pair pair = new Pair(QueuePairLimits.depths(1, 1).withBuffers(3, 2)).connect()) {
            MemoryRegion source = pair.left.memory(300);
            MemoryRegion target = pair.right.memory(400);
            fill(source.memory(), 7);
            BufferList scattered = new BufferList(2).add(target, 200, 10).add(target, 0, 100);
            BufferList gathered =
                    new BufferList(3).add(source, 0, 5).add(source, 100, 20).add(source, 50, 15);
            pair.right.queuePair.receive(1, scattered).orThrow();
            pair.left.queuePair.send(2, gathered).orThrow();
            scattered.clear(); // both lists are the caller's again as soon as the post has returned
            gathered.clear().add(source, 299, 1);

            Completions received = pair.right.completion();
            assertThat(received.bytes(0)).isEqualTo(40);
            assertThat(target.memory().asSlice(200, 5).mismatch(source.memory().asSlice(0, 5)))
                    .isEqualTo(-1);
            assertThat(target.memory().asSlice(205, 5).mismatch(source.memory().asSlice(100, 5)))
                    .isEqualTo(-1);
            assertThat(target.memory().asSlice(0, 15).mismatch(source.memory().asSlice(105, 15)))
                    .isEqualTo(-1);
            assertThat(target.memory().asSlice(15, 15).mismatch(source.memory().asSlice(50, 15)))
                    .isEqualTo(-1);
        }
    }

    @Test
    void manyMessagesKeepTheirOrderBothWays() {
        int depth = 16;
        try (Pair pair = Pair.connected(depth)) {
            MemoryRegion leftMemory = pair.left.memory(depth * 8L);
            MemoryRegion rightMemory = pair.right.memory(depth * 8L);
            for (int round = 0; round < 20; round++) {
                for (int i = 0; i < depth; i++) {
                    pair.left
                            .queuePair
                            .receive(i, new BufferList(1).add(leftMemory, i * 8L, 8))
                            .orThrow();
                    pair.right
                            .queuePair
                            .send(100 + i, new BufferList(1).add(rightMemory, i * 8L, 8))
                            .orThrow();
                }
                for (int i = 0; i < depth; i++) {
                    assertThat(pair.left.completion().context(0)).isEqualTo(i);
                    assertThat(pair.right.completion().context(0)).isEqualTo(100 + i);
                }
            }
        }
    }

    @Test
    void theDemoNamesDevicesAddressesAndBytes() throws Exception {
        ToolRun demo = ToolRun.of("demo");
        assertThat(demo.exitCode()).as(demo::toString).isZero();
        assertThat(demo.out())
                .contains(RdmaDevices.active())
                .containsAnyOf("GID ::", "GID fe80", "LID ")
                .contains("All 65,536 bytes arrived as they were sent.");
    }
}
