package dev.verbena.examples.nvme;

import dev.verbena.messaging.Poller;

import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.net.InetSocketAddress;
import java.util.Objects;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * Uses disks of an NVMe target over RDMA, such as the Linux kernel's: the other end of {@link
 * NvmeTarget}. Has one admin queue and one I/O queue; each thread has one command at a time. Sends
 * no keep-alives, and asks for no keep-alive time.
 */
public final class NvmeHost implements AutoCloseable {
    private static final int ADMIN_SIZE = 32;
    private static final int ENABLE = 0x460001; // commands of 2^6 bytes, answers of 2^4
    private static final int CAPABILITIES = 0x00;
    private static final int CONFIGURATION = 0x14;
    private static final int STATUS = 0x1c;
    private static final int READY = 1;
    private static final long PAUSE_NANOS = 5_000_000;

    private final HostQueue admin;
    private final HostQueue io;
    private final int transferBytes;
    private final int controller;

    /** How a host connects. */
    record Options(String name, UUID id, int queueSize, int transferBytes, int keepAliveMillis) {
        static Options of(UUID id) {
            return new Options("nqn.2014-08.org.nvmexpress:uuid:" + id, id, 32, 128 << 10, 0);
        }

        Options withQueueSize(int commands) {
            return new Options(name, id, commands, transferBytes, keepAliveMillis);
        }

        /** As this class sends no keep-alives, the target will end the connection. For tests. */
        Options withKeepAlive(int millis) {
            return new Options(name, id, queueSize, transferBytes, millis);
        }
    }

    private NvmeHost(HostQueue admin, HostQueue io, int transferBytes, int controller) {
        this.admin = admin;
        this.io = io;
        this.transferBytes = transferBytes;
        this.controller = controller;
    }

    /** Connects both queues, and enables the controller. */
    static NvmeHost connect(
            Poller poller, InetSocketAddress target, String subsystem, Options options)
            throws IOException {
        HostQueue admin = new HostQueue(poller, target, 0, ADMIN_SIZE, Exchange.PAGE_BYTES);
        HostQueue io = null;
        try {
            int controller = connect(admin, FabricsCommands.ANY_CONTROLLER, subsystem, options);
            enable(admin);
            long transfer = mostBytes(admin, options.transferBytes);
            feature(admin, Opcode.NUMBER_OF_QUEUES, 0); // one queue: the field is the number less 1
            io = new HostQueue(poller, target, 1, options.queueSize, (int) transfer);
            connect(io, controller, subsystem, options);
            return new NvmeHost(admin, io, (int) transfer, controller);
        } catch (Throwable t) {
            admin.close();
            if (io != null) {
                io.close();
            }
            throw t;
        }
    }

    /** Makes a connection a queue of a controller. */
    private static int connect(HostQueue queue, int controller, String subsystem, Options options)
            throws IOException {
        return queue.use(
                call -> {
                    MemorySegment data = call.data().asSlice(0, FabricsCommands.CONNECT_DATA_BYTES);
                    data.fill((byte) 0);
                    Wire.put64(data, 0, Long.reverseBytes(options.id.getMostSignificantBits()));
                    Wire.put64(data, 8, Long.reverseBytes(options.id.getLeastSignificantBits()));
                    Wire.put16(data, FabricsCommands.CONTROLLER_ID, controller);
                    int length = FabricsCommands.NAME_BYTES;
                    Wire.putText(data, FabricsCommands.SUBSYSTEM_NAME, length, subsystem, '\0');
                    Wire.putText(data, FabricsCommands.HOST_NAME, length, options.name, '\0');
                    call.begin(Opcode.FABRICS, Opcode.CONNECT)
                            .with32(FabricsCommands.CONNECT_FORMAT, queue.number() << 16)
                            .with32(FabricsCommands.CONNECT_SIZE, queue.size() - 1)
                            .with32(
                                    FabricsCommands.CONNECT_KEEP_ALIVE,
                                    queue.number() == 0 ? options.keepAliveMillis : 0);
                    return (int) call.run(HostQueue.Direction.TO_TARGET, (int) data.byteSize())
                            & 0xffff;
                });
    }

    /** Enables the controller, and waits until it is ready: as long as it says that may take. */
    private static void enable(HostQueue admin) throws IOException {
        long units = property(admin, CAPABILITIES) >>> 24 & 0xff; // TO, of 500 ms
        long deadline =
                System.nanoTime()
                        + TimeUnit.MILLISECONDS.toNanos(500 * (units + 1)); // 0 is less than one
        admin.use(
                call -> {
                    call.begin(Opcode.FABRICS, Opcode.PROPERTY_SET)
                            .with32(FabricsCommands.PROPERTY_OFFSET, CONFIGURATION)
                            .with64(48, ENABLE);
                    return call.run(HostQueue.Direction.NONE, 0);
                });
        while ((property(admin, STATUS) & READY) == 0) {
            if (System.nanoTime() - deadline > 0) {
                throw new IOException(
                        "the controller was not ready within the %d ms of its CAP.TO"
                                .formatted(500 * (units + 1)));
            }
            LockSupport.parkNanos(PAUSE_NANOS); // a target does not say when it is ready
        }
    }

    /** Reads a register. Only the capabilities have eight bytes. */
    private static long property(HostQueue admin, int offset) throws IOException {
        int size = offset == CAPABILITIES ? 1 : 0;
        return admin.use(
                call -> {
                    call.begin(Opcode.FABRICS, Opcode.PROPERTY_GET)
                            .with32(FabricsCommands.PROPERTY_ATTRIBUTES, size)
                            .with32(FabricsCommands.PROPERTY_OFFSET, offset);
                    return call.run(HostQueue.Direction.NONE, 0);
                });
    }

    /** The longest transfer: as wanted, or less if the target takes less. */
    private static long mostBytes(HostQueue admin, int wanted) throws IOException {
        int shift = admin.use(call -> Wire.get8(identify(call, Opcode.CONTROLLER, 0), 77)); // MDTS
        return shift == 0 ? wanted : Math.min(wanted, 4096L << Math.min(shift, 20));
    }

    private static MemorySegment identify(HostQueue.Call call, int what, int namespace)
            throws IOException {
        call.begin(Opcode.IDENTIFY, namespace).with32(40, what);
        call.run(HostQueue.Direction.FROM_TARGET, Exchange.PAGE_BYTES);
        return call.data();
    }

    private static void feature(HostQueue admin, int feature, int value) throws IOException {
        admin.use(
                call -> {
                    call.begin(Opcode.SET_FEATURES, 0).with32(40, feature).with32(44, value);
                    return call.run(HostQueue.Direction.NONE, 0);
                });
    }

    /** One of the target's disks, from 1 on. */
    RemoteDisk disk(int namespace) throws IOException {
        return admin.use(
                call -> {
                    MemorySegment page = identify(call, Opcode.NAMESPACE, namespace);
                    long blocks = Wire.get64(page, 0);
                    if (blocks == 0) {
                        throw new IOException("there is no namespace " + namespace);
                    }
                    int format = Wire.get8(page, 26) & 0xf;
                    int shift = Wire.get8(page, 128 + 4L * format + 2);
                    return new RemoteDisk(this, namespace, blocks, shift);
                });
    }

    int transferBytes() {
        return transferBytes;
    }

    int controller() {
        return controller;
    }

    HostQueue io() {
        return io;
    }

    HostQueue admin() {
        return admin;
    }

    // ---- blocks

    /** Reads blocks into a call's memory, or writes them from there. */
    void move(HostQueue.Call call, int opcode, int namespace, long first, int blocks, int length)
            throws IOException {
        Objects.checkFromToIndex(0, length, transferBytes);
        call.begin(opcode, namespace).with64(40, first).with32(48, blocks - 1);
        call.run(
                opcode == Opcode.READ
                        ? HostQueue.Direction.FROM_TARGET
                        : HostQueue.Direction.TO_TARGET,
                length);
    }

    void flush(int namespace) throws IOException {
        io.use(
                call -> {
                    call.begin(Opcode.FLUSH, namespace);
                    return call.run(HostQueue.Direction.NONE, 0);
                });
    }

    /** Ends both connections. */
    @Override
    public void close() {
        io.close();
        admin.close();
    }
}
