package dev.verbena.nativetest;

import static dev.verbena.nativetest.Pair.fill;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.verbena.BufferList;
import dev.verbena.Completions;
import dev.verbena.MemoryRegion;
import dev.verbena.MemoryWindow;
import dev.verbena.NotifyType;
import dev.verbena.OpFlags;
import dev.verbena.OperationType;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;

/**
 * Sends that invalidate a token, with each flag, as the peer sees them: the message's bytes, the
 * token in the completion, and that nobody writes through the window any more.
 */
@NeedsDevices
@Timeout(120)
class SendAndInvalidateTest {
    private static final OpFlags RW = OpFlags.ALLOW_REMOTE_READ.and(OpFlags.ALLOW_REMOTE_WRITE);
    private static final Duration LONG = Duration.ofSeconds(30);
    private static final Duration SHORT = Duration.ofMillis(300);
    private static final int BYTES = 24;

    private final Pair pair =
            new Pair(QueuePairLimits.depths(8, 8).withBuffers(2, 1).withInlineBytes(64)).connect();
    private final Pair.Side sender = pair.left;
    private final Pair.Side peer = pair.right;
    private MemoryRegion target; // that the window is bound to
    private MemoryRegion inbox;
    private MemoryWindow window;
    private int token;

    @BeforeEach
    void bind() {
        assumeTrue(
                peer.adapter.info().invalidatableWindows()
                        && sender.adapter.info().sendsWithInvalidate(),
                "SKIPPED: the device has no memory windows of type 2");
        target = peer.filled(64, 1);
        inbox = peer.filled(64, 2);
        window = peer.domain.createMemoryWindow();
        peer.queuePair.bind(1, window, target, 0, 64, RW).orThrow();
        assertThat(peer.ends(1)).containsExactly("BIND 1 SUCCESS");
        token = window.remoteToken();
        // The token is good: what the next one finds dead has lived.
        MemoryRegion source = sender.filled(8, 3);
        write(2, source).orThrow();
        assertThat(sender.ends(1)).containsExactly("WRITE 2 SUCCESS");
        assertThat(target.memory().asSlice(0, 8).mismatch(source.memory())).isEqualTo(-1);
    }

    @AfterEach
    void close() {
        if (window != null) {
            window.close();
        }
        pair.close();
    }

    private Status write(long context, MemoryRegion source) {
        return sender.queuePair
                .write(context, Pair.whole(source), target.memory().address(), token, OpFlags.NONE)
                .status();
    }

    /** Takes the next completion at the peer: it names the token. */
    private void expectInvalidation(long context, byte[] bytes) {
        Completions received = peer.completion();
        assertThat(received.status(0)).isEqualTo(Status.SUCCESS);
        assertThat(received.type(0)).isEqualTo(OperationType.RECEIVE_AND_INVALIDATE);
        assertThat(received.context(0)).isEqualTo(context);
        assertThat(received.bytes(0)).isEqualTo(bytes.length);
        assertThat(received.invalidatedToken(0)).isEqualTo(token);
        assertThat(inbox.memory().asSlice(0, bytes.length).toArray(ValueLayout.JAVA_BYTE))
                .isEqualTo(bytes);
        assertThat(window.bound()).isFalse();
        assertThat(peer.queuePair.invalidate(9, window, OpFlags.NONE).status())
                .isEqualTo(Status.INVALID_DEVICE_REQUEST);
    }

    /** Ends the connection: a write through the window that changes nothing. */
    private void expectDeadToken() {
        byte[] before = target.memory().toArray(ValueLayout.JAVA_BYTE);
        write(8, sender.filled(8, 77)).orThrow();
        assertThat(sender.ends(1)).containsExactly("WRITE 8 ACCESS_VIOLATION");
        assertThat(target.memory().toArray(ValueLayout.JAVA_BYTE)).isEqualTo(before);
    }

    @ParameterizedTest
    @CsvSource({
        "false, false, false",
        "false, false, true",
        "false, true, false",
        "false, true, true",
        "true, false, false",
        "true, false, true",
        "true, true, false",
        "true, true, true"
    })
    void bytesAndTokenArriveAndTheArmIsWokenIfItSolicits(
            boolean inline, boolean deferred, boolean solicits) {
        peer.queuePair.receive(4, Pair.whole(inbox)).orThrow();
        peer.queuePair.receive(5, new BufferList(1)).orThrow();
        assertThat(peer.completionQueue.arm(NotifyType.SOLICITED)).isFalse();

        MemorySegment bytes = sender.filled(BYTES, 5).memory();
        byte[] expected = bytes.toArray(ValueLayout.JAVA_BYTE);
        BufferList list = new BufferList(3);
        if (inline) { // more of them than the queue pair was made for, and without a token
            bytes = sender.arena.allocate(BYTES);
            fill(bytes, 5);
            for (int i = 0; i < 3; i++) {
                list.addUnregistered(bytes.asSlice(8L * i, 8));
            }
        } else {
            MemoryRegion source = sender.register(bytes);
            list.add(source, 0, 16).add(source, 16, 8);
        }
        OpFlags flags =
                (inline ? OpFlags.INLINE : OpFlags.NONE)
                        .and(deferred ? OpFlags.DEFER : OpFlags.NONE)
                        .and(solicits ? OpFlags.SEND_AND_SOLICIT_EVENT : OpFlags.NONE);
        sender.queuePair.sendAndInvalidate(6, list, token, flags).orThrow();
        // The call has returned: the list is the caller's again, and inline bytes are, too.
        list.clear();
        if (inline) {
            bytes.fill((byte) 0x7F);
        }
        if (deferred) {
            sender.queuePair.send(7, new BufferList(1)).orThrow();
            assertThat(sender.ends(2)).containsExactly("SEND 6 SUCCESS", "SEND 7 SUCCESS");
        } else {
            assertThat(sender.ends(1)).containsExactly("SEND 6 SUCCESS");
        }
        assertThat(peer.completionQueue.await(solicits ? LONG : SHORT))
                .isEqualTo(solicits ? Status.SUCCESS : Status.IO_TIMEOUT);
        expectInvalidation(4, expected);
        if (deferred) {
            assertThat(peer.ends(1)).containsExactly("RECEIVE 5 SUCCESS");
        }
        expectDeadToken();
    }
}
