package dev.verbena.messaging;

import static dev.verbena.messaging.OneThread.text;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.Access;
import dev.verbena.BufferList;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.RemoteMemory;
import dev.verbena.Status;
import dev.verbena.Until;
import dev.verbena.VerbenaException;
import dev.verbena.internal.util.Text;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Each cause of a refused access to the peer's memory has its own sentence. */
@Timeout(60)
class PeerMemoryRefusalTest {
    private static final Duration LONG = Duration.ofSeconds(30);
    private static final int WRITE_OPCODE = 0;

    private static void isRefused(CompletableFuture<Void> future, Status status, String... why) {
        assertThatThrownBy(future::get)
                .cause()
                .isInstanceOf(MessagingException.class)
                .hasMessageContainingAll(why)
                .extracting(thrown -> ((VerbenaException) thrown).status())
                .isEqualTo(status);
    }

    @Test
    void whatThisSideKnowsIsSaidBeforeThePost() throws Exception {
        try (OneThread two = OneThread.open();
                MemoryRegion readOnly = two.pollerOfB.domain().allocate(10, Access.REMOTE_READ)) {
            PeerMemory memory = two.b.peerMemory();
            Exposure exposure =
                    two.a.ownMemory().expose(two.region, OpFlags.ALLOW_REMOTE_WRITE, LONG);
            RemoteMemory remote = two.announce(exposure);
            BufferList bytes = two.bytes("five5");
            isRefused(
                    memory.writeAsync(bytes, remote.slice(0, 4)),
                    Status.INVALID_PARAMETER,
                    "the bytes would go beyond the remote memory");
            isRefused(
                    memory.writeAsync(BufferList.of(two.region), remote),
                    Status.INVALID_PARAMETER_MIX,
                    "another protection domain");
            isRefused(
                    memory.readAsync(BufferList.of(readOnly), remote),
                    Status.ACCESS_VIOLATION,
                    "register it with LOCAL_WRITE");
            RemoteMemory invented = new RemoteMemory(remote.address(), ~remote.token(), 10);
            isRefused(
                    memory.writeAsync(bytes, invented),
                    Status.ACCESS_VIOLATION,
                    "MessageChannel over QueuePair",
                    "the peer exposes no memory with the token %s"
                            .formatted(Text.key(~remote.token())),
                    "a message of this channel");
            exposure.revoke();
            two.run();
            isRefused(
                    memory.writeAsync(bytes, remote),
                    Status.ACCESS_VIOLATION,
                    "the exposure with the token %s has ended".formatted(Text.key(remote.token())),
                    "the peer asked for that memory back");
            Exposure second =
                    two.a.ownMemory().expose(two.region, OpFlags.ALLOW_REMOTE_WRITE, LONG);
            RemoteMemory next = two.announce(second);
            CompletableFuture<Void> back = memory.sendAndInvalidateAsync(text("x"), next);
            isRefused(
                    memory.writeAsync(bytes, next),
                    Status.ACCESS_VIOLATION,
                    "the exposure with the token %s has ended".formatted(Text.key(next.token())),
                    "this side gave that memory back");
            two.run();
            assertThat(back).isCompleted();
            second.close(); // releases the message
            assertThat(two.b.isOpen()).isTrue();
        }
    }

    /** By the polling thread, without the lock: what depends on it may wait for another thread. */
    @Test
    void aRequestThatWasRefusedWhenItHadRoomIsReportedWithoutTheLock() throws Exception {
        MessagingOptions options =
                MessagingOptions.DEFAULTS.withMaxMessage(100).withOutstanding(1).withExposures(1);
        BlockingQueue<MessageChannel> accepted = new LinkedBlockingQueue<>();
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                Poller ofPeer = Poller.start(fabric.adapter, IdleStrategy.events());
                MemoryRegion region = ofPeer.domain().allocate(8);
                MessageServer server =
                        MessageServer.listen(
                                ofPeer, FakeFabric.port(7700), options, 1, null, accepted::add);
                MessageChannel channel =
                        MessageChannel.connect(poller, server.localAddress(), options, null);
                MessageChannel peer = Until.next(accepted);
                Exposure exposure =
                        peer.ownMemory().expose(region, OpFlags.ALLOW_REMOTE_READ, LONG)) {
            peer.send(text("exposed"), LONG);
            channel.receive(LONG).close();
            PeerMemory memory = channel.peerMemory();
            fabric.stall(true);
            channel.send(text("x"), LONG);
            var _ = memory.sendAndInvalidateAsync(text("taken"), exposure.remoteMemory());
            CompletableFuture<Integer> refused =
                    memory.sendAndInvalidateAsync(text("again"), exposure.remoteMemory())
                            .handle(
                                    (nothing, why) ->
                                            CompletableFuture.supplyAsync(channel::credit)
                                                    .orTimeout(10, TimeUnit.SECONDS)
                                                    .join());
            fabric.stall(false);
            assertThat(refused.get(30, TimeUnit.SECONDS)).isPositive();
        }
    }

    /** Otherwise the write would go out with the next request, whatever its memory holds then. */
    @ParameterizedTest
    @ValueSource(ints = {5, 900}) // sent inline, and from a buffer
    void aMessageThatCannotBeComposedTakesItsWriteWithIt(int length) {
        try (OneThread two = OneThread.open()) {
            PeerMemory memory = two.b.peerMemory();
            RemoteMemory remote = two.announce(two.expose(OpFlags.ALLOW_REMOTE_WRITE, LONG));
            MemorySegment tooShort = MemorySegment.ofArray(new byte[length - 1]);
            MemorySegment closed;
            try (Arena arena = Arena.ofConfined()) {
                closed = arena.allocate(length);
            }
            BufferList bytes = two.bytes("early");
            for (MemorySegment message : List.of(tooShort, closed)) {
                assertThatThrownBy(
                                () ->
                                        memory.tryWriteAndInvalidate(
                                                bytes, remote, 0, message, 0, length, null, null))
                        .isInstanceOfAny(
                                IndexOutOfBoundsException.class, IllegalStateException.class);
            }
            assertThat(two.b.trySend(text("next"))).isEqualTo(Status.SUCCESS);
            two.run();
            assertThat(two.posted(WRITE_OPCODE)).isZero();
            MemorySegment message = MemorySegment.ofArray(new byte[length]);
            assertThat(
                            memory.tryWriteAndInvalidate(
                                    two.bytes("value"), remote, 0, message, 0, length, null, null))
                    .isEqualTo(Status.SUCCESS);
            two.run();
            assertThat(two.region.memory().getString(0)).isEqualTo("value");
            assertThat(two.log).first().isEqualTo("a got next");
            assertThat(two.log).last().asString().startsWith("SUCCESS");
        }
    }
}
