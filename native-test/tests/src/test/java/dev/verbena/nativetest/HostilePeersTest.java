package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Access;
import dev.verbena.ConnectionOptions;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.RemoteMemory;
import dev.verbena.Until;
import dev.verbena.messaging.Exposure;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.Message;
import dev.verbena.messaging.MessageChannel;
import dev.verbena.messaging.MessageHandler;
import dev.verbena.messaging.MessageServer;
import dev.verbena.messaging.MessagingOptions;
import dev.verbena.messaging.Poller;
import dev.verbena.trust.Footprint;
import dev.verbena.trust.Trust;

import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * A peer in C, which breaks the protocol in each way that its program knows, against a server of
 * this process. After each attack the server still serves a good client, through the channel that
 * it had and through a new one; the number of threads and descriptors stay within the bounds below,
 * in the whole suite resident memory, too; the kernel has no more queue pairs and identifiers than
 * before, and the memory of a good channel is as it was.
 */
@NeedsDevices
@Tag("trust")
@Timeout(3000)
class HostilePeersTest {
    private static final Duration LONG = Duration.ofSeconds(120);

    /** Channels that the server has at a time: what bounds memory. */
    private static final int MOST = 24;

    private static final String[] ACCESSES = {"write", "write-with-immediate", "read", "atomic"};
    private static final int MOST_MORE_THREADS = 4;
    private static final int MOST_MORE_DESCRIPTORS = 2;
    private static final int MOST_MORE_KIBIBYTES = 96 << 10; // 10 for each of 10,000 requests

    /** For an attack: 10,000 requests take minutes on an emulated processor. */
    private static final int SECONDS = Trust.size(60, 1500);

    /** What is never established keeps its place for as long as its attack may take. */
    private static final MessagingOptions OPTIONS =
            MessagingOptions.DEFAULTS
                    .withConnection(
                            ConnectionOptions.DEFAULTS.withDeadline(Duration.ofSeconds(SECONDS)))
                    .withMaxMessage(1 << 16)
                    .withReceives(16)
                    .withOutstanding(16)
                    .withExposures(4)
                    .withTimeout(Duration.ofSeconds(60));

    private static final MessageHandler ECHO =
            (channel, message) -> {
                message.retain();
                var _ =
                        channel.sendAsync(message.data())
                                .whenComplete((nothing, thrown) -> message.release());
            };

    private final BlockingQueue<MessageChannel> opened = new LinkedBlockingQueue<>();
    private final List<String> harm = new ArrayList<>();
    private MessageChannel served; // the server's side of the good one
    private int attacks;
    private Duration longest = Duration.ZERO;

    private static Path program() throws IOException, InterruptedException {
        return CProgram.compile("trust/peer/hostile.c", "bench/c");
    }

    @Test
    void eachAttackHarmsItsOwnConnectionAlone() throws Exception {
        int requests = Trust.size(400, 10_000);
        Trust.Row row = Trust.row("Attacks of a peer in C, devices");
        Path program = program();
        try (Sides sides = new Sides();
                Poller poller = Poller.start(sides.here, IdleStrategy.events());
                MessageServer server = sides.listen(OPTIONS, MOST, ECHO, opened::add);
                MessageChannel good =
                        MessageChannel.connect(poller, server.localAddress(), OPTIONS, null)) {
            served = opened.poll(30, TimeUnit.SECONDS);
            try (MemoryRegion region = sides.far.domain().allocate(4096, Access.LOCAL_WRITE)) {
                Attacker attacker = new Attacker(program, sides, server);
                look(good, poller, server, "warming up");
                attacks = 0;
                Footprint before = Footprint.now();
                String kernel = Churn.kernel();
                for (String attack :
                        """
                        private-data handshakes oversized longest short empty kind credit offer \
                        written immediate messages announcements deaf slow vanish"""
                                .split(" ")) {
                    attacker.run(attack, String.valueOf(Trust.size(1, 3)));
                    look(good, poller, server, attack);
                }
                Exposure exposure =
                        served.ownMemory()
                                .expose(region, 0, 4096, OpFlags.ALLOW_REMOTE_WRITE, LONG);
                RemoteMemory foreign = exposure.remoteMemory();
                // Not "invalidate": rxe lets any connection invalidate any window: see SECURITY.md.
                for (String access : ACCESSES) {
                    attacker.run(access, foreign);
                    look(good, poller, server, access + " by a foreign key");
                }
                exposure.close();
                for (String access : ACCESSES) {
                    attacker.run(access, foreign);
                    look(good, poller, server, access + " by a stale key");
                }
                attacker.run("invalidate", foreign);
                look(good, poller, server, "invalidate by a stale key");
                assertThat(region.memory().toArray(ValueLayout.JAVA_BYTE)).containsOnly((byte) 0);
                attackByRevokedKey(attacker, region);
                look(good, poller, server, "write by a revoked key of its own");
                attacker.run("half-open", "10");
                look(good, poller, server, "half-open");
                attacker.run("flood", String.valueOf(requests));
                look(good, poller, server, "flood");
                // Threads of callbacks go when they had nothing to do for some seconds.
                Until.holds(() -> Footprint.liveThreads() <= before.threads() + MOST_MORE_THREADS);
                Footprint after = Footprint.now();
                System.out.println("Before the attacks: " + before + ", after: " + after);
                boolean grew =
                        Trust.WHOLE && after.kibibytes() > before.kibibytes() + MOST_MORE_KIBIBYTES;
                if (grew || after.descriptors() > before.descriptors() + MOST_MORE_DESCRIPTORS) {
                    harm.add("%s before, %s after".formatted(before, after));
                }
                if (!Churn.noMoreConnections(kernel)) {
                    harm.add("%s before, %s after".formatted(kernel, Churn.kernel()));
                }
            }
        } catch (Throwable t) { // harm, or an attack that the server did not end
            harm.add(t.toString());
            throw t;
        } finally {
            row.requests(requests).faults(attacks).losses(harm.size()).longestWait(longest).write();
        }
        assertThat(harm).isEmpty();
    }

    /** A window that was not invalidated would still let the peer of its own channel in. */
    private void attackByRevokedKey(Attacker attacker, MemoryRegion region) throws Exception {
        try (CProgram running = attacker.start("revoked")) {
            MessageChannel channel = opened.poll(SECONDS, TimeUnit.SECONDS);
            MemorySegment key = MemorySegment.ofArray(new byte[RemoteMemory.MESSAGE_BYTES]);
            try (Exposure exposure =
                    channel.ownMemory().expose(region, 0, 4096, OpFlags.ALLOW_REMOTE_WRITE, LONG)) {
                exposure.writeTo(key, 0);
                channel.send(key, LONG);
            }
            channel.send(key, LONG);
            running.awaitSuccess(SECONDS);
        }
    }

    /** The server serves, through the channel that there is and a new one. */
    private void look(MessageChannel good, Poller poller, MessageServer server, String after)
            throws Exception {
        long start = System.nanoTime();
        try {
            echo(good);
            try (MessageChannel another = connect(poller, server)) {
                echo(another);
            }
            opened.clear();
        } catch (Exception e) {
            throw new AssertionError(
                    "after %s: %s, server: %s".formatted(after, e, served.closeReason()), e);
        }
        Duration took = Duration.ofNanos(System.nanoTime() - start);
        longest = took.compareTo(longest) > 0 ? took : longest;
        attacks++;
    }

    private static MessageChannel connect(Poller poller, MessageServer server) {
        return MessageChannel.connect(poller, server.localAddress(), OPTIONS, null);
    }

    private static void echo(MessageChannel channel) throws Exception {
        for (int bytes : new int[] {10, 40_000}) {
            channel.send(MemorySegment.ofArray(new byte[bytes]), LONG);
            try (Message message = channel.receive(LONG)) {
                assertThat(message.length()).isEqualTo(bytes);
            }
        }
    }

    /** The program, and whom it attacks. */
    private record Attacker(Path program, Sides sides, MessageServer server) {
        void run(String attack, RemoteMemory at) throws InterruptedException {
            run(attack, String.valueOf(at.address()), String.valueOf(at.token()));
        }

        void run(String attack, String... more) throws InterruptedException {
            try (CProgram running = start(attack, more)) {
                running.awaitSuccess(SECONDS);
            }
        }

        CProgram start(String attack, String... more) {
            List<String> command = new ArrayList<>();
            command.add(program.toString());
            command.add(attack);
            command.add(server.localAddress().getAddress().getHostAddress());
            command.add(String.valueOf(server.localAddress().getPort()));
            command.add(Sides.anyPort(sides.here).getAddress().getHostAddress());
            command.addAll(List.of(more));
            return CProgram.startBuilt(command.toArray(new String[0]));
        }
    }
}
