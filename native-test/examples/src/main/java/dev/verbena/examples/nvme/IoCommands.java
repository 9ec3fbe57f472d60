package dev.verbena.examples.nvme;

import java.lang.foreign.MemorySegment;
import java.util.function.Consumer;

/** Commands of I/O queues: read, write, flush, write zeroes, dataset management. */
final class IoCommands {
    private static final int RANGE_BYTES = 16;
    private static final int DEALLOCATE = 1 << 2;
    private static final long QUICK_BYTES = 64 << 10; // more are zeroed on another thread

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
            default -> zero(exchange, disk, offset, length);
        }
    }

    /** The data of a write has arrived in the disk's memory. */
    private void written(Exchange exchange) {
        Command command = exchange.command();
        subsystem.namespace(command.namespace()).written(offset(command), length(command));
        exchange.succeed(0);
    }

    private static long offset(Command command) {
        return command.firstBlock() << Namespace.BLOCK_SHIFT;
    }

    private static long length(Command command) {
        return (long) command.blocks() << Namespace.BLOCK_SHIFT;
    }

    private static void zero(Exchange exchange, Namespace disk, long offset, long length) {
        if (length <= QUICK_BYTES) {
            disk.zero(offset, length);
            exchange.succeed(0);
        } else {
            exchange.aside(() -> disk.zero(offset, length));
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
                    exchange.aside(
                            () -> {
                                for (int i = 0; i < ranges; i++) {
                                    disk.zero(
                                            first(page, i) << Namespace.BLOCK_SHIFT,
                                            count(page, i) << Namespace.BLOCK_SHIFT);
                                }
                            });
                });
    }

    private static long first(MemorySegment page, int range) {
        return Wire.get64(page, (long) range * RANGE_BYTES + 8);
    }

    private static long count(MemorySegment page, int range) {
        return Integer.toUnsignedLong(Wire.get32(page, (long) range * RANGE_BYTES + 4));
    }
}
