package dev.verbena.messaging;

import static dev.verbena.messaging.OneThread.LONG;
import static dev.verbena.messaging.OneThread.WRITE;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.management.ThreadMXBean;

import dev.verbena.BufferList;
import dev.verbena.OpFlags;
import dev.verbena.Status;
import dev.verbena.internal.util.IntMap;

import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.Random;

/** A peer that speaks the protocol of channels, but not in good faith, harms its channel alone. */
@Timeout(60)
class HostilePeerTest {
    private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();

    /** B sends a credit frame with these notes, of its own making. */
    private static void sendNotes(OneThread two, byte kind, int... tokens) {
        two.writeFrame(Frame.CREDIT, 0, tokens.length);
        for (int i = 0; i < tokens.length; i++) {
            Frame.writeNote(two.other.memory(), Frame.HEADER_BYTES, i, kind, tokens[i]);
        }
        two.sendFrame(tokens.length * Frame.NOTE_BYTES);
    }

    /** B sends a frame without credit reports, of its own making. */
    private static void sendFrame(OneThread two, byte kind, int length) {
        two.writeFrame(kind, length, 0);
        two.sendFrame(kind == Frame.MESSAGE ? length : 0);
    }

    @Test
    void whoSendsAfterItsCloseLosesItsChannel() {
        try (OneThread two = OneThread.open()) {
            sendFrame(two, Frame.CLOSE, 0);
            assertThat(two.a.isOpen()).isTrue();
            sendFrame(two, Frame.MESSAGE, 3);
            assertThat(two.a.closeReason()).hasMessageContaining("after it had closed");
            assertThat(two.log).noneMatch(line -> line.contains("got"));
        }
    }

    @Test
    void whoOvertakesItsLargeMessageLosesItsChannel() {
        MessagingOptions options = OneThread.SMALL.withEagerLimit(100).withMaxMessage(1000);
        try (OneThread two = new OneThread(options, (channel, message) -> {})) {
            sendFrame(two, Frame.LARGE, 500);
            assertThat(two.a.isOpen()).isTrue();
            sendFrame(two, Frame.MESSAGE, 3);
            assertThat(two.a.closeReason()).hasMessageContaining("before a large one");
            assertThat(two.log).noneMatch(line -> line.contains("got"));
        }
    }

    /** This side's send is refused, and then it hears that the peer had closed it. */
    @Test
    void whoHasClosedTheChannelIsTheReasonWhateverWasRefusedThen() {
        try (OneThread two = OneThread.open()) {
            sendFrame(two, Frame.CLOSE, 0);
            two.a.reason.refused("a send", Status.CONNECTION_INVALID);
            two.run();
            assertThat(two.a.closed()).isCompletedWithValue(Status.CONNECTION_INVALID);
            assertThat(two.a.closeReason()).hasMessageContaining("the peer closed it");
        }
    }

    /** It asks for keys that it was never given, and grants no credit for an answer. */
    @ParameterizedTest
    @ValueSource(ints = {1, 2, 4, 6, 8, 9, 10, 11, 12, 13, 14, 16})
    void whoAsksBackWhatItWasNeverGivenLosesItsChannel(int frames) {
        try (OneThread two = OneThread.open()) {
            for (int i = 0; i < frames && two.a.isOpen(); i++) {
                sendNotes(two, Notes.ASKED_BACK, 1000 + 2 * i, 1001 + 2 * i);
            }
            assertThat(two.a.isOpen()).isEqualTo(frames < 8);
            for (int i = 0; i < 4 && two.a.isOpen(); i++) { // none of this may fail
                two.expose(WRITE, Duration.ofMillis(1));
            }
            two.pass(Duration.ofSeconds(1)); // the exposures' time is over
            MessagingException why = two.a.closeReason();
            if (why != null) {
                assertThat(why).hasMessageContaining("memory that was not exposed").hasNoCause();
            }
        }
    }

    @Test
    void whoGivesBackWhatItWasNotAskedForLosesItsChannel() {
        try (OneThread two = OneThread.open()) {
            two.announce(two.expose(WRITE, LONG));
            sendNotes(two, Notes.GIVEN_BACK, 4711);
            assertThat(two.a.closeReason()).hasMessageContaining("not exposed");
        }
    }

    /** As many as this side allows, whatever the private data said. */
    @Test
    void whoExposesMoreThanAgreedLosesItsChannel() {
        try (OneThread two =
                new OneThread(OneThread.SMALL.withPeerExposures(3), (channel, message) -> {})) {
            sendNotes(two, Notes.EXPOSED, 1, 2);
            sendNotes(two, Notes.EXPOSED, 3);
            assertThat(two.a.isOpen()).isTrue();
            sendNotes(two, Notes.EXPOSED, 4);
            assertThat(two.a.closeReason()).hasMessageContaining("exposed more memory");
        }
    }

    /** A peer that allows fewer exposures than this side has gets no more than it allows. */
    @Test
    void theLowerOfBothLimitsHolds() {
        try (OneThread two =
                new OneThread(OneThread.SMALL.withPeerExposures(1), (channel, message) -> {})) {
            assertThat(two.expose(WRITE, LONG)).isNotNull();
            assertThat(two.tryExpose(1, WRITE, (e, s, m) -> {}, null)).isNull();
        }
    }

    /** A message without bytes, of which the channel that sends it does not know. */
    private static void sendAndInvalidate(OneThread two, MessageChannel by, int token) {
        two.other.memory().fill((byte) 0);
        Frame.write(two.other.memory(), 0, Frame.MESSAGE, new Credits(1), 0, 0);
        BufferList frame = new BufferList(1).add(two.other, 0, Frame.HEADER_BYTES);
        by.pair.sendAndInvalidate(0, frame, token, OpFlags.SILENT_SUCCESS).orThrow();
    }

    /** The local invalidate is outstanding, so the device honours the token still. */
    @Test
    void whoInvalidatesAKeyThatItHasGivenBackLosesItsChannel() {
        try (OneThread two = OneThread.open()) {
            Exposure exposure = two.expose(WRITE, LONG);
            two.announce(exposure);
            int ofA = two.a.pair.address().queuePairNumber();
            int ofB = two.b.pair.address().queuePairNumber();
            two.device.running = false;
            exposure.revoke();
            two.device.runOne(ofA);
            int ignored = two.pollerOfB.poll();
            two.device.runOne(ofB);
            ignored = two.poller.poll();
            assertThat(exposure.state).isEqualTo(Exposure.State.INVALIDATING);
            sendAndInvalidate(two, two.b, exposure.token);
            two.device.runOne(ofB);
            ignored = two.poller.poll();
            assertThat(two.a.closeReason()).hasMessageContaining("invalidated the token");
            two.device.running = true;
            two.run();
        }
    }

    /** Soft-RoCE does not look at which connection a key belongs to. */
    @Test
    void whoInvalidatesAForeignKeyLosesItsOwnChannelAlone() {
        try (OneThread two = OneThread.open();
                MessageChannel victim = new MessageChannel(two.poller, OneThread.SMALL, null);
                MessageChannel attacker =
                        new MessageChannel(two.pollerOfB, OneThread.SMALL, null)) {
            two.device.anyoneInvalidates = true;
            ChannelsByHand.connect(victim, attacker);
            Exposure exposure = two.expose(WRITE, LONG);
            two.announce(exposure);
            sendAndInvalidate(two, attacker, exposure.token);
            two.run();
            assertThat(victim.closeReason()).hasMessageContaining("invalidated the token");
            exposure.revoke();
            two.run();
            assertThat(two.a.closeReason()).isNull();
            assertThat(two.log).contains("CANCELLED");
            assertThat(two.expose(WRITE, LONG)).as("another one").isNotNull();
        }
    }

    @Test
    void whatAPeerClaimsCostsNoMemory() {
        try (OneThread two = OneThread.open();
                MessageChannel channel = new MessageChannel(two.poller, OneThread.SMALL, null)) {
            Handshake modest = new Handshake(1000, 4, 0, 0, 1000, false);
            Handshake claims =
                    new Handshake(
                            Integer.MAX_VALUE, 65_535, 65_535, 65_535, Integer.MAX_VALUE, true);
            try (MessageChannel other = new MessageChannel(two.poller, OneThread.SMALL, null)) {
                other.agree(modest); // loads what there is to load
                other.established();
            }
            long before = THREADS.getCurrentThreadAllocatedBytes();
            channel.agree(claims);
            channel.established();
            long allocated = THREADS.getCurrentThreadAllocatedBytes() - before;
            assertThat(allocated).isLessThan(8_000);
        }
    }

    /** Tokens that met in one place of the map before: a frame that names them takes no longer. */
    @RepeatedTest(5)
    void noChoiceOfTokensMakesTheMapSlow() {
        int inverse =
                inverse(0x9E37_79B9); // of the golden ratio, by which maps used to spread them
        Random random = new Random(1);
        int[] tokens =
                random.ints(1024, 0, 1 << 16).map(low -> (0x1234_0000 | low) * inverse).toArray();
        IntMap<String> map = new IntMap<>(1024);
        long longest = 0;
        for (int token : tokens) {
            map.put(token, "x");
            longest = Math.max(longest, map.distance(token));
        }
        assertThat(longest).isLessThan(200); // of 4,096 places; all met in one before
    }

    private static int inverse(int odd) {
        int inverse = odd;
        for (int i = 0; i < 5; i++) {
            inverse *= 2 - odd * inverse;
        }
        return inverse;
    }
}
