package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.tuple;

import dev.verbena.Adapter;
import dev.verbena.AdapterEvent;
import dev.verbena.AdapterEvent.Type;
import dev.verbena.QueuePairState;
import dev.verbena.Status;

import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

import java.net.InetAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Stream;

/**
 * Links that go down, come up and flap, and devices that are deleted, idle and under load: events
 * say so, requests end in statuses, and everything can be closed.
 */
@NeedsDevices
@Timeout(240)
class FabricTest {
    private static final long SECONDS = 60; // for whatever the kernel or another thread does

    /** Soft-RoCE: no answer came, or the packet could not be sent; and what was behind it. */
    static final List<Status> LINK_FAILURES =
            List.of(Status.IO_TIMEOUT, Status.ACCESS_VIOLATION, Status.CANCELLED);

    private final OwnDevices devices = new OwnDevices();
    private final BlockingQueue<AdapterEvent> events = new LinkedBlockingQueue<>();

    @AfterEach
    void removeDevices() {
        devices.close();
    }

    /** Waits for an event of a type; others may come before. */
    private AdapterEvent await(Type type) throws InterruptedException {
        List<AdapterEvent> others = new ArrayList<>();
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(SECONDS);
        while (true) {
            AdapterEvent event = events.poll(end - System.nanoTime(), TimeUnit.NANOSECONDS);
            assertThat(event).as("%s; there were %s", type, others).isNotNull();
            if (event.type() == type) {
                return event;
            }
            others.add(event);
        }
    }

    private static void connectAndWrite(WritingEnd a, WritingEnd b) {
        WritingEnd.connect(a, b);
        assertThat(a.fill(b.target)).isEqualTo(Status.NO_MORE_ENTRIES);
        assertThat(a.awaitAll()).isTrue();
    }

    /** After all that happened, the devices are of use. */
    private static void worksAnew() {
        try (WritingEnd a = new WritingEnd(OwnDevices.FIRST);
                WritingEnd b = new WritingEnd(OwnDevices.SECOND)) {
            connectAndWrite(a, b);
        }
    }

    @Test
    void aLinkThatGoesDownAndUpIsAnEventOfItsPort() throws Exception {
        try (Adapter adapter = Adapter.open(OwnDevices.FIRST);
                var _ = adapter.onEvent(events::add)) {
            OwnDevices.run("ip link set vflap0 down");
            AdapterEvent down = await(Type.PORT_DOWN);
            assertThat(down.port()).isEqualTo(1);
            assertThat(down.adapter()).isSameAs(adapter);
            assertThat(adapter.ports().getFirst().active()).isFalse();
            OwnDevices.run("ip link set vflap0 up");
            assertThat(await(Type.PORT_UP).port()).isEqualTo(1);
            assertThat(adapter.ports().getFirst().active()).isTrue();
        }
    }

    /** What a recording says of a connection that a link takes with it, and of that link. */
    @Test
    void aLinkThatGoesDownIsInTheRecording(@TempDir Path folder) throws Exception {
        Path file = folder.resolve("recording.jfr");
        int number;
        List<Status> failures;
        try (Recording recording = new Recording()) {
            Stream.of("Device", "FailedCompletion", "Disconnect")
                    .forEach(name -> recording.enable("dev.verbena." + name));
            try (WritingEnd a = new WritingEnd(OwnDevices.FIRST);
                    WritingEnd b = new WritingEnd(OwnDevices.SECOND);
                    var _ = a.adapter.onEvent(events::add)) {
                connectAndWrite(a, b);
                number = a.pair.address().queuePairNumber();
                recording.start();
                OwnDevices.run("ip link set vflap0 down");
                await(Type.PORT_DOWN);
                assertThat(a.writeUntil(new AtomicBoolean(), b.target)).isIn(LINK_FAILURES);
                a.awaitAll();
                recording.stop();
                failures = a.failures();
            }
            recording.dump(file);
        }
        OwnDevices.run("ip link set vflap0 up");
        List<RecordedEvent> recorded =
                RecordingFile.readAllEvents(file).stream()
                        .filter(one -> one.getEventType().getName().startsWith("dev.verbena."))
                        .filter(one -> one.getString("device").equals(OwnDevices.FIRST))
                        .toList();
        assertThat(recorded)
                .filteredOn(event -> event.getEventType().getName().endsWith(".Device"))
                .extracting(event -> event.getString("type"), event -> event.getInt("port"))
                .contains(tuple("PORT_DOWN", 1));
        // The cause, but none of the requests that were cancelled with it. Soft-RoCE reports one up
        // to Linux 6.4; since 6.5 it also cancels the request that it could not send.
        assertThat(failures).isNotEmpty().isSubsetOf(LINK_FAILURES);
        assertThat(recorded)
                .filteredOn(event -> event.getEventType().getName().endsWith("FailedCompletion"))
                .extracting(event -> event.getInt("queuePair"), event -> event.getString("status"))
                .isEqualTo(
                        failures.stream()
                                .filter(status -> status != Status.CANCELLED)
                                .map(status -> tuple(number, status.name()))
                                .toList());
        assertThat(recorded)
                .filteredOn(event -> event.getEventType().getName().endsWith("Disconnect"))
                .extracting(event -> event.getString("reason"), event -> event.getInt("queuePair"))
                .containsExactly(tuple("REQUEST_FAILED", number));
    }

    @Test
    void anAddressThatComesAndGoesIsAnEventOfTheGidTable() throws Exception {
        try (Adapter adapter = Adapter.open(OwnDevices.FIRST);
                var _ = adapter.onEvent(events::add)) {
            OwnDevices.run("ip address add 198.19.77.9/24 dev vflap0");
            assertThat(await(Type.GIDS_CHANGED).port()).isEqualTo(1);
            try (Adapter found = Adapter.forAddress(InetAddress.ofLiteral("198.19.77.9"))) {
                assertThat(found.name()).isEqualTo(OwnDevices.FIRST);
            }
            OwnDevices.run("ip address delete 198.19.77.9/24 dev vflap0");
            await(Type.GIDS_CHANGED);
        }
    }

    @Test
    @Tag("trust")
    void aLinkThatStaysDownEndsRequestsInStatuses() {
        try (Bystander other = new Bystander("link down, idle");
                WritingEnd a = new WritingEnd(OwnDevices.FIRST);
                WritingEnd b = new WritingEnd(OwnDevices.SECOND)) {
            connectAndWrite(a, b);
            OwnDevices.run("ip link set vflap0 down");
            long start = System.nanoTime();
            Status end = a.writeUntil(new AtomicBoolean(), b.target);
            assertThat(end).isIn(LINK_FAILURES);
            a.awaitAll();
            other.requests(a.ended()).write(1, 0, 0, System.nanoTime() - start);
            assertThat(a.fill(b.target)).isEqualTo(Status.CONNECTION_INVALID);
            assertThat(a.pair.state()).isEqualTo(QueuePairState.FAILED);
        }
        OwnDevices.run("ip link set vflap0 up");
        worksAnew();
    }

    @Test
    @Tag("trust")
    void aLinkThatFlapsUnderLoadLosesNoCompletion() throws Exception {
        try (Bystander other = new Bystander("link down and up, loaded");
                WritingEnd a = new WritingEnd(OwnDevices.FIRST);
                WritingEnd b = new WritingEnd(OwnDevices.SECOND);
                var _ = a.adapter.onEvent(events::add)) {
            WritingEnd.connect(a, b);
            AtomicBoolean over = new AtomicBoolean();
            CompletableFuture<Status> load =
                    CompletableFuture.supplyAsync(() -> a.writeUntil(over, b.target));
            long start = System.nanoTime();
            for (int i = 0; i < 3; i++) {
                OwnDevices.run("ip link set vflap0 down; ip link set vflap0 up");
                await(Type.PORT_DOWN);
                await(Type.PORT_UP);
            }
            over.set(true);
            // Whether the connection outlives it depends on how long the link was down.
            Status end = load.get(SECONDS, TimeUnit.SECONDS);
            if (end != Status.SUCCESS) {
                assertThat(end).isIn(LINK_FAILURES);
            }
            // Soft-RoCE of Linux 6.1 may send nothing more after a retransmission, for ever.
            a.pair.flush();
            a.awaitAll();
            other.requests(a.ended()).write(3, 0, 0, System.nanoTime() - start);
        }
        worksAnew();
    }

    /**
     * Soft-RoCE's driver cannot take a device from its users: the kernel waits until the last has
     * closed it, and until then it works.
     */
    @Test
    void aDeviceThatIsDeletedUnderLoadCanBeClosed() throws Exception {
        Process deletion;
        AtomicBoolean over = new AtomicBoolean();
        try (WritingEnd a = new WritingEnd(OwnDevices.FIRST);
                WritingEnd b = new WritingEnd(OwnDevices.SECOND)) {
            WritingEnd.connect(a, b);
            CompletableFuture<Status> load =
                    CompletableFuture.supplyAsync(() -> a.writeUntil(over, b.target));
            deletion = OwnDevices.start("rdma link delete flap0");
            Deadline deadline = Deadline.of("deletion that others see");
            while (Adapter.names().contains(OwnDevices.FIRST)) {
                deadline.check();
            }
            over.set(true);
            assertThat(load.get(SECONDS, TimeUnit.SECONDS))
                    .isIn(Status.SUCCESS, Status.IO_TIMEOUT, Status.CANCELLED);
            a.awaitAll();
        }
        assertThat(deletion.waitFor(SECONDS, TimeUnit.SECONDS)).as("deleted").isTrue();
        assertThat(deletion.exitValue()).isZero();
    }

    /** In a process of its own: librdmacm keeps each device open until its process ends. */
    @Test
    @Tag("trust")
    void aDeviceThatIsDeletedUnderLoadEndsItsConnections() throws Exception {
        ChildProgram program = ChildProgram.start(DeletedDevice.class);
        try {
            assertThat(program.line()).isEqualTo("connected");
            Process deletion = OwnDevices.start("rdma link delete flap0");
            assertThat(program.line()).isEqualTo("disconnected: DEVICE_REMOVED");
            assertThat(program.line())
                    .isIn(
                            "load ended: CONNECTION_INVALID",
                            "load ended: CANCELLED",
                            "load ended: IO_TIMEOUT");
            assertThat(program.line()).isEqualTo("all ended");
            String closed = program.line();
            assertThat(closed).startsWith("closed after ");
            assertThat(Duration.parse(closed.substring("closed after ".length())))
                    .isLessThan(Duration.ofSeconds(20));
            assertThat(program.exitCode()).isZero();
            assertThat(deletion.waitFor(SECONDS, TimeUnit.SECONDS)).as("deleted").isTrue();
            assertThat(deletion.exitValue()).isZero();
        } finally {
            program.close();
        }
    }
}
