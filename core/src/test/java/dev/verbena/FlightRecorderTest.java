package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.tuple;

import com.sun.management.ThreadMXBean;

import dev.verbena.internal.events.FlightRecording;
import dev.verbena.internal.events.FlightRecording.WindowBoundEvent;
import dev.verbena.internal.events.FlightRecording.WindowInvalidatedEvent;
import dev.verbena.internal.util.Text;

import jdk.jfr.Configuration;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.io.StringReader;
import java.lang.management.ManagementFactory;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/** What recordings of the Flight Recorder say, and that nothing is recorded unless asked for. */
@Timeout(60)
class FlightRecorderTest {
    private static final QueuePairLimits LIMITS = QueuePairLimits.depths(4, 4);

    @TempDir Path folder;

    private interface Action {
        void run() throws Exception;
    }

    private List<RecordedEvent> recorded(Recording recording, Action action) throws Exception {
        Path file = folder.resolve("recording.jfr");
        try (recording) {
            recording.start();
            action.run();
            recording.stop();
            recording.dump(file);
        }
        return RecordingFile.readAllEvents(file).stream()
                .filter(event -> event.getEventType().getName().startsWith("dev.verbena."))
                .toList();
    }

    /** The events of one kind. */
    private List<RecordedEvent> recorded(String name, Action action) throws Exception {
        Recording recording = new Recording();
        recording.enable("dev.verbena." + name);
        List<RecordedEvent> events = recorded(recording, action);
        assertThat(events)
                .allSatisfy(
                        event -> {
                            assertThat(event.getEventType().getName())
                                    .isEqualTo("dev.verbena." + name);
                            assertThat(event.getEventType().getCategoryNames())
                                    .startsWith("Verbena");
                            assertThat(event.getString("device")).isEqualTo("fake0");
                        });
        return events;
    }

    private static int number(QueuePair pair) {
        return pair.address().queuePairNumber();
    }

    @Test
    void whatADeviceReports() throws Exception {
        try (Rig rig = new Rig(LIMITS)) {
            List<RecordedEvent> events =
                    recorded(
                            "Device",
                            () -> {
                                BlockingQueue<AdapterEvent> seen = new LinkedBlockingQueue<>();
                                try (var _ = rig.adapter.onEvent(seen::add)) {
                                    rig.device.raise(AdapterEvent.Type.PORT_DOWN, 2);
                                    rig.device.raise(AdapterEvent.Type.COMPLETION_QUEUE_FAILED);
                                    seen.poll(30, TimeUnit.SECONDS);
                                    seen.poll(30, TimeUnit.SECONDS);
                                }
                            });
            assertThat(events)
                    .extracting(
                            event -> event.getString("type"),
                            event -> event.getInt("port"),
                            event -> event.getString("object"))
                    .containsExactly(
                            tuple("PORT_DOWN", 2, ""),
                            tuple("COMPLETION_QUEUE_FAILED", 0, rig.queue.toString()));
        }
    }

    @Test
    void aRefusedPost() throws Exception {
        try (Rig rig = new Rig(LIMITS)) {
            List<RecordedEvent> events =
                    recorded(
                            "RefusedPost",
                            () -> {
                                assertThat(rig.a.send(1, rig.bytes(8)).status())
                                        .isEqualTo(Status.CONNECTION_INVALID);
                                rig.a.receive(1, rig.bytes(8)).orThrow();
                            });
            assertThat(events).hasSize(1);
            RecordedEvent event = events.getFirst();
            assertThat(event.getInt("queuePair")).isEqualTo(number(rig.a));
            assertThat(event.getString("operation")).isEqualTo("send");
            assertThat(event.getString("status")).isEqualTo("CONNECTION_INVALID");
            assertThat(event.getString("reason")).contains("not connected");
            assertThat(event.getStackTrace().getFrames())
                    .anyMatch(
                            frame ->
                                    frame.getMethod()
                                            .getType()
                                            .getName()
                                            .equals(FlightRecorderTest.class.getName()));
        }
    }

    @Test
    void aFailedCompletionButNotThoseThatAreCancelledWithIt() throws Exception {
        try (Rig rig = Rig.connected(LIMITS)) {
            List<RecordedEvent> events =
                    recorded(
                            "FailedCompletion",
                            () -> {
                                rig.device.failAt = 1;
                                rig.device.failStatus = 12; // RETRY_EXC_ERR
                                for (int i = 10; i < 13; i++) {
                                    rig.a
                                            .write(i, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE)
                                            .orThrow();
                                }
                                assertThat(rig.poll()).hasSize(3);
                            });
            assertThat(events).hasSize(1);
            RecordedEvent event = events.getFirst();
            assertThat(event.getInt("queuePair")).isEqualTo(number(rig.a));
            assertThat(event.getString("peer")).isEqualTo(rig.a.peer().orElseThrow().toString());
            assertThat(event.getString("operation")).isEqualTo("WRITE");
            assertThat(event.getLong("context")).isEqualTo(11);
            assertThat(event.getString("status")).isEqualTo("IO_TIMEOUT");
            assertThat(event.getInt("providerStatus")).isEqualTo(12);
            assertThat(event.getInt("vendorError")).isEqualTo(0x77);
        }
    }

    @Test
    void aWindowIsBoundAndInvalidatedByEitherSide() throws Exception {
        try (Rig rig = Rig.connected(LIMITS);
                MemoryWindow window = rig.domain.createMemoryWindow()) {
            Recording recording = new Recording();
            recording.enable("dev.verbena.WindowBound");
            recording.enable("dev.verbena.WindowInvalidated");
            int[] tokens = new int[2];
            List<RecordedEvent> events =
                    recorded(
                            recording,
                            () -> {
                                OpFlags rights = OpFlags.ALLOW_REMOTE_WRITE;
                                rig.a.bind(1, window, rig.memory, 8, 100, rights).orThrow();
                                tokens[0] = window.remoteToken();
                                rig.a.invalidate(2, window, OpFlags.NONE).orThrow();
                                rig.a.bind(3, window, rig.memory, 0, 64, rights).orThrow();
                                tokens[1] = window.remoteToken();
                                rig.a.receive(4, rig.bytes(8)).orThrow();
                                assertThat(rig.poll()).hasSize(3);
                                rig.b
                                        .sendAndInvalidate(5, rig.bytes(8), tokens[1], OpFlags.NONE)
                                        .orThrow();
                                assertThat(rig.poll()).hasSize(2);
                            });
            assertThat(events)
                    .extracting(event -> event.getEventType().getLabel())
                    .containsExactly(
                            "Window Bound",
                            "Window Invalidated",
                            "Window Bound",
                            "Window Invalidated");
            assertThat(events)
                    .extracting(event -> event.getInt("token"))
                    .containsExactly(
                            Text.shown(tokens[0]),
                            Text.shown(tokens[0]),
                            Text.shown(tokens[1]),
                            Text.shown(tokens[1]));
            assertThat(events)
                    .allSatisfy(
                            event ->
                                    assertThat(event.getInt("queuePair")).isEqualTo(number(rig.a)));
            assertThat(events.get(0).getLong("address"))
                    .isEqualTo(rig.memory.memory().address() + 8);
            assertThat(events.get(0).getLong("length")).isEqualTo(100);
            assertThat(events.get(1).getBoolean("byPeer")).isFalse();
            assertThat(events.get(3).getBoolean("byPeer")).isTrue();
        }
    }

    @Test
    void aRegistrationWithItsBytesAlsoOneThatFails() throws Exception {
        try (Rig rig = new Rig(LIMITS)) {
            List<RecordedEvent> events =
                    recorded(
                            "Registration",
                            () -> {
                                rig.domain.allocate(5000, Access.LOCAL_WRITE).close();
                                rig.device.controlError = 12; // ENOMEM
                                assertThatThrownBy(() -> rig.domain.allocate(6000))
                                        .isInstanceOf(VerbenaException.class);
                            });
            assertThat(events)
                    .extracting(event -> event.getLong("bytes"))
                    .containsExactly(5000L, 6000L);
            assertThat(events)
                    .extracting(event -> event.getBoolean("registered"))
                    .containsExactly(true, false);
            assertThat(events.get(0).getInt("rights") & 1).isEqualTo(1);
            assertThat(events.get(0).getDuration()).isPositive();
        }
    }

    @Test
    void aWaitForACompletionQueueAndForAChannel() throws Exception {
        try (Rig rig = Rig.connected(LIMITS);
                CompletionChannel channel = rig.adapter.createCompletionChannel()) {
            List<RecordedEvent> events =
                    recorded(
                            "Await",
                            () -> {
                                rig.queue.arm(NotifyType.ANY);
                                assertThat(rig.queue.await(Duration.ofMillis(2)))
                                        .isEqualTo(Status.IO_TIMEOUT);
                                rig.a.write(1, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
                                rig.device.run();
                                assertThat(rig.queue.await(Duration.ofSeconds(30)))
                                        .isEqualTo(Status.SUCCESS);
                                assertThat(channel.await(Duration.ZERO)).isNull();
                            });
            assertThat(events)
                    .extracting(event -> event.getBoolean("fired"))
                    .containsExactly(false, true, false);
            assertThat(events.get(0).getDuration()).isGreaterThanOrEqualTo(Duration.ofMillis(1));
            assertThat(rig.poll()).hasSize(1);
        }
    }

    @Test
    void aConnectionByAddressAndItsEnd() throws Exception {
        Recording recording = new Recording();
        recording.enable("dev.verbena.Connect");
        recording.enable("dev.verbena.Disconnect");
        try (Rig rig = new Rig(LIMITS)) {
            int[] numbers = {number(rig.a), number(rig.b)};
            List<RecordedEvent> events =
                    recorded(
                            recording,
                            () -> {
                                rig.device.reachError = 110; // ETIMEDOUT
                                assertThatThrownBy(() -> rig.a.connect(rig.b.address()))
                                        .isInstanceOf(VerbenaException.class);
                                rig.device.reachError = 0;
                                rig.connect();
                                rig.device.failAt = 0;
                                rig.device.failStatus = 12;
                                rig.a.write(1, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
                                assertThat(rig.poll()).hasSize(1);
                                rig.a.close();
                                rig.b.flush();
                                rig.b.close();
                            });
            assertThat(events)
                    .extracting(
                            event ->
                                    event.getEventType().getLabel()
                                            + " "
                                            + event.getInt("queuePair")
                                            + (event.hasField("reason")
                                                    ? " " + event.getString("reason")
                                                    : event.getString("failure").isEmpty()
                                                            ? ""
                                                            : " failed"))
                    .containsExactly(
                            "Connect " + numbers[0] + " failed",
                            "Connect " + numbers[0],
                            "Connect " + numbers[1],
                            "Disconnect " + numbers[0] + " REQUEST_FAILED",
                            "Disconnect " + numbers[1] + " LOCAL");
            assertThat(events.get(0).getString("failure")).contains("ibv_modify_qp(RTR");
            assertThat(events.get(3).getString("peer")).isNotEmpty();
        }
    }

    /** By IP address; an object that has its own connection manager. */
    static final class Connected extends ConnectorRig {}

    @Test
    void aConnectionByIpAddressAndItsEnd() throws Exception {
        Recording recording = new Recording();
        recording.enable("dev.verbena.Connect");
        recording.enable("dev.verbena.Disconnect");
        Connected rig = new Connected();
        int[] numbers = {number(rig.near), number(rig.far)};
        InetSocketAddress nowhere = new InetSocketAddress(ConnectorRig.HERE, 9);
        List<RecordedEvent> events =
                recorded(
                        recording,
                        () -> {
                            Connector refused = rig.connector();
                            CompletableFuture<Void> step =
                                    refused.connectAsync(rig.near, nowhere, ConnectorRig.DEFAULTS);
                            ConnectorRig.failure(step);
                            Connector[] both = rig.connected();
                            both[0].disconnect();
                            both[1].disconnect();
                            rig.close();
                        });
        assertThat(events)
                .filteredOn(event -> event.getEventType().getLabel().equals("Connect"))
                .extracting(
                        event ->
                                event.getString("side")
                                        + " "
                                        + event.getInt("queuePair")
                                        + " "
                                        + event.getString("failure").isEmpty())
                .containsExactlyInAnyOrder(
                        "connect " + numbers[0] + " false",
                        "connect " + numbers[0] + " true",
                        "accept " + numbers[1] + " true");
        assertThat(events)
                .filteredOn(event -> event.getEventType().getLabel().equals("Disconnect"))
                .extracting(event -> event.getInt("queuePair") + " " + event.getString("reason"))
                .containsExactlyInAnyOrder(numbers[0] + " LOCAL", numbers[1] + " PEER");
        assertThat(events).allSatisfy(event -> assertThat(event.getString("peer")).contains(":"));
    }

    /** Of the queue pair that is connected. */
    @Test
    void theEndAfterASecondConnectThatWasRefused() throws Exception {
        Connected rig = new Connected();
        int[] numbers = {number(rig.near), number(rig.far)};
        List<RecordedEvent> events =
                recorded(
                        "Disconnect",
                        () -> {
                            Connector[] both = rig.connected();
                            InetSocketAddress there = rig.lastListener.localAddress();
                            QueuePair other = rig.keep(rig.queuePair());
                            assertThat(ConnectorRig.failure(() -> both[0].connect(other, there)))
                                    .isNotNull();
                            both[0].disconnect();
                            both[1].disconnect();
                            rig.close();
                        });
        assertThat(events)
                .extracting(event -> event.getInt("queuePair") + " " + event.getString("reason"))
                .containsExactlyInAnyOrder(numbers[0] + " LOCAL", numbers[1] + " PEER");
    }

    @Test
    void nothingIsRecordedUnlessItIsSwitchedOn() throws Exception {
        try (Rig rig = new Rig(LIMITS)) {
            List<RecordedEvent> events =
                    recorded(
                            new Recording(Configuration.getConfiguration("profile")),
                            () -> {
                                assertThat(FlightRecording.on()).isTrue();
                                assertThat(rig.a.send(1, rig.bytes(8)).status())
                                        .isEqualTo(Status.CONNECTION_INVALID);
                                rig.domain.allocate(5000).close();
                                rig.connect();
                            });
            assertThat(events).isEmpty();
        }
    }

    @Test
    void theSettingsInTheDocumentationSwitchAllEventsOn() throws Exception {
        String settings = Files.readString(Path.of("docs/verbena.jfc"));
        List<String> names =
                Pattern.compile("event name=\"([^\"]+)\"")
                        .matcher(settings)
                        .results()
                        .map(result -> result.group(1))
                        .toList();
        for (String folder : List.of("dev/verbena/internal/events", "dev/verbena/messaging")) {
            try (Stream<Path> sources = Files.list(Path.of("src/main/java").resolve(folder))) {
                for (Path source : sources.toList()) {
                    String text = Files.isDirectory(source) ? "" : Files.readString(source);
                    var name = Pattern.compile("@Name\\(\"([^\"]+)\"\\)").matcher(text);
                    if (name.find()) {
                        assertThat(names).contains(name.group(1));
                        assertThat(Files.readString(Path.of("docs/production.md")))
                                .contains("`" + name.group(1) + "`");
                    }
                }
            }
        }
        assertThat(names).hasSize(10);
        Configuration read = Configuration.create(new StringReader(settings));
        try (Rig rig = new Rig(LIMITS)) {
            List<RecordedEvent> events =
                    recorded(
                            new Recording(read),
                            () ->
                                    assertThat(rig.a.send(1, rig.bytes(8)).status())
                                            .isEqualTo(Status.CONNECTION_INVALID));
            assertThat(events).hasSize(1);
        }
    }

    /** Where something was recorded once, and the events of posts are off. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void postsAllocateNothingWhileTheirEventsAreOff(boolean recording) throws Exception {
        ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        try (Rig rig = Rig.connected(LIMITS);
                MemoryWindow window = rig.domain.createMemoryWindow();
                Recording other = new Recording()) {
            if (recording) {
                other.start();
            }
            BufferList bytes = rig.bytes(8);
            long least = Long.MAX_VALUE;
            for (int round = 0; round < 2_000; round++) {
                long before = threads.getCurrentThreadAllocatedBytes();
                Status refused = rig.a.write(1, bytes, 0, 0, OpFlags.ALLOW_REMOTE_READ).status();
                Status notBound = rig.a.bind(1, window, rig.memory, 0, 9999, OpFlags.NONE).status();
                boolean wanted =
                        FlightRecording.on()
                                && (WindowBoundEvent.wanted() || WindowInvalidatedEvent.wanted());
                long after = threads.getCurrentThreadAllocatedBytes();
                assertThat(refused).isEqualTo(Status.INVALID_PARAMETER);
                assertThat(notBound).isEqualTo(Status.INVALID_PARAMETER);
                assertThat(wanted).isFalse();
                least = Math.min(least, after - before);
            }
            assertThat(least).isZero();
        }
    }
}
