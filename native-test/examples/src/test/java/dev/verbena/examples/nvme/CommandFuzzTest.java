package dev.verbena.examples.nvme;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.trust.Trust;

import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.HexFormat;
import java.util.List;
import java.util.SplittableRandom;

/**
 * Whatever 64 bytes a host sends: the target answers each command once, throws nothing, and stays
 * within the namespace ({@link FakeExchange} checks both). -Dverbena.fuzz.inputs=… and
 * -Dverbena.trust.seed=… for another number and choice.
 */
@Tag("trust")
@Timeout(7200)
class CommandFuzzTest {
    private static final Limits LIMITS = new Limits(4, 32, 4096, 8);
    private static final int BLOCKS = 1000;
    private static final int COMMANDS_PER_HOST = 64;
    private static final int[] OPCODES = {
        0x00, 0x01, 0x02, 0x04, 0x05, 0x06, 0x08, 0x09, 0x0a, 0x0c, 0x0d, 0x10, 0x14, 0x18, 0x7f
    };
    private static final long[] INTERESTING = {
        0,
        1,
        2,
        7,
        20,
        0x14,
        0x1c,
        31,
        32,
        255,
        256,
        BLOCKS - 1,
        BLOCKS,
        4095,
        4096,
        65_535,
        65_536,
        Integer.MAX_VALUE,
        0xFFFF_FFFFL,
        Long.MAX_VALUE,
        -1
    };

    private final long seed = Trust.seed();
    private final SplittableRandom random = new SplittableRandom(seed);
    private final MemorySegment memory =
            MemorySegment.ofArray(new byte[BLOCKS * Namespace.BLOCK_BYTES]);
    private final Subsystem subsystem =
            new Subsystem(
                    "nqn.2026-11.dev.verbena:fuzz",
                    List.of(Namespace.withoutDevice(memory, "disk")));
    private final Subsystems subsystems =
            new Subsystems(
                    List.of(subsystem),
                    () -> new InetSocketAddress(InetAddress.getLoopbackAddress(), 4420));
    private final FabricsCommands fabrics = new FabricsCommands(subsystems, LIMITS);
    private final AdminCommands admin = new AdminCommands(subsystems);

    /** A host's admin queue. */
    private static final class Queue implements FabricsCommands.Connection {
        private final QueueRequest request = new QueueRequest(0, 32, 32);
        private Controller controller;

        @Override
        public QueueRequest request() {
            return request;
        }

        @Override
        public Controller controller() {
            return controller;
        }

        @Override
        public void belongTo(Controller by, int commands) {
            assertThat(commands).isBetween(2, request.size());
            controller = by;
        }

        @Override
        public void abort(String why) {}
    }

    @Test
    void everyCommandIsAnsweredOnce() {
        int count = Integer.getInteger("verbena.fuzz.inputs", Trust.size(100_000, 10_000_000));
        Trust.Row row = Trust.row("Bytes of a host: NVMe commands").inputs(count).seed(seed);
        int losses = 1;
        try {
            Queue queue = null;
            for (int i = 0; i < count; i++) {
                if (queue == null || i % COMMANDS_PER_HOST == 0) {
                    if (queue != null && queue.controller != null) {
                        queue.controller.ended(0);
                    }
                    queue = connected();
                }
                run(queue, command());
            }
            losses = 0;
        } finally {
            row.losses(losses).write();
        }
    }

    private Queue connected() {
        Queue queue = new Queue();
        FakeExchange connect =
                FakeExchange.fabrics(Opcode.CONNECT)
                        .with16(FabricsCommands.CONNECT_SIZE, 31)
                        .with32(FabricsCommands.CONNECT_KEEP_ALIVE, 5000);
        Wire.put16(connect.hostData, FabricsCommands.CONTROLLER_ID, 0xffff);
        Wire.putText(
                connect.hostData,
                FabricsCommands.SUBSYSTEM_NAME,
                256,
                "nqn.2026-11.dev.verbena:fuzz",
                '\0');
        Wire.putText(connect.hostData, FabricsCommands.HOST_NAME, 256, "nqn.host", '\0');
        fabrics.execute(queue, connect, 0);
        assertThat(connect.status).isEqualTo(NvmeStatus.SUCCESS);
        FakeExchange enable =
                FakeExchange.fabrics(Opcode.PROPERTY_SET)
                        .with32(FabricsCommands.PROPERTY_OFFSET, 0x14)
                        .with64(48, 0x460001);
        fabrics.execute(queue, enable, 0);
        return queue;
    }

    /** Random bytes, with a known opcode and numbers at the edges in most of them. */
    private FakeExchange command() {
        boolean isFabrics = random.nextInt(4) == 0;
        FakeExchange exchange =
                new FakeExchange(
                        isFabrics ? Opcode.FABRICS : OPCODES[random.nextInt(OPCODES.length)],
                        isFabrics ? random.nextInt(8) : random.nextInt(3));
        byte[] rest = new byte[Command.BYTES - 24];
        if (random.nextInt(4) == 0) {
            random.nextBytes(rest);
        }
        MemorySegment.copy(MemorySegment.ofArray(rest), 0, exchange.bytes, 24, rest.length);
        for (int left = random.nextInt(5); left > 0; left--) {
            int at = 24 + 4 * random.nextInt(9);
            exchange.with64(at, INTERESTING[random.nextInt(INTERESTING.length)]);
        }
        if (random.nextInt(8) == 0) {
            exchange.hostData = null;
        }
        return exchange.with16(2, 77);
    }

    private void run(Queue queue, FakeExchange exchange) {
        byte[] bytes = exchange.bytes.toArray(ValueLayout.JAVA_BYTE);
        try {
            if (exchange.command().opcode() == Opcode.FABRICS) {
                fabrics.execute(queue, exchange, 0);
            } else if (queue.controller == null || !queue.controller.isEnabled()) {
                exchange.fail(NvmeStatus.COMMAND_SEQUENCE_ERROR);
            } else if (random.nextBoolean()) {
                admin.execute(queue.controller, exchange);
            } else {
                queue.controller.subsystem().io().execute(exchange);
            }
            exchange.finish();
        } catch (Throwable t) {
            throw new AssertionError(
                    "seed %d, command %s: %s".formatted(seed, HexFormat.of().formatHex(bytes), t),
                    t);
        }
    }
}
