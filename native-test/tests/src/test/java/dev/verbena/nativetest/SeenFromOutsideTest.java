package dev.verbena.nativetest;

import static dev.verbena.nativetest.Pair.whole;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.verbena.MemoryRegion;
import dev.verbena.MemoryWindow;
import dev.verbena.NotifyType;
import dev.verbena.OpFlags;
import dev.verbena.QueuePair;
import dev.verbena.RequestCounters;
import dev.verbena.Status;
import dev.verbena.examples.QueueMeters;

import io.micrometer.core.instrument.simple.SimpleMeterRegistry;

import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** Counters, meters and events of what happens on devices. */
@NeedsDevices
@Timeout(240)
class SeenFromOutsideTest {
    private static final List<String> EVENTS =
            List.of(
                    "Connect",
                    "Disconnect",
                    "RefusedPost",
                    "FailedCompletion",
                    "Registration",
                    "Await");

    @Test
    void countersAndMetersOfMessages() {
        try (Pair pair = Pair.connected(4)) {
            MemoryRegion source = pair.left.memory(64);
            MemoryRegion target = pair.right.memory(64);
            SimpleMeterRegistry registry = new SimpleMeterRegistry();
            new QueueMeters(pair.left.queuePair, "right").bindTo(registry);
            for (int i = 0; i < 3; i++) {
                pair.right.queuePair.receive(i, whole(target)).orThrow();
                pair.left.queuePair.send(i, whole(source)).orThrow();
                assertThat(pair.left.ends(1)).containsExactly("SEND " + i + " SUCCESS");
                assertThat(pair.right.ends(1)).containsExactly("RECEIVE " + i + " SUCCESS");
            }
            RequestCounters requests = pair.left.queuePair.counters().requests();
            assertThat(requests.posted()).isEqualTo(3);
            assertThat(requests.ended()).isEqualTo(3);
            assertThat(requests.bytes()).isEqualTo(192);
            RequestCounters receives = pair.right.queuePair.counters().receives();
            assertThat(receives.ended()).isEqualTo(3);
            assertThat(receives.bytes()).isEqualTo(192);
            assertThat(pair.left.completionQueue.counters().delivered()).isEqualTo(3);
            assertThat(count(registry, "verbena.posted")).isEqualTo(3);
            assertThat(count(registry, "verbena.bytes.sent")).isEqualTo(192);
            assertThat(count(registry, "verbena.failed")).isZero();
            assertThat(registry.get("verbena.outstanding").tag("peer", "right").gauge().value())
                    .isZero();
        }
    }

    private static double count(SimpleMeterRegistry registry, String name) {
        return registry.get(name).tag("peer", "right").functionCounter().count();
    }

    @Test
    void eventsOfAConnectionThatFails(@TempDir Path folder) throws IOException {
        Path file = folder.resolve("recording.jfr");
        try (Recording recording = new Recording()) {
            EVENTS.forEach(name -> recording.enable("dev.verbena." + name).withoutThreshold());
            recording.start();
            try (Pair pair = Pair.connected(4)) {
                QueuePair left = pair.left.queuePair;
                MemoryRegion memory = pair.left.memory(64);
                Status refused =
                        left.write(1, whole(memory), 0, 0, OpFlags.ALLOW_REMOTE_READ).status();
                assertThat(refused).isEqualTo(Status.INVALID_PARAMETER);
                pair.left.completionQueue.arm(NotifyType.ANY);
                left.write(2, whole(memory), 0, 0x1234_5678, OpFlags.NONE).orThrow();
                assertThat(pair.left.completionQueue.await(Duration.ofSeconds(30)))
                        .isEqualTo(Status.SUCCESS);
                assertThat(pair.left.ends(1)).containsExactly("WRITE 2 ACCESS_VIOLATION");
                assertThat(left.counters().requests().failed()).isEqualTo(1);
            }
            recording.stop();
            recording.dump(file);
        }
        List<RecordedEvent> events =
                RecordingFile.readAllEvents(file).stream()
                        .filter(one -> one.getEventType().getName().startsWith("dev.verbena."))
                        .toList();
        assertThat(events)
                .extracting(event -> event.getEventType().getName())
                .containsAll(EVENTS.stream().map(name -> "dev.verbena." + name).toList());
        assertThat(events)
                .filteredOn(one -> one.getEventType().getName().endsWith("FailedCompletion"))
                .singleElement()
                .satisfies(
                        event -> {
                            assertThat(event.getString("status")).isEqualTo("ACCESS_VIOLATION");
                            assertThat(event.getLong("context")).isEqualTo(2);
                        });
    }

    /** A key grants access: recordings have its upper half. */
    private static int recorded(MemoryWindow window) {
        return window.remoteToken() & 0xffff_0000;
    }

    /** A window that this side invalidates, then one that the peer's message does. */
    @Test
    void eventsOfWindows(@TempDir Path folder) throws IOException {
        Path file = folder.resolve("recording.jfr");
        List<String> expected = new ArrayList<>();
        try (Recording recording = new Recording();
                Pair pair = Pair.connected(4)) {
            assumeTrue(
                    pair.left.adapter.info().invalidatableWindows()
                            && pair.right.adapter.info().sendsWithInvalidate(),
                    "SKIPPED: the device has no memory windows of type 2");
            recording.enable("dev.verbena.WindowBound");
            recording.enable("dev.verbena.WindowInvalidated");
            recording.start();
            QueuePair left = pair.left.queuePair;
            MemoryRegion memory = pair.left.memory(64);
            try (MemoryWindow window = pair.left.domain.createMemoryWindow()) {
                bind(pair.left, window, memory, expected);
                expected.add("invalidated %08x".formatted(recorded(window)));
                left.invalidate(1, window, OpFlags.NONE).orThrow();
                assertThat(pair.left.ends(1)).containsExactly("INVALIDATE 1 SUCCESS");
                bind(pair.left, window, memory, expected);
                expected.add("invalidated %08x by the peer".formatted(recorded(window)));
                left.receive(2, whole(memory)).orThrow();
                pair.right
                        .queuePair
                        .sendAndInvalidate(
                                3, whole(pair.right.memory(8)), window.remoteToken(), OpFlags.NONE)
                        .orThrow();
                assertThat(pair.left.ends(1)).containsExactly("RECEIVE_AND_INVALIDATE 2 SUCCESS");
            }
            recording.stop();
            recording.dump(file);
            assertThat(RecordingFile.readAllEvents(file))
                    .extracting(
                            event ->
                                    event.getEventType().getName().endsWith("Bound")
                                            ? bound(event)
                                            : "invalidated %08x%s"
                                                    .formatted(
                                                            event.getInt("token"),
                                                            event.getBoolean("byPeer")
                                                                    ? " by the peer"
                                                                    : ""))
                    .isEqualTo(expected);
        }
    }

    private static String bound(RecordedEvent event) {
        return "%08x is %d bytes at %x of %s"
                .formatted(
                        event.getInt("token"),
                        event.getLong("length"),
                        event.getLong("address"),
                        event.getString("device"));
    }

    private static void bind(
            Pair.Side side, MemoryWindow window, MemoryRegion memory, List<String> expected) {
        side.queuePair.bind(0, window, memory, 8, 40, OpFlags.ALLOW_REMOTE_WRITE).orThrow();
        assertThat(side.ends(1)).containsExactly("BIND 0 SUCCESS");
        expected.add(
                "%08x is 40 bytes at %x of %s"
                        .formatted(
                                recorded(window),
                                memory.memory().address() + 8,
                                side.adapter.name()));
    }
}
