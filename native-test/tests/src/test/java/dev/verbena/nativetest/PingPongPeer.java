package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Completions;
import dev.verbena.Gid;
import dev.verbena.MemoryRegion;
import dev.verbena.NotifyType;
import dev.verbena.OperationType;
import dev.verbena.QueuePairAddress;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;

import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.net.ConnectException;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HexFormat;

/**
 * Plays with {@code ibv_rc_pingpong}: addresses are exchanged over TCP, then the same message goes
 * to and fro. That program receives into the buffer it sends from, so what comes back is what was
 * sent last; here it is another one each time.
 */
final class PingPongPeer implements AutoCloseable {
    static final QueuePairLimits LIMITS = QueuePairLimits.depths(1, 2);

    private static final int ADDRESS_BYTES = 4 + 1 + 6 + 1 + 6 + 1 + 32 + 1;
    private static final byte[] DONE = {'d', 'o', 'n', 'e', 0};
    private static final int INITIALLY = 0x7b;
    private static final int STAMPS = 512; // bytes between two: one or more in each packet

    private final Pair.Side side;
    private final MemoryRegion inbox;
    private final MemoryRegion outbox;
    private boolean sending;

    PingPongPeer(String device, int bytes) {
        side = new Pair.Side(device, LIMITS, null);
        inbox = side.memory(bytes);
        outbox = side.memory(bytes);
        outbox.memory().fill((byte) INITIALLY);
        outbox.memory().set(ValueLayout.JAVA_BYTE, 0, (byte) 0); // as its -c marks a page
        receive();
    }

    int mtuBytes() {
        return side.queuePair.address().mtuBytes();
    }

    /** As its server: the client begins. */
    void serve(Socket socket, int rounds) throws IOException {
        QueuePairAddress peer = readAddress(socket);
        side.queuePair.connect(peer);
        writeAddress(socket);
        assertThat(socket.getInputStream().readNBytes(DONE.length)).isEqualTo(DONE);
        for (int i = 0; i < rounds; i++) {
            awaitEcho(i);
            send(i);
        }
        awaitSent();
    }

    /** As its client, which begins. */
    void play(Socket socket, int rounds) throws IOException {
        writeAddress(socket);
        QueuePairAddress peer = readAddress(socket);
        socket.getOutputStream().write(DONE);
        side.queuePair.connect(peer);
        for (int i = 0; i < rounds; i++) {
            send(i);
            awaitEcho(i);
        }
    }

    private void writeAddress(Socket socket) throws IOException {
        QueuePairAddress own = side.queuePair.address();
        String message =
                "%04x:%06x:%06x:%s\0"
                        .formatted(
                                own.lid(),
                                own.queuePairNumber(),
                                own.firstSequenceNumber(),
                                HexFormat.of().formatHex(own.gid().bytes()));
        socket.getOutputStream().write(message.getBytes(StandardCharsets.US_ASCII));
    }

    private QueuePairAddress readAddress(Socket socket) throws IOException {
        byte[] message = socket.getInputStream().readNBytes(ADDRESS_BYTES);
        String[] words =
                new String(message, StandardCharsets.US_ASCII).replace("\0", "").split(":");
        assertThat(words).as("the peer's address").hasSize(4);
        return QueuePairAddress.of(
                        Integer.parseInt(words[1], 16),
                        Integer.parseInt(words[2], 16),
                        Gid.of(HexFormat.of().parseHex(words[3])),
                        mtuBytes())
                .withLid(Integer.parseInt(words[0], 16))
                .withInboundReads(1);
    }

    private void receive() {
        assertThat(side.queuePair.receive(1, Pair.whole(inbox)).status()).isEqualTo(Status.SUCCESS);
    }

    /** Sends a message that differs from all before; its first byte stays, for -c. */
    private void send(int round) {
        awaitSent();
        MemorySegment message = outbox.memory();
        if (round == 0) {
            Pair.fill(message.asSlice(1), 0);
        }
        for (long i = 1; i + Integer.BYTES <= message.byteSize(); i += STAMPS) {
            message.set(ValueLayout.JAVA_INT_UNALIGNED, i, round);
        }
        assertThat(side.queuePair.send(2, Pair.whole(outbox)).status()).isEqualTo(Status.SUCCESS);
        sending = true;
    }

    private void awaitSent() {
        if (sending) {
            Completions one = completion();
            assertThat(one.type(0)).isEqualTo(OperationType.SEND);
            assertThat(one.status(0)).isEqualTo(Status.SUCCESS);
            sending = false;
        }
    }

    private void awaitEcho(int round) {
        Completions one = completion();
        while (one.type(0) == OperationType.SEND) {
            assertThat(one.status(0)).as("send in round " + round).isEqualTo(Status.SUCCESS);
            assertThat(sending).isTrue();
            sending = false;
            one = completion();
        }
        assertThat(one.status(0)).as("receive in round " + round).isEqualTo(Status.SUCCESS);
        assertThat(one.bytes(0)).isEqualTo(inbox.memory().byteSize());
        assertThat(inbox.memory().mismatch(outbox.memory())).as("round " + round).isEqualTo(-1);
        receive();
    }

    /** Waits for exactly one completion, asleep: under emulation the device needs the processor. */
    private Completions completion() {
        Completions completions = new Completions(1);
        Deadline deadline = Deadline.of("completion on " + side.adapter.name());
        while (side.completionQueue.poll(completions) == 0) {
            deadline.check();
            side.completionQueue.arm(NotifyType.ANY);
            side.completionQueue.await(Duration.ofSeconds(30));
        }
        return completions;
    }

    /** Connects to the port on this machine where a program is about to listen. */
    static Socket connectTo(int port, CProgram server) throws IOException {
        Deadline deadline = Deadline.of("program that listens");
        while (true) {
            try {
                return new Socket(InetAddress.getLoopbackAddress(), port);
            } catch (ConnectException e) {
                assertThat(server.ended()).as(server::toString).isFalse();
                deadline.check();
            }
        }
    }

    @Override
    public void close() {
        side.close();
    }
}
