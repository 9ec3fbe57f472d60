package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.internal.verbs.FakeConnections;
import dev.verbena.internal.verbs.FakeDevice;
import dev.verbena.messaging.MessagingOptions;
import dev.verbena.messaging.ReconnectOptions;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

import java.lang.reflect.Modifier;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.UnaryOperator;

/** Options are equal if each of them is. */
class OptionsTest {
    private static final Duration LONG = Duration.ofSeconds(60);

    private final FakeDevice device = new FakeDevice();

    @AfterEach
    void close() {
        device.dispose();
    }

    /**
     * Checks a class of options.
     *
     * @param changes one for each value, so that none is left out of the comparison
     */
    private static <T> void check(T start, List<UnaryOperator<T>> changes) {
        assertThat(changes).hasSize(values(start.getClass()));
        for (UnaryOperator<T> change : changes) {
            T changed = change.apply(start);
            assertThat(changed).isNotEqualTo(start).isEqualTo(change.apply(start));
            assertThat(changed).hasSameHashCodeAs(change.apply(start));
        }
        assertThat(changes.stream().map(change -> change.apply(start))).doesNotHaveDuplicates();
        assertThat(start).isNotEqualTo("");
    }

    private static int values(Class<?> options) {
        return (int)
                Arrays.stream(options.getDeclaredFields())
                        .filter(f -> !Modifier.isStatic(f.getModifiers()) && !f.isSynthetic())
                        .count();
    }

    @Test
    void ofMemory() {
        check(
                MemoryOptions.DEFAULTS,
                List.of(o -> o.withAlignment(64), o -> o.withHugePages(HugePages.REQUIRED)));
    }

    @Test
    void ofBufferPools() {
        MemoryOptions aligned = MemoryOptions.DEFAULTS.withAlignment(64);
        check(
                BufferPoolOptions.of(1, 2),
                List.of(
                        o -> BufferPoolOptions.of(2, 2),
                        o -> BufferPoolOptions.of(1, 3),
                        o -> o.withMemory(aligned),
                        o -> o.withTracking(true)));
    }

    @Test
    void ofQueuePairs() {
        check(
                QueuePairLimits.depths(4, 4),
                List.of(
                        o -> o.withInitiatorDepth(5),
                        o -> o.withReceiveDepth(5),
                        o -> o.withBuffers(2, 1),
                        o -> o.withBuffers(1, 2),
                        o -> o.withInlineBytes(8),
                        o -> o.withReads(1, 16),
                        o -> o.withReads(16, 1),
                        o -> o.withMaxDeferred(2)));
    }

    @Test
    void ofPaths() {
        check(
                PathOptions.DEFAULTS,
                List.of(
                        o -> o.withTrafficClass(1),
                        o -> o.withServiceLevel(1),
                        o -> o.withFlowLabel(1),
                        o -> o.withPkeyIndex(1),
                        o -> o.withMinRnrTimer(Duration.ofMillis(10)),
                        o -> o.withAckTimeout(Duration.ofMillis(10)),
                        o -> o.withRetries(1),
                        o -> o.withRnrRetries(1)));
    }

    @Test
    void ofConnections() {
        FakeConnections network = new FakeConnections();
        network.devices.put(ConnectorRig.HERE, "fake0");
        try (Adapter adapter = FakeAdapters.open(device, network);
                SharedEndpoint endpoint =
                        adapter.createSharedEndpoint(new InetSocketAddress(ConnectorRig.HERE, 0))) {
            check(
                    ConnectionOptions.DEFAULTS,
                    List.of(
                            o -> o.withDeadline(LONG),
                            o -> o.withPrivateData(new byte[] {1}),
                            ConnectionOptions::withoutAnnouncement,
                            ConnectionOptions::assumingInvalidatablePeer,
                            o -> o.withLocalAddress(new InetSocketAddress(ConnectorRig.HERE, 5)),
                            o -> o.withSharedEndpoint(endpoint),
                            o -> o.withPath(PathOptions.DEFAULTS.withRetries(1))));
        }
    }

    @Test
    void ofCompletionQueues() {
        Consumer<Status> callback = status -> {};
        try (Adapter adapter = FakeAdapters.open(device);
                CompletionChannel channel = adapter.createCompletionChannel()) {
            check(
                    CompletionQueueOptions.depth(4),
                    List.of(
                            o -> CompletionQueueOptions.depth(5),
                            CompletionQueueOptions::confined,
                            o -> o.callback(callback),
                            o -> o.vector(1),
                            o -> o.channel(channel)));
        }
    }

    @Test
    void ofMessages() {
        check(
                MessagingOptions.DEFAULTS,
                List.of(
                        o -> o.withMaxMessage(1),
                        o -> o.withEagerLimit(1),
                        o -> o.withLargeMemory(1),
                        o -> o.withOutstanding(1),
                        o -> o.withReceives(1),
                        o -> o.withExposures(1),
                        o -> o.withPeerExposures(1),
                        o -> o.withTimeout(LONG),
                        o -> o.withKeepAlive(LONG),
                        o -> o.withConnection(ConnectionOptions.DEFAULTS.withDeadline(LONG)),
                        o -> o.withTracking(true)));
    }

    @Test
    void ofReconnecting() {
        Duration first = Duration.ofMillis(100);
        Duration longest = Duration.ofSeconds(10);
        check(
                ReconnectOptions.DEFAULTS,
                List.of(
                        o -> o.withPauses(Duration.ofMillis(1), longest),
                        o -> o.withPauses(first, LONG),
                        o -> o.withAttempts(1),
                        o -> o.withLastStatuses(Status.IO_TIMEOUT)));
    }
}
