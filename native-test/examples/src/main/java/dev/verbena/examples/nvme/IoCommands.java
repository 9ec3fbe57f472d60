package dev.verbena.examples.nvme;

import java.lang.foreign.MemorySegment;
import java.util.function.Consumer;

/** Commands of I/O queues: read, write, flush, write zeroes, dataset management. */
final class IoCommands {
    private static final int RANGE_BYTES = 16;
    private static final int DEALLOCATE = 1 << 2;
    private static final int FORCE_UNIT_ACCESS = 1 << 30;
    private static final long PIECE_BYTES =
            256 << 10; // zeroed at once, then others have their turn

    private final Subsystem subsystem;
    private final Consumer<Exchange> whenWritten = this::written; // made once, not for each command

    IoCommands(Subsystem subsystem) {
        this.subsystem = subsystem;
    }

    void execute(Exchange exchange) {
        Command command = exchange.command();
        Namespace disk = subsystem.namespace(command.namespace());
        switch (command.opcode()) {
            case Opcode.FLUSH -> flush(exchange, disk);
            case Opcode.READ, Opcode.WRITE, Opcode.WRITE_ZEROES, Opcode.DATASET_MANAGEMENT -> {
                if (disk == null) {
                    exchange.fail(NvmeStatus.INVALID_NAMESPACE);
                } else if (command.opcode() == Opcode.DATASET_MANAGEMENT) {
                    manage(exchange, disk);
                } else if (!disk.contains(command.firstBlock(), command.blocks())) {
                    exchange.fail(NvmeStatus.LBA_OUT_OF_RANGE);
                } else {
                    move(exchange, disk);
                }
            }
            default -> exchange.fail(NvmeStatus.INVALID_OPCODE);
        }
    }

    private void move(Exchange exchange, Namespace disk) {
        Command command = exchange.command();
        long offset = offset(command);
        long length = length(command);
        switch (command.opcode()) {
            case Opcode.READ -> exchange.sendBlocks(disk, offset, length);
            case Opcode.WRITE -> exchange.fetchBlocks(disk, offset, length, whenWritten);
            default -> zero(exchange, disk, offset, length, () -> finish(exchange, disk));
        }
    }

    /** The data of a write has arrived in the disk's memory. */
    private void written(Exchange exchange) {
        Command command = exchange.command();
        Namespace disk = subsystem.namespace(command.namespace());
        disk.written(offset(command), length(command));
        finish(exchange, disk);
    }

    /**
     * Answers a command that has changed blocks; if the host wants that, they are flushed before.
     */
    private static void finish(Exchange exchange, Namespace disk) {
        boolean force = (exchange.command().dword(12) & FORCE_UNIT_ACCESS) != 0;
        if (force && disk.isVolatile()) {
            exchange.aside(disk::flush);
        } else {
            exchange.succeed(0);
        }
    }

    private static long offset(Command command) {
        return command.firstBlock() << Namespace.BLOCK_SHIFT;
    }

    private static long length(Command command) {
        return (long) command.blocks() << Namespace.BLOCK_SHIFT;
    }

    /** Zeroes a range piece by piece, then goes on with {@code then}. */
    private static void zero(
            Exchange exchange, Namespace disk, long offset, long length, Runnable then) {
        long piece = Math.min(length, PIECE_BYTES);
        disk.zero(offset, piece);
        if (piece == length) {
            then.run();
        } else {
            exchange.later(() -> zero(exchange, disk, offset + piece, length - piece, then));
        }
    }

    /** Flushes one disk, or all. */
    private void flush(Exchange exchange, Namespace disk) {
        if (exchange.command().namespace() == Subsystem.ALL_NAMESPACES) {
            exchange.aside(() -> subsystem.namespaces().forEach(Namespace::flush));
        } else if (disk == null) {
            exchange.fail(NvmeStatus.INVALID_NAMESPACE);
        } else if (disk.isVolatile()) {
            exchange.aside(disk::flush);
        } else {
            exchange.succeed(0);
        }
    }

    /** Zeroes the ranges that the host does not need any more; takes no notice of hints. */
    private static void manage(Exchange exchange, Namespace disk) {
        int ranges = (exchange.command().dword(10) & 0xff) + 1;
        boolean deallocate = (exchange.command().dword(11) & DEALLOCATE) != 0;
        exchange.fetchPage(
                ranges * RANGE_BYTES,
                it -> {
                    MemorySegment page = exchange.page();
                    for (int i = 0; i < ranges; i++) {
                        if (!disk.contains(first(page, i), count(page, i))) {
                            exchange.fail(NvmeStatus.LBA_OUT_OF_RANGE);
                            return;
                        }
                    }
                    if (!deallocate) {
                        exchange.succeed(0); // hints about how the host will use the ranges
                        return;
                    }
                    deallocate(exchange, disk, 0, ranges, disk.blocks(), PIECE_BYTES);
                });
    }

    /**
     * Zeroes ranges, one after the other; others have their turn after every so many bytes. Ranges
     * that overlap may have more blocks than the disk; what is beyond so many is left as it is,
     * which a target may do.
     */
    private static void deallocate(
            Exchange exchange, Namespace disk, int range, int ranges, long most, long turn) {
        MemorySegment page = exchange.page();
        if (range == ranges || count(page, range) > most) {
            exchange.succeed(0);
            return;
        }
        long blocks = count(page, range);
        long bytes = blocks << Namespace.BLOCK_SHIFT;
        long ofLastPiece = -bytes & PIECE_BYTES - 1; // left of that turn
        long left = bytes > PIECE_BYTES ? ofLastPiece : turn - bytes;
        Runnable next =
                () ->
                        deallocate(
                                exchange,
                                disk,
                                range + 1,
                                ranges,
                                most - blocks,
                                left > 0 ? left : PIECE_BYTES);
        zero(
                exchange,
                disk,
                first(page, range) << Namespace.BLOCK_SHIFT,
                bytes,
                left > 0 ? next : () -> exchange.later(next));
    }

    private static long first(MemorySegment page, int range) {
        return Wire.get64(page, (long) range * RANGE_BYTES + 8);
    }

    private static long count(MemorySegment page, int range) {
        return Integer.toUnsignedLong(Wire.get32(page, (long) range * RANGE_BYTES + 4));
    }
}
