package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assumptions.assumeThat;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.AdapterEvent;
import dev.verbena.BufferList;
import dev.verbena.CompletionQueue;
import dev.verbena.Completions;
import dev.verbena.ConnectionOptions;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.ProtectionDomain;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.messaging.Call;
import dev.verbena.messaging.Calls;
import dev.verbena.messaging.Message;
import dev.verbena.messaging.MessageChannel;
import dev.verbena.messaging.MessageServer;
import dev.verbena.messaging.MessagingOptions;
import dev.verbena.trust.Trust;

import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

import java.lang.foreign.MemorySegment;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/**
 * Faults around channels: peers that are killed or frozen, cables that damage packets, clocks that
 * jump, a JVM that is suspended. Each message is accounted for, whoever waits hears in time, and
 * another connection of the process goes on. {@link FabricTest} has those of links and devices.
 */
@NeedsDevices
@Tag("trust")
@Timeout(240)
class FaultsTest {
    private static final ConnectionOptions PATIENT =
            ConnectionOptions.DEFAULTS.withDeadline(Duration.ofSeconds(60));

    static final MessagingOptions LONG =
            MessagingOptions.DEFAULTS
                    .withConnection(PATIENT)
                    .withTimeout(Duration.ofSeconds(60))
                    .withKeepAlive(Duration.ofSeconds(60));

    /** An end is noticed within four seconds. */
    static final MessagingOptions SHORT =
            MessagingOptions.DEFAULTS
                    .withConnection(PATIENT)
                    .withTimeout(Duration.ofSeconds(3))
                    .withKeepAlive(Duration.ofSeconds(1));

    private static final int SOME = 20; // messages

    private static MessageChannel idle(
            Bystander other, InetSocketAddress server, MessagingOptions options) {
        return MessageChannel.connect(other.poller, server, options, null);
    }

    private static Status end(MessageChannel channel) throws Exception {
        return channel.closed().get(60, TimeUnit.SECONDS);
    }

    @Test
    void aPeerThatIsFrozenAndThenKilledEndsItsChannels() throws Exception {
        String host;
        try (Adapter adapter = Adapter.open(RdmaDevices.active().getFirst())) {
            host = Sides.anyPort(adapter).getAddress().getHostAddress();
        }
        try (ChildProgram server = ChildProgram.start(EchoProgram.class, host, "0")) {
            InetSocketAddress address =
                    new InetSocketAddress(host, Integer.parseInt(server.line()));
            freeze(server, address);
            kill(server, address);
        }
    }

    /** Channels with short deadlines end; one with long ones goes on as if nothing had been. */
    private static void freeze(ChildProgram server, InetSocketAddress address) throws Exception {
        try (Bystander other = new Bystander("peer frozen, and thawed");
                Load patient = served(new Load(other.poller, address, LONG));
                Load load = new Load(other.poller, address, NettyDeviceFaultsTest.SOON);
                MessageChannel idle = idle(other, address, NettyDeviceFaultsTest.SOON)) {
            load.goesOn(SOME);
            server.suspend();
            long start = System.nanoTime();
            assertThat(end(idle)).isEqualTo(Status.IO_TIMEOUT);
            assertThat(end(load.channel)).isEqualTo(Status.IO_TIMEOUT);
            long wait = System.nanoTime() - start;
            other.goesOn();
            server.resume();
            patient.goesOn(SOME);
            List<String> wrong = new ArrayList<>(load.settle());
            wrong.addAll(patient.settle());
            other.write(1, load.messages() + patient.messages(), wrong.size(), wait);
            assertThat(wrong).isEmpty();
            assertThat(patient.channel.isOpen()).isTrue();
        }
    }

    /** A JVM that has just started takes long for its first messages, and is not frozen. */
    private static Load served(Load load) {
        load.goesOn(SOME);
        return load;
    }

    private static void kill(ChildProgram server, InetSocketAddress address) throws Exception {
        try (Bystander other = new Bystander("peer killed");
                Load load = new Load(other.poller, address, LONG);
                MessageChannel idle = idle(other, address, LONG)) {
            load.goesOn(SOME);
            server.kill();
            long start = System.nanoTime();
            assertThat(end(idle)).isIn(Status.CONNECTION_ABORTED, Status.IO_TIMEOUT);
            assertThat(end(load.channel)).isIn(Status.CONNECTION_ABORTED, Status.IO_TIMEOUT);
            long wait = System.nanoTime() - start;
            List<String> wrong = load.settle();
            other.write(1, load.messages(), wrong.size(), wait);
            assertThat(wrong).isEmpty();
        }
    }

    /**
     * What was sent over the bad cable comes back whole and in order, or the channel ends:
     * Soft-RoCE of Linux 6.1 may send nothing more after a retransmission.
     */
    @ParameterizedTest
    @CsvSource({
        "'loss, corruption, duplication, reordering', "
                + "delay 1ms reorder 98% loss 1% corrupt 1% duplicate 1%, true",
        "loss, loss 5%, false",
        "corruption, corrupt 5%, false",
        "duplication, duplicate 5%, false",
        "reordering, delay 2ms reorder 95%, false"
    })
    void aBadCableDamagesNoMessage(String name, String netem, boolean part) throws Exception {
        assumeThat(part || Trust.WHOLE).as(Trust.ONLY_WHOLE).isTrue();
        try (OwnDevices _ = new OwnDevices();
                ChildProgram program =
                        ChildProgram.start(
                                BadCable.class, "" + Trust.size(100, 400), name, netem)) {
            assertThat(program.line()).isEqualTo("[]");
            assertThat(program.exitCode()).isZero();
        }
    }

    private static final Set<Status> OVERRUN_ENDS = Set.of(Status.SUCCESS, Status.BUFFER_OVERFLOW);

    /** A queue of two, and many requests that nobody polls. */
    @Test
    void aCompletionQueueThatOverrunsReportsAllThatWasLost() throws Exception {
        int requests = 16;
        Completions completions = new Completions(requests);
        List<Status> ends = new ArrayList<>();
        try (Bystander other = new Bystander("completion queue overrun");
                WritingEnd target = new WritingEnd(other.sides.there.name());
                ProtectionDomain domain = other.sides.here.createProtectionDomain();
                MemoryRegion memory = domain.allocate(64, Access.LOCAL_WRITE);
                CompletionQueue queue = other.sides.here.createCompletionQueue(1);
                QueuePair pair =
                        domain.createQueuePair(
                                queue, queue, QueuePairLimits.depths(requests, requests))) {
            CompletableFuture<AdapterEvent> overrun = new CompletableFuture<>();
            try (var _ = other.sides.here.onEvent(overrun::complete)) {
                pair.connect(target.pair.address());
                target.pair.connect(pair.address());
                for (int i = 0; i < requests; i++) {
                    pair.write(i, BufferList.of(memory), target.target, 0, OpFlags.NONE).orThrow();
                }
                assertThat(overrun.get(60, TimeUnit.SECONDS).type())
                        .isEqualTo(AdapterEvent.Type.COMPLETION_QUEUE_FAILED);
            }
            long start = System.nanoTime();
            Deadline deadline = Deadline.of("completion of all");
            while (ends.size() < requests) {
                int count = queue.poll(completions);
                for (int i = 0; i < count; i++) {
                    assertThat(completions.context(i)).isEqualTo(ends.size());
                    ends.add(completions.status(i));
                }
                deadline.check();
            }
            assertThatThrownBy(() -> queue.poll(completions))
                    .isInstanceOf(VerbenaException.class)
                    .hasMessageContaining("is broken, most likely by an overrun");
            long wrong = ends.stream().filter(end -> !OVERRUN_ENDS.contains(end)).count();
            other.write(1, 0, wrong, System.nanoTime() - start);
        }
        assertThat(ends)
                .startsWith(Status.SUCCESS)
                .endsWith(Status.BUFFER_OVERFLOW)
                .isSubsetOf(OVERRUN_ENDS);
    }

    /** Of root, the capability that exceeds the limit is taken away. */
    @Test
    void lockedMemoryThatRunsOutFailsWhatNeedsMore() throws Exception {
        List<String> limited = new ArrayList<>();
        if ("root".equals(System.getProperty("user.name"))) {
            limited.addAll(List.of("setpriv", "--bounding-set=-ipc_lock"));
        }
        limited.addAll(List.of("prlimit", "--memlock=" + LittleLockedMemory.BYTES));
        try (ChildProgram program = ChildProgram.start(limited, LittleLockedMemory.class)) {
            assertThat(program.line()).isEqualTo("[]");
            assertThat(program.exitCode()).isZero();
        }
    }

    /** The clock of the day is for the eyes of people: no deadline is by it. */
    @Test
    void aClockThatJumpsEndsNothing() throws Exception {
        assumeThat(Path.of("/run/verbena/command")).as("only in a VM of its own").exists();
        CompletableFuture<Call> request = new CompletableFuture<>();
        Calls answering = Calls.answeredBy(call -> request.complete(call.retain()));
        try (Bystander other = new Bystander("clock jumps");
                MessageServer answers = other.sides.listen(SHORT, 1, answering, channel -> {});
                MessageChannel calls =
                        MessageChannel.connect(
                                other.poller, answers.localAddress(), SHORT, Calls.outgoing());
                MessageServer server =
                        other.sides.listen(SHORT, 2, EchoProgram.ECHO, channel -> {});
                Load load = new Load(other.poller, server.localAddress(), SHORT);
                MessageChannel idle = idle(other, server.localAddress(), SHORT)) {
            load.goesOn(SOME);
            CompletableFuture<Integer> answer =
                    Calls.call(
                            calls,
                            MemorySegment.ofArray(new byte[1]),
                            Duration.ofMinutes(5),
                            Message::length);
            int jumps = 0;
            for (String by : List.of("+1 day", "-2 days", "+1 day")) {
                OwnDevices.run("date -s \"$(date -d '%s')\"".formatted(by));
                jumps++;
                load.goesOn(SOME);
            }
            // A receive waits for its time, not for that of the clock.
            Process jump = OwnDevices.start("sleep 1; date -s \"$(date -d '+1 hour')\"");
            long start = System.nanoTime();
            assertThat(idle.receive(Duration.ofSeconds(5))).isNull();
            long wait = System.nanoTime() - start;
            assertThat(wait).isGreaterThanOrEqualTo(TimeUnit.SECONDS.toNanos(5));
            assertThat(jump.waitFor()).isZero();
            request.get(60, TimeUnit.SECONDS).answer(MemorySegment.ofArray(new byte[1]));
            assertThat(answer.get(60, TimeUnit.SECONDS)).isEqualTo(1); // it had five minutes
            OwnDevices.run("date -s \"$(date -d '-1 hour')\"");
            List<String> wrong = load.settle();
            other.write(jumps + 2, load.messages(), wrong.size(), wait);
            assertThat(wrong).isEmpty();
            assertThat(load.channel.isOpen()).isTrue();
            assertThat(idle.isOpen()).isTrue();
        }
    }

    /** All of a process stops, as in a debugger or on a machine that is moved. */
    @Test
    void aJvmThatIsSuspendedGoesOn() throws Exception {
        assumeThat(Trust.WHOLE).as(Trust.ONLY_WHOLE).isTrue();
        try (Bystander other = new Bystander("JVM suspended");
                MessageServer server =
                        other.sides.listen(LONG, 2, EchoProgram.ECHO, channel -> {});
                ChildProgram suspended =
                        ChildProgram.start(
                                SuspendedProgram.class,
                                server.localAddress().getAddress().getHostAddress(),
                                "" + server.localAddress().getPort())) {
            assertThat(suspended.line()).isEqualTo("busy");
            long start = System.nanoTime();
            suspended.suspend();
            Thread.sleep(2 * SuspendedProgram.NOTICED.toMillis());
            other.goesOn();
            suspended.resume();
            int messages = Integer.parseInt(suspended.line());
            long wait = System.nanoTime() - start;
            boolean open = Boolean.parseBoolean(suspended.line());
            String wrong = suspended.line();
            assertThat(suspended.exitCode()).isZero();
            other.write(1, messages, wrong.equals("[]") && open ? 0 : 1, wait);
            assertThat(wrong).isEqualTo("[]");
            assertThat(open).isTrue();
        }
    }
}
