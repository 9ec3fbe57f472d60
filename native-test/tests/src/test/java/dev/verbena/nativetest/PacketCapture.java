package dev.verbena.nativetest;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;

import org.opentest4j.TestAbortedException;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.VarHandle;
import java.net.InetAddress;
import java.net.NetworkInterface;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/**
 * The RoCE v2 packets that pass a network interface, in and out: an {@code AF_PACKET} socket, which
 * sees the packets of Soft-RoCE, as they go through the kernel. Those of a NIC do not.
 */
final class PacketCapture implements AutoCloseable {
    /** Of the RC transport (IBTA, table "OpCode field"). */
    static final int SEND_ONLY = 0x04;

    static final int READ_REQUEST = 0x0C;
    static final int READ_RESPONSE_ONLY = 0x10;
    static final int ACKNOWLEDGE = 0x11;

    /** The queue pair that the connection manager's messages go to. */
    static final int CONNECTION_MANAGER = 1;

    /**
     * A packet.
     *
     * @param from the source address
     * @param trafficClass the byte in the IP header: DSCP and ECN
     * @param flowLabel of an IPv6 header, or 0
     * @param port the UDP source port
     * @param opcode of the base transport header
     * @param queuePair which the packet is for
     * @param syndrome of the header that acknowledgements have (AETH)
     */
    record Packet(
            InetAddress from,
            int trafficClass,
            int flowLabel,
            int port,
            int opcode,
            int queuePair,
            int syndrome) {}

    private static final int AF_PACKET = 17;
    private static final int SOCK_RAW = 3;
    private static final int ETH_P_ALL = 3;
    private static final int MSG_DONTWAIT = 0x40;
    private static final int EAGAIN = 11;
    private static final int SOL_SOCKET = 1;
    private static final int SO_RCVBUFFORCE = 33;
    private static final int RECEIVE_BUFFER = 8 << 20;

    private static final int SOCKADDR_LL_BYTES = 20;
    private static final int FRAME_BYTES = 65536;
    private static final int ETHERNET_BYTES = 14;
    private static final int UDP = 17;
    private static final int UDP_BYTES = 8;
    private static final int BTH_BYTES = 12;
    private static final int ROCE_V2_PORT = 4791;

    private static final Linker LINKER = Linker.nativeLinker();
    private static final StructLayout STATE = Linker.Option.captureStateLayout();
    private static final VarHandle ERRNO =
            STATE.varHandle(MemoryLayout.PathElement.groupElement("errno"));
    private static final MethodHandle SOCKET =
            call("socket", FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_INT, JAVA_INT));
    private static final MethodHandle BIND =
            call("bind", FunctionDescriptor.of(JAVA_INT, JAVA_INT, ADDRESS, JAVA_INT));
    private static final MethodHandle SETSOCKOPT =
            call(
                    "setsockopt",
                    FunctionDescriptor.of(
                            JAVA_INT, JAVA_INT, JAVA_INT, JAVA_INT, ADDRESS, JAVA_INT));
    private static final MethodHandle RECV =
            call("recv", FunctionDescriptor.of(JAVA_LONG, JAVA_INT, ADDRESS, JAVA_LONG, JAVA_INT));
    private static final MethodHandle CLOSE =
            call("close", FunctionDescriptor.of(JAVA_INT, JAVA_INT));

    private final Arena arena = Arena.ofConfined();
    private final MemorySegment state = arena.allocate(STATE);
    private final MemorySegment frame = arena.allocate(FRAME_BYTES);
    private final int socket;

    @SuppressWarnings("restricted") // tests have native access
    private static MethodHandle call(String name, FunctionDescriptor descriptor) {
        return LINKER.downcallHandle(
                LINKER.defaultLookup().findOrThrow(name),
                descriptor,
                Linker.Option.captureCallState("errno"));
    }

    /** Begins to capture; skips the test, with a message, where the kernel does not allow it. */
    PacketCapture(NetworkInterface on) {
        socket =
                check(
                        "socket(AF_PACKET)",
                        () -> (int) SOCKET.invokeExact(state, AF_PACKET, SOCK_RAW, 0));
        // Room for all packets of a test: none is to be lost. Without the right to it, there is
        // room for some hundred.
        MemorySegment bytes = arena.allocateFrom(JAVA_INT, RECEIVE_BUFFER);
        run(
                () ->
                        (int)
                                SETSOCKOPT.invokeExact(
                                        state,
                                        socket,
                                        SOL_SOCKET,
                                        SO_RCVBUFFORCE,
                                        bytes,
                                        Integer.BYTES));
        MemorySegment address = arena.allocate(SOCKADDR_LL_BYTES, Integer.BYTES);
        address.set(JAVA_SHORT, 0, (short) AF_PACKET);
        address.set(JAVA_BYTE, 3, (byte) ETH_P_ALL); // big-endian, at 2
        address.set(JAVA_INT, 4, on.getIndex());
        check(
                "bind(%s)".formatted(on),
                () -> (int) BIND.invokeExact(state, socket, address, SOCKADDR_LL_BYTES));
    }

    private interface Call {
        int run() throws Throwable;
    }

    private static int run(Call call) {
        try {
            return call.run();
        } catch (Throwable t) {
            throw new AssertionError(t);
        }
    }

    private int check(String what, Call call) {
        int answer = run(call);
        if (answer < 0) {
            int errno = (int) ERRNO.get(state, 0L);
            throw impossible(
                    "%s failed with errno %d: it takes CAP_NET_RAW".formatted(what, errno));
        }
        return answer;
    }

    static TestAbortedException impossible(String why) {
        System.err.println("SKIPPED: packets cannot be captured: " + why);
        return new TestAbortedException(why);
    }

    /** All RoCE v2 packets that have passed since the last call. */
    List<Packet> packets() {
        List<Packet> packets = new ArrayList<>();
        while (true) {
            long[] length = {0};
            run(
                    () -> {
                        length[0] =
                                (long)
                                        RECV.invokeExact(
                                                state,
                                                socket,
                                                frame,
                                                (long) FRAME_BYTES,
                                                MSG_DONTWAIT);
                        return 0;
                    });
            if (length[0] < 0) {
                int errno = (int) ERRNO.get(state, 0L);
                if (errno != EAGAIN) {
                    throw new AssertionError("recv failed with errno " + errno);
                }
                return packets;
            }
            Packet packet = decode(frame.asSlice(0, length[0]).asByteBuffer());
            if (packet != null) {
                packets.add(packet);
            }
        }
    }

    /** Null for what is no RoCE v2 packet. */
    private static Packet decode(ByteBuffer frame) {
        if (frame.remaining() < ETHERNET_BYTES + 20 + UDP_BYTES + BTH_BYTES) {
            return null;
        }
        int ip = ETHERNET_BYTES;
        int trafficClass;
        int flowLabel = 0;
        int protocol;
        byte[] from;
        int udp;
        switch (frame.getShort(ip - 2)) {
            case 0x0800 -> {
                trafficClass = unsigned(frame, ip + 1);
                protocol = frame.get(ip + 9);
                from = bytes(frame, ip + 12, 4);
                udp = ip + 4 * (frame.get(ip) & 0xF);
            }
            case (short) 0x86DD -> {
                trafficClass = frame.getInt(ip) >> 20 & 0xFF;
                flowLabel = frame.getInt(ip) & 0xF_FFFF;
                protocol = frame.get(ip + 6);
                from = bytes(frame, ip + 8, 16);
                udp = ip + 40;
            }
            default -> {
                return null;
            }
        }
        int bth = udp + UDP_BYTES;
        if (protocol != UDP
                || frame.remaining() < bth + BTH_BYTES
                || Short.toUnsignedInt(frame.getShort(udp + 2)) != ROCE_V2_PORT) {
            return null;
        }
        int opcode = unsigned(frame, bth);
        try {
            return new Packet(
                    InetAddress.getByAddress(from),
                    trafficClass,
                    flowLabel,
                    Short.toUnsignedInt(frame.getShort(udp)),
                    opcode,
                    frame.getInt(bth + 4) & 0xFF_FFFF,
                    opcode == ACKNOWLEDGE ? unsigned(frame, bth + BTH_BYTES) : 0);
        } catch (UnknownHostException e) {
            throw new AssertionError(e);
        }
    }

    private static int unsigned(ByteBuffer frame, int at) {
        return Byte.toUnsignedInt(frame.get(at));
    }

    private static byte[] bytes(ByteBuffer frame, int at, int count) {
        byte[] bytes = new byte[count];
        frame.get(at, bytes);
        return bytes;
    }

    @Override
    public void close() {
        run(() -> (int) CLOSE.invokeExact(state, socket));
        arena.close();
    }
}
