package dev.verbena.examples.nvme;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.BufferList;
import dev.verbena.ConnectionOptions;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.MessagingException;
import dev.verbena.messaging.Poller;
import dev.verbena.messaging.RawConnection;
import dev.verbena.messaging.RawHandler;
import dev.verbena.messaging.RawMessage;
import dev.verbena.nativetest.NeedsDevices;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Random;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** Disks of others as seen from Java: of the target here, and of the kernel's. */
@NeedsDevices
@Timeout(120)
class InitiatorTest {
    private static final NvmeHost.Options HOST =
            NvmeHost.Options.of(UUID.fromString("00000000-0000-0000-0000-000000000003"));
    private static final long MIB = 1 << 20;
    private static final String KERNELS_KEYS = "rxe_invalidate_mw"; // by answers of the kernel

    private final Deque<AutoCloseable> open = new ArrayDeque<>();
    private final Adapter adapter = closing(Adapter.open(Adapter.activeNames().getLast()));
    private final Poller poller = closing(Poller.start(adapter, IdleStrategy.events()));

    private <T extends AutoCloseable> T closing(T one) {
        open.push(one);
        return one;
    }

    @AfterEach
    void close() throws Exception {
        while (!open.isEmpty()) {
            open.pop().close();
        }
    }

    private Served serve(NvmeTarget.Options options) throws IOException {
        return closing(new Served(options, null, 4 * MIB));
    }

    private NvmeHost connect(Served served, NvmeHost.Options options) throws IOException {
        return closing(NvmeHost.connect(poller, served.target.address(), Served.NAME, options));
    }

    /** Pieces of any length at any position, beside the same in memory. */
    private static void useAtRandom(RemoteDisk disk, int pieces) throws IOException {
        Random random = new Random(27);
        byte[] expected = new byte[(int) MIB];
        random.nextBytes(expected);
        writeAll(disk, 0, ByteBuffer.wrap(expected));
        for (int i = 0; i < pieces; i++) {
            int length = 1 + random.nextInt(200_000);
            int at = random.nextInt(expected.length - length);
            byte[] piece = new byte[length];
            if (random.nextBoolean()) {
                random.nextBytes(piece);
                System.arraycopy(piece, 0, expected, at, length);
                writeAll(disk, at, ByteBuffer.wrap(piece));
            } else {
                ByteBuffer read = ByteBuffer.wrap(piece);
                disk.position(at);
                while (read.hasRemaining()) {
                    assertThat(disk.read(read)).isPositive();
                }
                assertThat(ByteBuffer.wrap(piece))
                        .isEqualTo(ByteBuffer.wrap(expected, at, length).slice());
            }
        }
        disk.flush();
    }

    private static void writeAll(RemoteDisk disk, long at, ByteBuffer bytes) throws IOException {
        disk.position(at);
        while (bytes.hasRemaining()) {
            assertThat(disk.write(bytes)).isPositive();
        }
    }

    @Test
    void readsAndWritesDisksOfTheTarget() throws Exception {
        Served served = serve(NvmeTarget.Options.DEFAULTS);
        NvmeHost host = connect(served, HOST);
        RemoteDisk disk = host.disk(1);
        assertThat(disk.size()).isEqualTo(4 * MIB);
        useAtRandom(disk, 30);
        disk.position(disk.size());
        assertThat(disk.read(ByteBuffer.allocate(1))).isEqualTo(-1);
        Counts counts = served.target.counts();
        assertThat(counts.invalidating()).isPositive().isEqualTo(counts.keyed());
        assertThat(counts.failed()).isZero();
        assertThatThrownBy(() -> host.disk(2)).isInstanceOf(IOException.class);
    }

    /** Each completion may wake the target's polling thread. */
    @Test
    void sixteenAnswersOfTheTargetHaveOneCompletion() throws Exception {
        Served served = serve(NvmeTarget.Options.DEFAULTS);
        NvmeHost host = connect(served, HOST);
        try (HostQueue.Call call = host.io().call()) {
            int commands = 160;
            long before = served.poller.counters().completions();
            for (int i = 0; i < commands; i++) {
                host.move(call, Opcode.READ, 1, i, 1, 512);
            }
            long completions = served.poller.counters().completions() - before;
            int received = commands;
            assertThat(completions - received).isBetween(commands / 16 - 1L, commands / 16 + 1L);
        }
    }

    @Test
    void invalidatesWhatTheTargetHasLeft() throws Exception {
        Served served = serve(NvmeTarget.Options.DEFAULTS.withKeyReturn(key -> KeyReturn.NONE));
        useAtRandom(connect(served, HOST).disk(1), 3);
        assertThat(served.target.counts().invalidating()).isZero();
    }

    @Test
    void saysWhyItIsRefused() throws Exception {
        Served served = serve(NvmeTarget.Options.DEFAULTS);
        assertThatThrownBy(
                        () ->
                                NvmeHost.connect(poller, served.target.address(), "nqn.none", HOST)
                                        .close())
                .isInstanceOf(IOException.class)
                .hasMessageContaining("CONNECT_INVALID_PARAMETERS");
        assertThatThrownBy(() -> connect(served, HOST.withQueueSize(129)))
                .isInstanceOf(IOException.class)
                .hasMessageContaining("INVALID_SUBMISSION_SIZE");
        NvmeHost host = connect(served, HOST);
        try (HostQueue.Call call = host.io().call()) {
            assertThatThrownBy(() -> host.move(call, Opcode.READ, 1, 4 * MIB / 512, 1, 512))
                    .isInstanceOf(IOException.class)
                    .hasMessageContaining("LBA_OUT_OF_RANGE");
            assertThatThrownBy(() -> host.move(call, Opcode.READ, 1, 0, 2, 512))
                    .isInstanceOf(IOException.class)
                    .hasMessageContaining("DATA_LENGTH_INVALID");
            assertThatThrownBy(
                            () -> {
                                Command flush = call.begin(Opcode.FLUSH, 1);
                                flush.with32(0, flush.get32(0) | 1 << 8); // fused
                                call.run(HostQueue.Direction.NONE, 0);
                            })
                    .isInstanceOf(IOException.class)
                    .hasMessageContaining("INVALID_FIELD");
            host.move(call, Opcode.READ, 1, 0, 1, 512); // all goes on
        }
        try (HostQueue.Call call = host.admin().call()) {
            assertThatThrownBy(
                            () -> {
                                call.begin(Opcode.IDENTIFY, 0).with32(40, Opcode.CONTROLLER);
                                call.run(HostQueue.Direction.FROM_TARGET, 100); // too short
                            })
                    .isInstanceOf(IOException.class)
                    .hasMessageContaining("DATA_LENGTH_INVALID");
        }
    }

    @Test
    void aHostThatIsSilentIsForgotten() throws Exception {
        Served served = serve(NvmeTarget.Options.DEFAULTS);
        NvmeHost host = connect(served, HOST.withKeepAlive(2000));
        assertThat(host.admin().channel().closed().get(60, TimeUnit.SECONDS)).isNotNull();
        assertThat(host.io().channel().closed().get(60, TimeUnit.SECONDS)).isNotNull();
        assertThatThrownBy(() -> host.disk(1)).isInstanceOf(IOException.class);
        served.awaitLine("no sign of life"); // written after the connections have ended
        useAtRandom(connect(served, HOST).disk(1), 1); // it may come again
    }

    @Test
    void aConnectionThatEndsInTheMiddleOfACallIsAnIoException() throws Exception {
        Served served = serve(NvmeTarget.Options.DEFAULTS);
        NvmeHost host = connect(served, HOST);
        RemoteDisk disk = host.disk(1);
        assertThatThrownBy(
                        () ->
                                host.io()
                                        .use(
                                                call -> {
                                                    host.io().channel().abort("a test");
                                                    host.io().channel().closed().join();
                                                    return call.data().fill((byte) 0);
                                                }))
                .isInstanceOf(IOException.class)
                .hasMessageContaining("a test");
        assertThatThrownBy(() -> disk.read(ByteBuffer.allocate(1)))
                .isInstanceOf(IOException.class)
                .hasMessageContaining("a test");
    }

    /** It would keep a queue pair, and one of the connections that the target lets in. */
    @Test
    void aConnectionWithoutConnectIsEnded() throws Exception {
        Duration within = Duration.ofSeconds(3);
        Served served = serve(NvmeTarget.Options.DEFAULTS.withConnectWithin(within));
        CountDownLatch ended = new CountDownLatch(1);
        connectBare(served.target.address(), 0, ended);
        assertThat(ended.await(60, TimeUnit.SECONDS)).as("the target ends it").isTrue();
    }

    /** Whatever comes in a capsule, the target goes on for others. */
    @Test
    void aHostileHostHarmsItselfOnly() throws Exception {
        Served served = serve(NvmeTarget.Options.DEFAULTS.withSharedReceives(8));
        RemoteDisk disk = connect(served, HOST).disk(1);
        Random random = new Random(27);
        for (int round = 0; round < 8; round++) {
            hostile(served.target.address(), round, random);
        }
        useAtRandom(disk, 3);
    }

    /** Connects a queue, and sends no command. */
    private RawConnection connectBare(InetSocketAddress target, int queue, CountDownLatch ended) {
        RawHandler handler =
                new RawHandler() {
                    @Override
                    public void received(RawConnection channel, RawMessage message) {
                        message.repost().orThrow();
                    }

                    @Override
                    public void ended(RawConnection channel, MessagingException reason) {
                        ended.countDown();
                    }
                };
        RawConnection channel =
                RawConnection.create(poller, QueuePairLimits.depths(16, 16), 16, null, handler);
        channel.connect(
                target,
                ConnectionOptions.DEFAULTS
                        .withoutAnnouncement()
                        .withPrivateData(new QueueRequest(queue, 16, 16).toBytes()));
        return channel;
    }

    private void hostile(InetSocketAddress target, int round, Random random) throws Exception {
        CountDownLatch ended = new CountDownLatch(1);
        int queue = round % 2;
        RawConnection channel = connectBare(target, queue, ended);
        try (MemoryRegion region = poller.domain().allocate(8192, Access.LOCAL_WRITE)) {
            MemorySegment bytes = region.memory();
            for (int i = 0; i < 16; i++) {
                for (int at = 0; at < Command.BYTES; at += 8) {
                    bytes.set(ValueLayout.JAVA_LONG_UNALIGNED, at, random.nextLong());
                }
                Wire.put8(bytes, 0, round < 4 ? Opcode.FABRICS : random.nextInt(16));
                Wire.put8(bytes, 1, i % 5 == 4 ? random.nextInt(256) : 0x40); // fused, by PRP
                Wire.put8(bytes, 4, Opcode.CONNECT);
                Wire.put64(bytes, 40, (long) queue << 16 | 15L << 32);
                Wire.put8(bytes, 39, i % 2 == 0 ? 0x01 : 0x40); // in the capsule, or by no key
                int length = i == 15 ? 12 : Command.BYTES + (queue == 0 ? 0 : random.nextInt(4096));
                Status status =
                        channel.send(
                                        new BufferList(1).add(region, 0, length),
                                        OpFlags.NONE,
                                        null,
                                        null)
                                .status();
                if (!status.isSuccess()) {
                    break; // the target has had enough
                }
            }
            assertThat(ended.await(60, TimeUnit.SECONDS)).as("the target ends it").isTrue();
        }
    }

    /** The kernel's target serves a file; its answers give each window's token back. */
    @Test
    void readsAndWritesDisksOfTheKernel() throws Exception {
        Kernel.load("nvmet-rdma");
        Path file = Path.of("/dev/shm/verbena.img");
        String address = Served.addressOf(Adapter.activeNames().getFirst()).getHostAddress();
        Kernel.run(
                """
                mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
                truncate -s 4M %1$s
                cd /sys/kernel/config/nvmet
                mkdir subsystems/%2$s
                echo 1 >subsystems/%2$s/attr_allow_any_host
                mkdir subsystems/%2$s/namespaces/1
                echo %1$s >subsystems/%2$s/namespaces/1/device_path
                echo 1 >subsystems/%2$s/namespaces/1/buffered_io
                echo 1 >subsystems/%2$s/namespaces/1/enable
                mkdir ports/1
                echo rdma >ports/1/addr_trtype
                echo ipv4 >ports/1/addr_adrfam
                echo %3$s >ports/1/addr_traddr
                echo 4421 >ports/1/addr_trsvcid
                ln -s /sys/kernel/config/nvmet/subsystems/%2$s ports/1/subsystems/%2$s
                """
                        .formatted(file, Served.NAME, address));
        open.push(
                () -> {
                    Kernel.run(
                            """
                            cd /sys/kernel/config/nvmet
                            rm ports/1/subsystems/%1$s
                            rmdir ports/1 subsystems/%1$s/namespaces/1 subsystems/%1$s
                            """
                                    .formatted(Served.NAME));
                    Files.delete(file);
                });
        Kernel.probe(KERNELS_KEYS);
        InetSocketAddress target = new InetSocketAddress(address, 4421);
        long calls;
        try (NvmeHost host = NvmeHost.connect(poller, target, Served.NAME, HOST)) {
            RemoteDisk disk = host.disk(1);
            assertThat(disk.size()).isEqualTo(4 * MIB);
            useAtRandom(disk, 30);
            calls = host.admin().keyedCommands() + host.io().keyedCommands();
        }
        assertThat(calls).isPositive();
        assertThat(Kernel.calls(KERNELS_KEYS)).isEqualTo(calls);
    }
}
