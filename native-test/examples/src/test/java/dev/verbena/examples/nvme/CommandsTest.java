package dev.verbena.examples.nvme;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/** What each command does, and that a wrong or hostile one gets a status. Without a device. */
class CommandsTest {
    private static final String NAME = "nqn.2026-11.dev.verbena:test";
    private static final String HOST = "nqn.2014-08.org.nvmexpress:uuid:a-host";
    private static final Limits LIMITS = new Limits(4, 32, 4096, 8);
    private static final int BLOCKS = 1000;

    private final MemorySegment memory =
            MemorySegment.ofArray(new byte[BLOCKS * Namespace.BLOCK_BYTES]);
    private final Namespace disk = Namespace.withoutDevice(memory, "disk");
    private final Subsystem subsystem = new Subsystem(NAME, List.of(disk));
    private final Subsystems subsystems =
            new Subsystems(
                    List.of(subsystem),
                    () -> new InetSocketAddress(InetAddress.getLoopbackAddress(), 4420));
    private final FabricsCommands fabrics = new FabricsCommands(subsystems, LIMITS);
    private final AdminCommands admin = new AdminCommands(subsystems);

    /** A connection that is none. */
    private static final class FakeConnection implements FabricsCommands.Connection {
        private final QueueRequest request;
        private Controller controller;
        private int commands;
        private String aborted;

        private FakeConnection(int id) {
            request = new QueueRequest(id, 32, 32);
        }

        @Override
        public QueueRequest request() {
            return request;
        }

        @Override
        public Controller controller() {
            return controller;
        }

        @Override
        public void belongTo(Controller by, int most) {
            controller = by;
            commands = most;
        }

        @Override
        public void abort(String why) {
            aborted = why;
        }
    }

    private static FakeExchange connect(int queue, int controller, String subsystemName) {
        FakeExchange exchange =
                FakeExchange.fabrics(Opcode.CONNECT)
                        .with16(FabricsCommands.CONNECT_QUEUE, queue)
                        .with16(FabricsCommands.CONNECT_SIZE, 31)
                        .with32(FabricsCommands.CONNECT_KEEP_ALIVE, 5000);
        MemorySegment data = exchange.hostData;
        Wire.put16(data, FabricsCommands.CONTROLLER_ID, controller);
        Wire.putText(data, FabricsCommands.SUBSYSTEM_NAME, 256, subsystemName, '\0');
        Wire.putText(data, FabricsCommands.HOST_NAME, 256, HOST, '\0');
        return exchange;
    }

    private FakeConnection connected() {
        FakeConnection connection = new FakeConnection(0);
        FakeExchange exchange = connect(0, 0xffff, NAME);
        fabrics.execute(connection, exchange, 0);
        assertThat(exchange.status).isEqualTo(NvmeStatus.SUCCESS);
        return connection;
    }

    private FakeConnection enabled() {
        FakeConnection connection = connected();
        fabrics.execute(connection, setConfiguration(0x460001), 0);
        return connection;
    }

    private static FakeExchange setConfiguration(int value) {
        return FakeExchange.fabrics(Opcode.PROPERTY_SET)
                .with32(FabricsCommands.PROPERTY_OFFSET, 0x14)
                .with64(48, value);
    }

    private static FakeExchange getProperty(int offset, int attributes) {
        return FakeExchange.fabrics(Opcode.PROPERTY_GET)
                .with32(FabricsCommands.PROPERTY_ATTRIBUTES, attributes)
                .with32(FabricsCommands.PROPERTY_OFFSET, offset);
    }

    @Nested
    class ConnectionRequests {
        private QueueRequest.Refusal refusal(byte[] privateData) {
            try {
                QueueRequest ignored = QueueRequest.read(privateData, 4, 32);
                return null;
            } catch (QueueRequest.Refused e) {
                return e.refusal();
            }
        }

        @Test
        void areReadAndAnswered() throws QueueRequest.Refused {
            byte[] bytes = new QueueRequest(3, 32, 32).toBytes();
            byte[] padded = java.util.Arrays.copyOf(bytes, 56);
            QueueRequest request = QueueRequest.read(padded, 4, 32);
            assertThat(request).isEqualTo(new QueueRequest(3, 32, 32));
            byte[] acceptance = request.acceptance();
            assertThat(acceptance).hasSize(32).startsWith(0, 0, 32, 0);
        }

        @Test
        void areRefusedWithTheReason() {
            assertThat(refusal(new byte[31])).isEqualTo(QueueRequest.Refusal.INVALID_LENGTH);
            byte[] format = new QueueRequest(0, 32, 32).toBytes();
            format[0] = 1;
            assertThat(refusal(format)).isEqualTo(QueueRequest.Refusal.INVALID_FORMAT);
            assertThat(refusal(new QueueRequest(5, 32, 32).toBytes()))
                    .isEqualTo(QueueRequest.Refusal.INVALID_QUEUE_ID);
            assertThat(refusal(new QueueRequest(0, 33, 33).toBytes()))
                    .isEqualTo(QueueRequest.Refusal.INVALID_SUBMISSION_SIZE);
            assertThat(refusal(new QueueRequest(0, 1, 1).toBytes()))
                    .isEqualTo(QueueRequest.Refusal.INVALID_SUBMISSION_SIZE);
            assertThat(refusal(new QueueRequest(0, 30, 32).toBytes()))
                    .isEqualTo(QueueRequest.Refusal.INVALID_RECEIVE_SIZE);
            assertThat(QueueRequest.Refusal.NO_RESOURCES.toBytes()).containsExactly(0, 0, 6, 0);
        }
    }

    @Nested
    class DataPointers {
        private DataPointer read(int type, long address, int length, int key) {
            MemorySegment at = MemorySegment.ofArray(new byte[16]);
            Wire.put64(at, 0, address);
            if (type == 1) {
                Wire.put32(at, 8, length);
            } else {
                Wire.put24(at, 8, length);
                Wire.put32(at, 11, key);
            }
            Wire.put8(at, 15, type);
            return new DataPointer(at);
        }

        private static void check(
                DataPointer pointer, DataPointer.Kind kind, long address, int length) {
            assertThat(pointer.kind()).isEqualTo(kind);
            assertThat(pointer.address()).isEqualTo(address);
            assertThat(pointer.length()).isEqualTo(length);
        }

        @Test
        void areOfFiveKinds() {
            DataPointer keyed = read(0x4f, -1, 0xfffffe, 0x89abcdef);
            check(keyed, DataPointer.Kind.KEYED_INVALIDATE, -1, 0xfffffe);
            assertThat(keyed.key()).isEqualTo(0x89abcdef);
            check(read(0x40, 5, 6, 7), DataPointer.Kind.KEYED, 5, 6);
            assertThat(read(0x40, 5, 0, 7).kind()).isEqualTo(DataPointer.Kind.NONE);
            assertThat(read(0x4f, 5, 0, 7).kind()).isEqualTo(DataPointer.Kind.NONE);
            check(read(0x01, 8, -4096, 0), DataPointer.Kind.IN_CAPSULE, 8, -4096);
            assertThat(read(0x00, 8, 8, 0).kind()).isEqualTo(DataPointer.Kind.UNKNOWN);
            assertThat(read(0x5a, 8, 8, 0).kind()).isEqualTo(DataPointer.Kind.UNKNOWN);
        }

        @Test
        void ofTheInitiatorAreThoseOfTheTarget() {
            Command command =
                    new Command(MemorySegment.ofArray(new byte[Command.BYTES]))
                            .begin(Opcode.READ, 5, 1)
                            .withData(0x1122334455667788L, 65_536, 0xcafe0001);
            long address = 0x1122334455667788L;
            check(command.data(), DataPointer.Kind.KEYED_INVALIDATE, address, 65_536);
            assertThat(command.data().key()).isEqualTo(0xcafe0001);
        }
    }

    @Nested
    class Connecting {
        @ParameterizedTest
        @CsvSource({
            "0, 0xffff, nqn.other, 0x10100", // an unknown subsystem: offset 256 of the data
            "0, 1, " + NAME + ", 0x10010", // numbers of controllers are given by the target
        })
        void withWrongDataIsRefusedWithTheOffset(
                int queue, String controller, String name, String result) {
            FakeExchange exchange = connect(queue, Integer.decode(controller), name);
            fabrics.execute(new FakeConnection(queue), exchange, 0);
            assertThat(exchange.status).isEqualTo(NvmeStatus.CONNECT_INVALID_PARAMETERS);
            assertThat(exchange.result).isEqualTo(Long.decode(result));
        }

        @Test
        void asAnotherQueueThanThatOfTheConnectionIsRefused() {
            FakeExchange exchange = connect(2, 1, NAME);
            fabrics.execute(new FakeConnection(1), exchange, 0);
            assertThat(exchange.status).isEqualTo(NvmeStatus.CONNECT_INVALID_PARAMETERS);
            assertThat(exchange.result).isEqualTo(FabricsCommands.CONNECT_QUEUE);
        }

        @Test
        void saysHowManyCommandsThereMayBe() {
            FakeConnection connection = new FakeConnection(0);
            fabrics.execute(
                    connection,
                    connect(0, 0xffff, NAME).with16(FabricsCommands.CONNECT_SIZE, 7),
                    0);
            assertThat(connection.commands).isEqualTo(8);
        }

        @Test
        void twiceIsRefused() {
            FakeConnection connection = connected();
            FakeExchange exchange = connect(0, 0xffff, NAME);
            fabrics.execute(connection, exchange, 0);
            assertThat(exchange.status).isEqualTo(NvmeStatus.COMMAND_SEQUENCE_ERROR);
        }

        @Test
        void anIoQueueNeedsAnEnabledControllerOfTheSameHost() {
            FakeConnection admin = connected();
            int id = admin.controller.id();
            FakeExchange early = connect(1, id, NAME);
            fabrics.execute(new FakeConnection(1), early, 0);
            assertThat(early.status).isEqualTo(NvmeStatus.COMMAND_SEQUENCE_ERROR);
            fabrics.execute(admin, setConfiguration(1), 0);
            FakeExchange foreign = connect(1, id, NAME);
            Wire.putText(foreign.hostData, FabricsCommands.HOST_NAME, 256, "nqn.thief", '\0');
            fabrics.execute(new FakeConnection(1), foreign, 0);
            assertThat(foreign.status).isEqualTo(NvmeStatus.CONNECT_INVALID_PARAMETERS);
            FakeExchange right = connect(1, id, NAME);
            fabrics.execute(new FakeConnection(1), right, 0);
            assertThat(right.status).isEqualTo(NvmeStatus.SUCCESS);
            FakeExchange again = connect(1, id, NAME);
            fabrics.execute(new FakeConnection(1), again, 0);
            assertThat(again.status).isEqualTo(NvmeStatus.COMMAND_SEQUENCE_ERROR);
        }

        @Test
        void withTooLittleDataIsAnsweredOnce() {
            FakeExchange exchange = connect(0, 0xffff, NAME);
            exchange.hostData = null;
            fabrics.execute(new FakeConnection(0), exchange, 0);
            assertThat(exchange.status).isEqualTo(NvmeStatus.DATA_LENGTH_INVALID);
        }
    }

    @Nested
    class Controllers {
        @Test
        void haveTheRegistersThatLinuxLooksAt() {
            FakeConnection connection = connected();
            FakeExchange capabilities = getProperty(0, 1);
            fabrics.execute(connection, capabilities, 0);
            assertThat(capabilities.result).isEqualTo(31 | 1L << 16 | 15L << 24 | 1L << 37);
            assertThat(status(connection)).isZero();
            fabrics.execute(connection, setConfiguration(1), 0);
            assertThat(status(connection)).isEqualTo(1);
            fabrics.execute(connection, setConfiguration(1 << 14 | 1), 0);
            assertThat(status(connection)).isEqualTo(1 | 0x8);
            for (FakeExchange wrong :
                    List.of(
                            getProperty(0x1c, 1),
                            getProperty(0, 0),
                            getProperty(0x1000, 0),
                            getProperty(-4, 0))) {
                fabrics.execute(connection, wrong, 0);
                assertThat(wrong.status).isEqualTo(NvmeStatus.INVALID_FIELD);
            }
        }

        private long status(FakeConnection connection) {
            FakeExchange status = getProperty(0x1c, 0);
            fabrics.execute(connection, status, 0);
            return status.result;
        }

        @Test
        void endWithTheirHostsSilence() {
            FakeConnection connection = connected();
            Controller controller = connection.controller;
            assertThat(subsystems.expired(9_999_000_000L)).isNull();
            assertThat(subsystems.expired(10_001_000_000L)).isSameAs(controller);
            controller.alive(1_000_000_000);
            assertThat(subsystems.expired(10_001_000_000L)).isNull();
            controller.end("test");
            assertThat(connection.aborted).isEqualTo("test");
            assertThat(subsystem.controllerCount()).isZero();
        }

        @Test
        void endWithTheirAdminQueue() {
            FakeConnection first = enabled();
            FakeConnection io = new FakeConnection(1);
            fabrics.execute(io, connect(1, first.controller.id(), NAME), 0);
            io.controller.ended(1);
            assertThat(subsystem.controllerCount()).isOne();
            fabrics.execute(io, connect(1, first.controller.id(), NAME), 0); // twice on one
            first.controller.add(2, io);
            first.controller.ended(0);
            assertThat(io.aborted).isEqualTo("its admin queue has ended");
            assertThat(subsystem.controllerCount()).isZero();
        }
    }

    @Nested
    class Admin {
        private final Controller controller = enabled().controller;

        private FakeExchange run(FakeExchange exchange) {
            admin.execute(controller, exchange);
            return exchange;
        }

        private FakeExchange identify(int what, int namespace) {
            return run(new FakeExchange(Opcode.IDENTIFY, namespace).with32(40, what));
        }

        /** What the Linux host insists on. */
        @Test
        void identifiesTheController() {
            MemorySegment page = identify(1, 0).page;
            assertThat(Wire.get16(page, 78)).isEqualTo(controller.id());
            assertThat(Wire.get8(page, 111)).isEqualTo(1);
            assertThat(Wire.get16(page, 320)).isNotZero();
            assertThat(Wire.get16(page, 514)).isEqualTo(32);
            assertThat(Wire.get32(page, 516)).isEqualTo(1);
            assertThat(Wire.get32(page, 536)).isEqualTo(0x100005);
            assertThat(Wire.text(page, 768, 256)).isEqualTo(NAME);
            assertThat(Wire.get32(page, 1792)).isEqualTo(260);
            assertThat(Wire.get32(page, 1796)).isEqualTo(1);
            assertThat(Wire.get16(page, 1800)).isZero();
        }

        @Test
        void identifiesNamespaces() {
            MemorySegment page = identify(0, 1).page;
            assertThat(Wire.get64(page, 0)).isEqualTo(BLOCKS);
            assertThat(Wire.get8(page, 130)).isEqualTo(9);
            assertThat(identify(0, 7).page.mismatch(MemorySegment.ofArray(new byte[4096])))
                    .isEqualTo(-1);
            assertThat(identify(0, 0).status).isEqualTo(NvmeStatus.INVALID_NAMESPACE);
            assertThat(Wire.get32(identify(2, 0).page, 0)).isEqualTo(1);
            assertThat(Wire.get32(identify(2, 1).page, 0)).isZero();
            assertThat(identify(2, -1).status).isEqualTo(NvmeStatus.INVALID_NAMESPACE);
            assertThat(Wire.get8(identify(3, 1).page, 0)).isEqualTo(2);
            assertThat(identify(3, 2).status).isEqualTo(NvmeStatus.INVALID_NAMESPACE);
            assertThat(identify(0x55, 1).status).isEqualTo(NvmeStatus.INVALID_FIELD);
        }

        @Test
        void keepsAFewAsynchronousEventsAndAbortsThem() {
            List<FakeExchange> kept = new ArrayList<>();
            for (int i = 0; i < 4; i++) {
                kept.add(run(new FakeExchange(Opcode.ASYNC_EVENT_REQUEST, 0).id(100 + i)));
                assertThat(kept.get(i).answers).isZero();
            }
            assertThat(run(new FakeExchange(Opcode.ASYNC_EVENT_REQUEST, 0)).status)
                    .isEqualTo(NvmeStatus.ASYNC_EVENT_LIMIT);
            FakeExchange abort = run(new FakeExchange(Opcode.ABORT, 0).with32(40, 102 << 16));
            assertThat(abort.result).isZero();
            assertThat(kept.get(2).status).isEqualTo(NvmeStatus.ABORT_REQUESTED);
            assertThat(run(new FakeExchange(Opcode.ABORT, 0).with32(40, 102 << 16)).result)
                    .isEqualTo(1);
            assertThat(run(new FakeExchange(Opcode.ABORT, 0).with32(40, 101 << 16 | 1)).result)
                    .isEqualTo(1);
        }

        @Test
        void grantsAsManyQueuesAsItHas() {
            FakeExchange many = new FakeExchange(Opcode.SET_FEATURES, 0).with32(40, 7);
            assertThat(run(many.with32(44, 0x00630063)).result).isEqualTo(0x30003);
            FakeExchange few = new FakeExchange(Opcode.SET_FEATURES, 0).with32(40, 7);
            assertThat(run(few.with32(44, 0x00000001)).result).isZero();
            FakeExchange wrong = new FakeExchange(Opcode.SET_FEATURES, 0).with32(40, 0x7f);
            assertThat(run(wrong).status).isEqualTo(NvmeStatus.INVALID_FIELD);
        }

        @Test
        void sendsAsMuchOfALogPageAsIsWanted() {
            FakeExchange health = new FakeExchange(Opcode.GET_LOG_PAGE, -1);
            assertThat(run(health.with32(40, 127 << 16 | 2)).sentPage).isEqualTo(512);
            FakeExchange whole = new FakeExchange(Opcode.GET_LOG_PAGE, -1);
            assertThat(run(whole.with32(40, 1023 << 16 | 5)).sentPage).isEqualTo(4096);
            FakeExchange more = new FakeExchange(Opcode.GET_LOG_PAGE, -1);
            assertThat(run(more.with32(40, 1024 << 16 | 5)).status)
                    .isEqualTo(NvmeStatus.INVALID_FIELD);
            FakeExchange most = new FakeExchange(Opcode.GET_LOG_PAGE, -1);
            assertThat(run(most.with32(40, -1 << 16 | 5).with32(44, 0xffff)).status)
                    .isEqualTo(NvmeStatus.INVALID_FIELD);
        }

        private FakeExchange feature(int opcode, int feature, int value) {
            return run(new FakeExchange(opcode, 0).with32(40, feature).with32(44, value));
        }

        @Test
        void keepsTheKeepAliveTimeThatIsSet() {
            assertThat(feature(Opcode.SET_FEATURES, 0xf, 120_000).status)
                    .isEqualTo(NvmeStatus.SUCCESS);
            assertThat(feature(Opcode.GET_FEATURES, 0xf, 0).result).isEqualTo(120_000);
            assertThat(controller.isExpired(240_000_000_000L)).isFalse();
            assertThat(controller.isExpired(240_000_000_001L)).isTrue();
        }

        @Test
        void hasNoCacheToTurnOnOrOff() {
            for (int value = 0; value < 2; value++) {
                assertThat(feature(Opcode.SET_FEATURES, 6, value).status)
                        .isEqualTo(NvmeStatus.INVALID_FIELD);
            }
            assertThat(feature(Opcode.GET_FEATURES, 6, 0).status)
                    .isEqualTo(NvmeStatus.INVALID_FIELD);
        }

        @Test
        void listsTheSubsystemsToThoseWhoAskTheDiscoverySubsystem() {
            FakeExchange log = new FakeExchange(Opcode.GET_LOG_PAGE, 0).with32(40, 0x70);
            assertThat(run(log).status).isEqualTo(NvmeStatus.INVALID_LOG_PAGE);
            FakeConnection connection = new FakeConnection(0);
            FakeExchange connect = connect(0, 0xffff, Subsystem.DISCOVERY_NAME);
            fabrics.execute(connection, connect, 0);
            FakeExchange list = new FakeExchange(Opcode.GET_LOG_PAGE, 0).with32(40, 0x70);
            admin.execute(connection.controller, list);
            assertThat(Wire.get64(list.page, 8)).isEqualTo(1);
            assertThat(Wire.text(list.page, 1024 + 256, 256)).isEqualTo(NAME);
            assertThat(Wire.text(list.page, 1024 + 512, 256).strip()).isEqualTo("127.0.0.1");
            FakeExchange behind = new FakeExchange(Opcode.GET_LOG_PAGE, 0).with32(40, 0x70);
            admin.execute(connection.controller, behind.with64(48, Long.MAX_VALUE & ~3L));
            assertThat(behind.sentPage).isEqualTo(4);
        }
    }

    @Nested
    class Io {
        private FakeExchange run(FakeExchange exchange) {
            subsystem.io().execute(exchange);
            return exchange;
        }

        private FakeExchange blocks(int opcode, long first, int count) {
            return run(new FakeExchange(opcode, 1).with64(40, first).with32(48, count - 1));
        }

        @Test
        void movesBlocks() {
            assertThat(blocks(Opcode.READ, 3, 2).sentBlocks).isEqualTo("1024 bytes at 1536");
            assertThat(blocks(Opcode.WRITE, 998, 2).status).isEqualTo(NvmeStatus.SUCCESS);
            assertThat(Wire.get8(memory, 998 * 512)).isEqualTo(0x5a);
            assertThat(Wire.get8(memory, 997 * 512 + 511)).isZero();
            assertThat(blocks(Opcode.WRITE_ZEROES, 998, 1).status).isEqualTo(NvmeStatus.SUCCESS);
            assertThat(Wire.get8(memory, 998 * 512)).isZero();
            assertThat(Wire.get8(memory, 999 * 512)).isEqualTo(0x5a);
        }

        @ParameterizedTest
        @CsvSource({"999, 2", "1000, 1", "0, 1001", "-1, 1", "-1, 2", "9223372036854775807, 65536"})
        void refusesWhatIsBeyondTheEnd(long first, int count) {
            for (int opcode : new int[] {Opcode.READ, Opcode.WRITE, Opcode.WRITE_ZEROES}) {
                assertThat(blocks(opcode, first, count).status)
                        .isEqualTo(NvmeStatus.LBA_OUT_OF_RANGE);
            }
        }

        @Test
        void refusesUnknownNamespacesAndCommands() {
            for (int namespace : new int[] {0, 2, -1, Integer.MIN_VALUE}) {
                assertThat(run(new FakeExchange(Opcode.READ, namespace)).status)
                        .isEqualTo(NvmeStatus.INVALID_NAMESPACE);
            }
            assertThat(run(new FakeExchange(0x77, 1)).status).isEqualTo(NvmeStatus.INVALID_OPCODE);
            assertThat(run(new FakeExchange(Opcode.FLUSH, -1)).status)
                    .isEqualTo(NvmeStatus.SUCCESS);
            assertThat(run(new FakeExchange(Opcode.FLUSH, 2)).status)
                    .isEqualTo(NvmeStatus.INVALID_NAMESPACE);
        }

        @Test
        void zeroesWhatTheHostDoesNotNeed() {
            memory.fill((byte) 1);
            FakeExchange exchange = new FakeExchange(Opcode.DATASET_MANAGEMENT, 1);
            exchange.with32(40, 1).with32(44, 4);
            range(exchange, 0, 10, 5);
            range(exchange, 1, 999, 1);
            assertThat(run(exchange).status).isEqualTo(NvmeStatus.SUCCESS);
            assertThat(Wire.get8(memory, 10 * 512)).isZero();
            assertThat(Wire.get8(memory, 15 * 512)).isEqualTo(1);
            assertThat(Wire.get8(memory, 999 * 512 + 511)).isZero();
            FakeExchange beyond = new FakeExchange(Opcode.DATASET_MANAGEMENT, 1);
            beyond.with32(40, 1).with32(44, 4);
            range(beyond, 0, 20, 1);
            range(beyond, 1, -1, -1);
            assertThat(run(beyond).status).isEqualTo(NvmeStatus.LBA_OUT_OF_RANGE);
            assertThat(Wire.get8(memory, 20 * 512)).isEqualTo(1); // nothing was done
        }

        /** So that others have their turn, and a host that is gone finds nothing written later. */
        @Test
        void zeroesLongRangesPieceByPiece() {
            memory.fill((byte) 1);
            FakeExchange exchange = blocks(Opcode.WRITE_ZEROES, 0, BLOCKS);
            assertThat(exchange.answers).isZero();
            assertThat(Wire.get8(memory, 0)).isZero();
            assertThat(Wire.get8(memory, (BLOCKS - 1) * 512)).isEqualTo(1);
            exchange.finish();
            assertThat(exchange.status).isEqualTo(NvmeStatus.SUCCESS);
            assertThat(memory.mismatch(MemorySegment.ofArray(new byte[BLOCKS * 512])))
                    .isEqualTo(-1);
        }

        @Test
        void zeroesNoMoreBlocksThanADiskHas() {
            memory.fill((byte) 1);
            FakeExchange exchange = new FakeExchange(Opcode.DATASET_MANAGEMENT, 1);
            exchange.with32(40, 255).with32(44, 4);
            for (int i = 0; i < 256; i++) {
                range(exchange, i, 0, i == 1 ? 0 : BLOCKS - 10);
            }
            assertThat(run(exchange).answers).isZero();
            exchange.rests.remove().run();
            assertThat(exchange.rests).isEmpty();
            assertThat(exchange.status).isEqualTo(NvmeStatus.SUCCESS);
            assertThat(Wire.get8(memory, (BLOCKS - 11) * 512)).isZero();
            assertThat(Wire.get8(memory, (BLOCKS - 10) * 512)).isEqualTo(1);
        }

        /** Many short ones may be as much as a long one. */
        @Test
        void zeroesNotTooManyRangesInOneTurn() {
            FakeExchange exchange = new FakeExchange(Opcode.DATASET_MANAGEMENT, 1);
            exchange.with32(40, 7).with32(44, 4);
            for (int i = 0; i < 8; i++) {
                range(exchange, i, i * 120, 120); // 60 KiB each
            }
            memory.fill((byte) 1);
            assertThat(run(exchange).answers).isZero();
            assertThat(Wire.get8(memory, 3 * 120 * 512)).isZero();
            assertThat(Wire.get8(memory, 6 * 120 * 512)).isEqualTo(1);
            exchange.finish();
            assertThat(exchange.status).isEqualTo(NvmeStatus.SUCCESS);
            assertThat(Wire.get8(memory, 959 * 512)).isZero();
        }

        @Test
        void flushesWhatTheHostWantsToBeSafeAtOnce(@TempDir Path folder) throws IOException {
            Path file = Files.write(folder.resolve("disk"), new byte[BLOCKS * 512]);
            try (Arena arena = Arena.ofShared();
                    FileChannel channel =
                            FileChannel.open(
                                    file, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
                MemorySegment mapped =
                        channel.map(FileChannel.MapMode.READ_WRITE, 0, channel.size(), arena);
                IoCommands io =
                        new Subsystem(
                                        NAME,
                                        List.of(Namespace.mappedWithoutDevice(mapped, arena, "f")))
                                .io();
                for (int opcode : new int[] {Opcode.WRITE, Opcode.WRITE_ZEROES}) {
                    FakeExchange lazy = new FakeExchange(opcode, 1).with64(40, 7);
                    io.execute(lazy);
                    assertThat(lazy.asides).isZero();
                    FakeExchange forced = new FakeExchange(opcode, 1).with64(40, 7);
                    io.execute(forced.with32(48, 1 << 30));
                    assertThat(forced.asides).isOne();
                    assertThat(forced.status).isEqualTo(NvmeStatus.SUCCESS);
                }
            }
            FakeExchange inMemory = new FakeExchange(Opcode.WRITE, 1).with32(48, 1 << 30);
            assertThat(run(inMemory).asides).isZero(); // nothing to flush
        }

        private void range(FakeExchange exchange, int index, long first, int count) {
            Wire.put32(exchange.hostData, index * 16L + 4, count);
            Wire.put64(exchange.hostData, index * 16L + 8, first);
        }
    }

    /** Any 64 bytes on any queue are answered once, or kept, and nothing is thrown. */
    @Test
    void randomCommandsAreAnsweredOnce() {
        Random random = new Random(27);
        FakeConnection connection = enabled();
        int kept = 0;
        for (int i = 0; i < 200_000; i++) {
            FakeExchange exchange = new FakeExchange(random.nextInt(16), random.nextInt(4) - 1);
            for (int offset = 40; offset < 64; offset += 4) {
                if (random.nextBoolean()) {
                    exchange.with32(offset, random.nextInt() >> random.nextInt(32));
                }
            }
            if (random.nextBoolean()) {
                random.nextBytes((byte[]) exchange.hostData.heapBase().orElseThrow());
            }
            switch (random.nextInt(3)) {
                case 0 -> subsystem.io().execute(exchange);
                case 1 -> admin.execute(connection.controller, exchange);
                default -> {
                    exchange.with32(0, Opcode.FABRICS).with32(4, random.nextInt(6));
                    boolean fresh = random.nextBoolean();
                    fabrics.execute(fresh ? new FakeConnection(i % 3) : connection, exchange, i);
                }
            }
            exchange.finish();
            kept += 1 - exchange.answers;
        }
        assertThat(kept).isLessThan(200_000 / 16);
    }

    @Test
    void fusedCommandsAndThoseWithoutSglAreNotPlain() {
        Command command = new Command().begin(Opcode.WRITE, 1, 1);
        assertThat(command.isPlain()).isTrue();
        for (int flags : new int[] {0x00, 0x41, 0x42, 0x80, 0xc0}) {
            MemorySegment bytes = MemorySegment.ofArray(new byte[Command.BYTES]);
            Wire.put8(bytes, 1, flags);
            assertThat(command.copyFrom(bytes).isPlain()).as("flags %x", flags).isFalse();
        }
    }

    @Test
    void aDiskHasWholeBlocks() {
        assertThatThrownBy(() -> Namespace.inMemory(null, 1000, "odd"))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("a multiple of 512");
    }
}
