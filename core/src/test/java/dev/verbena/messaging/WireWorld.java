package dev.verbena.messaging;

import static dev.verbena.messaging.WireTarget.check;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.BufferList;
import dev.verbena.FakeAdapters;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.internal.verbs.FakeDevice;
import dev.verbena.internal.verbs.StateChange;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.Objects;

/**
 * A channel on a device that does not exist, whose peer does what an input says; and on the same
 * poller two channels that must go on. For each input there is a new channel.
 *
 * <p>An input is one byte about what the channel does first, then the peer's requests: a byte about
 * the kind, a length in two bytes (little-endian), and so many bytes. Four bytes TOKN, OFFR and
 * FORG in them are replaced by the key that the channel has exposed, the key that it offered last,
 * and one that another channel has exposed.
 *
 * <p>A quarter of the inputs is run twice, with other bytes in the receives beyond the peer's
 * frames: both must end alike, or the channel has read what the peer did not send.
 */
final class WireWorld implements AutoCloseable {
    // The first byte.
    static final int CALLS = 1; // its handler is a Calls, and it has called
    static final int EXPOSES = 2;
    static final int SENDS = 4; // as many messages as it may
    static final int SENDS_LARGE = 8;
    static final int EXPOSURE_ENDS = 16; // its deadline is over

    // Of a request, the lower 3 bits; the next 2 choose the key.
    static final int SEND = 0;
    static final int MESSAGE = 1; // the frame around it is right
    static final int INVALIDATE = 2;
    static final int IMMEDIATE = 3;
    static final int WRITE = 4;
    static final int WRITE_WITH_IMMEDIATE = 5;
    static final int ATOMIC = 6;
    static final int TIME_PASSES = 7;

    static final int WINDOW = 4; // messages that the peer has receives for
    private static final int MOST_BYTES = 4000; // of a request
    private static final int MOST_REQUESTS = 64;
    private static final int ATTACKER_RECEIVES = 16;
    private static final MessagingOptions OPTIONS =
            MessagingOptions.DEFAULTS
                    .withMaxMessage(2000)
                    .withEagerLimit(500)
                    .withOutstanding(8)
                    .withReceives(4)
                    .withExposures(4)
                    .withPeerExposures(4)
                    .withLargeMemory(4 << 12);
    private static final Handshake PEER = new Handshake(2000, WINDOW, 4, 4, 500, true);
    private static final int MOST_TICKS = 100;
    private static final int NO_TOKEN = 0x4E4E_4E4E;

    private final FakeDevice device = new FakeDevice();
    private final Adapter adapter;
    private long time;
    private final Poller poller;
    private final Poller pollerOfPeer;
    private final MemoryRegion exposed;
    private final MemoryRegion sent;
    private final MessageChannel good;
    private final MessageChannel itsPeer;
    private final Exposure goodExposure;
    private int pongs;

    WireWorld() {
        device.carriesBytes = true;
        device.sharedQueues = false; // the return of their receives takes real time
        device.peerIsHostile = true;
        adapter = FakeAdapters.open(device);
        poller = poller();
        pollerOfPeer = poller();
        exposed = poller.domain().allocate(1000, Access.LOCAL_WRITE);
        sent = pollerOfPeer.domain().allocate(MOST_BYTES, Access.LOCAL_WRITE);
        good = new MessageChannel(poller, OPTIONS, (channel, message) -> pongs++);
        itsPeer = new MessageChannel(pollerOfPeer, OPTIONS, WireWorld::echo);
        ChannelsByHand.connect(good, itsPeer);
        goodExposure = expose(good, Duration.ofDays(1), (exposure, status, message) -> {});
        settle();
        ping();
    }

    private static void echo(MessageChannel channel, Message message) {
        check(channel.trySend(message.data()).isSuccess(), "no room for an echo");
    }

    private Poller poller() {
        return new Poller(
                adapter,
                IdleStrategy.busySpin(),
                Thread.currentThread(),
                new PollerClock(() -> time += 1000));
    }

    private Exposure expose(MessageChannel by, Duration within, ExposureCallback callback) {
        return Objects.requireNonNull(
                by.ownMemory()
                        .tryExpose(
                                exposed,
                                0,
                                100,
                                OpFlags.ALLOW_REMOTE_WRITE,
                                within,
                                callback,
                                null));
    }

    private void settle() {
        for (int quiet = 0; quiet < 2; ) {
            quiet = poller.poll() + pollerOfPeer.poll() == 0 ? quiet + 1 : 0;
        }
    }

    void run(byte[] input) {
        int before = device.objects();
        String one = new Attack(input, (byte) 0).run();
        freed(before);
        if (Arrays.hashCode(input) % 4 == 0) {
            String other = new Attack(input, (byte) 0x5A).run();
            freed(before);
            check(one.equals(other), "reads what was not sent: " + one + "\nand: " + other);
        }
    }

    /** All that an input has taken was freed, and the good channels go on. */
    private void freed(int before) {
        for (int i = 0; i < MOST_TICKS && device.objects() != before; i++) {
            time += 100_000_000; // what a poller has more of than it uses is kept for some seconds
            settle();
        }
        check(device.objects() == before, device.objects() + " objects, " + before + " before");
        check(device.panics.isEmpty() && device.overruns == 0, "the device: " + device.panics);
        ping();
        device.sends.clear();
        device.receives.clear();
        device.chains.clear();
        device.changes.forEach(StateChange::close); // they have native memory
        device.changes.clear();
        device.registeredFor.clear();
        device.destroys.clear();
        device.arms.clear();
        device.sleeps.clear();
        device.woken.clear();
    }

    private void ping() {
        int had = pongs;
        check(good.trySend(MemorySegment.ofArray(new byte[400])).isSuccess(), "a good one is full");
        settle();
        check(pongs == had + 1, "a good channel does not go on: " + good.closeReason());
    }

    /** One input on one channel. */
    private final class Attack implements RawHandler {
        private final ByteBuffer input;
        private final byte behind; // the peer's frames, in the receives
        private final StringBuilder log = new StringBuilder();
        private final Deque<byte[]> expected = new ArrayDeque<>(); // messages of valid frames
        private final MessageChannel victim;
        private final RawConnection attacker;
        private final int first;
        private @Nullable Exposure exposure;
        private int offered = NO_TOKEN;
        private long offeredAt;

        // What the victim sent: as the attacker sees it.
        private int messages;
        private int controls;

        // What the attacker claims.
        private int claimed; // messages released
        private boolean mustEnd;

        Attack(byte[] input, byte behind) {
            this.input = ByteBuffer.wrap(input).order(ByteOrder.LITTLE_ENDIAN);
            this.behind = behind;
            this.first = this.input.hasRemaining() ? this.input.get() : 0;
            MessageHandler handler =
                    has(CALLS) ? Calls.answeredBy(this::called) : this::messageReceived;
            this.victim = new MessageChannel(poller, OPTIONS, handler);
            for (int slot = 0; slot < OPTIONS.receiveDepth(); slot++) {
                victim.receives.message(slot).buffer().fill(behind);
            }
            this.attacker =
                    RawConnection.create(
                            pollerOfPeer,
                            QueuePairLimits.depths(MOST_REQUESTS, ATTACKER_RECEIVES),
                            1000,
                            null,
                            this);
        }

        private boolean has(int bit) {
            return (first & bit) != 0;
        }

        private void called(Call call) {
            byte[] data = call.data().toArray(ValueLayout.JAVA_BYTE);
            byte[] request;
            do { // messages that are no requests are not reported
                request = expected.poll();
                check(request != null, "a call that was not sent");
            } while (request.length < 8
                    || !Arrays.equals(Arrays.copyOfRange(request, 8, request.length), data));
            log.append(data.length).append(' ');
            call.answer(call.data());
        }

        private void exposureEnded(Exposure ended, Status status, @Nullable Message message) {
            log.append(status.name()).append(' ');
            if (message != null && !has(CALLS)) {
                messageReceived(victim, message);
            }
        }

        private void messageReceived(MessageChannel channel, Message message) {
            if (message.frame() != null) { // large ones were written, or not
                byte[] data = message.data().toArray(ValueLayout.JAVA_BYTE);
                check(Arrays.equals(expected.poll(), data), "received what was not sent");
            }
            log.append(message.length()).append(' ');
        }

        /** What the victim sends. */
        @Override
        public void received(RawConnection connection, RawMessage message) {
            long word = Frame.first(message.buffer());
            switch (Frame.kind(word)) {
                case Frame.MESSAGE, Frame.LARGE -> messages++;
                case Frame.WRITTEN -> {}
                case Frame.OFFER -> {
                    controls++;
                    offered = Frame.offerToken(message.buffer());
                    offeredAt = Frame.offerAddress(message.buffer());
                }
                default -> controls++;
            }
            check(message.repost().isAccepted(), "a repost");
        }

        @Override
        public void ended(RawConnection connection, MessagingException reason) {}

        String run() {
            victim.agree(PEER);
            victim.established();
            victim.pair.connect(attacker.pair.address());
            attacker.pair.connect(victim.pair.address());
            begin();
            int requests = 0;
            while (input.remaining() >= 3 && victim.isOpen() && requests++ < MOST_REQUESTS) {
                int kind = input.get();
                byte[] bytes = new byte[Math.min(input.getShort() & 0xFFF, input.remaining())];
                input.get(bytes);
                request(kind, withTokens(bytes));
                settle();
                check(!mustEnd || !victim.isOpen(), "goes on after what is not valid: " + log);
            }
            end();
            return log.toString();
        }

        private void begin() {
            if (has(EXPOSES)) {
                Duration within = Duration.ofSeconds(has(EXPOSURE_ENDS) ? 1 : 1000);
                exposure = expose(victim, within, this::exposureEnded);
            }
            settle();
            if (has(CALLS)) {
                var _ =
                        Calls.call(
                                victim,
                                MemorySegment.ofArray(new byte[3]),
                                Duration.ofDays(1),
                                Message::length);
            }
            if (has(SENDS)) {
                sendAll();
            }
            if (has(SENDS_LARGE)) {
                var _ = victim.sendAsync(MemorySegment.ofArray(new byte[1500]));
            }
            settle();
            if (has(EXPOSURE_ENDS)) {
                pass();
            }
        }

        private void sendAll() {
            while (victim.trySend(MemorySegment.ofArray(new byte[5])).isSuccess()) {
                settle();
            }
        }

        private void pass() {
            for (int i = 0; i < 4; i++) {
                time += 500_000_000;
                settle();
            }
        }

        private byte[] withTokens(byte[] bytes) {
            ByteBuffer all = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
            for (int i = 0; i + 4 <= bytes.length; i++) {
                switch (all.getInt(i)) {
                    case 0x4E4B_4F54 -> all.putInt(i, token(0)); // TOKN
                    case 0x5246_464F -> all.putInt(i, token(1)); // OFFR
                    case 0x4752_4F46 -> all.putInt(i, token(2)); // FORG
                    default -> {}
                }
            }
            return bytes;
        }

        private int token(int which) {
            return switch (which & 3) {
                case 0 -> exposure == null ? NO_TOKEN : exposure.token;
                case 1 -> offered;
                case 2 -> goodExposure.token;
                default -> NO_TOKEN;
            };
        }

        private void request(int kind, byte[] bytes) {
            byte[] frame = (kind & 7) == MESSAGE ? message(bytes) : bytes;
            int token = token(kind >> 3);
            int length = Math.min(frame.length, MOST_BYTES);
            MemorySegment.copy(frame, 0, sent.memory(), ValueLayout.JAVA_BYTE, 0, length);
            BufferList list = new BufferList(1).add(sent, 0, length);
            OpFlags silent = OpFlags.SILENT_SUCCESS;
            boolean toOffer = (kind >> 3 & 3) == 1;
            long address = (toOffer ? offeredAt : exposed.memory().address()) + (kind >> 5);
            switch (kind & 7) {
                case SEND, MESSAGE -> {
                    foresee(frame, false);
                    attacker.send(list, silent, null, null).orThrow();
                }
                case INVALIDATE -> {
                    foresee(frame, true);
                    attacker.sendAndInvalidate(list, token, silent, null, null).orThrow();
                }
                case IMMEDIATE -> {
                    mustEnd = true;
                    attacker.pair.sendWithImmediate(0, list, 7, silent).orThrow();
                }
                case WRITE -> attacker.write(list, address, token, silent, null, null).orThrow();
                case WRITE_WITH_IMMEDIATE -> {
                    mustEnd = true;
                    attacker.pair.writeWithImmediate(0, list, address, token, 7, silent).orThrow();
                }
                case ATOMIC -> {
                    BufferList eight = new BufferList(1).add(sent, 0, 8);
                    attacker.pair.fetchAndAdd(0, eight, address & -8L, token, 1, silent).orThrow();
                }
                default -> pass();
            }
        }

        private byte[] message(byte[] bytes) {
            ByteBuffer frame =
                    ByteBuffer.allocate(16 + bytes.length).order(ByteOrder.LITTLE_ENDIAN);
            return frame.putInt(1 | 1 << 8)
                    .putInt(messages)
                    .putInt(bytes.length)
                    .putInt(controls)
                    .put(bytes)
                    .array();
        }

        /** What the package's description says of a frame. */
        private void foresee(byte[] bytes, boolean invalidates) {
            if (bytes.length < 16) {
                mustEnd = true;
                return;
            }
            ByteBuffer frame = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
            int kind = frame.get(0);
            int notes = Byte.toUnsignedInt(frame.get(2));
            int released = frame.getInt(4);
            int length = frame.getInt(8);
            boolean carries = kind == 1 || kind == 5;
            mustEnd |=
                    kind < 1
                            || kind > 7
                            || frame.get(1) != 1
                            || notes > 2
                            || bytes.length != 16L + (carries ? length : 0) + 8L * notes
                            || length < 0
                            || length > 2000
                            || (kind == 5 && (length != 16 || notes != 0))
                            || ((kind == 2 || kind == 3 || kind >= 6) && length != 0)
                            || (kind == 4 && length == 0)
                            || (invalidates && kind != 1 && kind != 6)
                            || (kind == 6 && !invalidates)
                            || released - messages > 0
                            || frame.getInt(12) - controls > 0;
            if (!mustEnd) {
                claimed = Math.max(claimed, released);
                if (kind == 1) {
                    expected.add(Arrays.copyOfRange(bytes, 16, 16 + length));
                }
            }
        }

        private void end() {
            MessagingException reason = victim.closeReason();
            if (reason == null && !has(CALLS)) {
                sendAll();
                check(messages <= WINDOW + claimed, messages + " messages, released " + claimed);
            }
            reason = victim.closeReason();
            log.append(reason == null ? "open" : without(reason));
            if (reason != null) {
                check(blames(reason.getMessage()), "not named as the peer's: " + reason);
                check(WireTarget.isPrintable(reason), "not printable: " + reason);
                Throwable cause = reason.getCause();
                check(cause == null || cause instanceof VerbenaException, "thrown: " + cause);
            }
            attacker.abort("the end");
            victim.abandon();
            settle();
            check(victim.isClosed() && attacker.isClosed(), "does not end");
        }

        private static boolean blames(String reason) {
            return reason.contains("the peer")
                    || reason.contains("more arrived than fits the receive");
        }

        /** Without names, numbers and keys, which no two runs share. */
        private static String without(MessagingException reason) {
            return reason.getMessage().replaceAll("0x[0-9a-f]+|[Qq]ueue ?[Pp]air [0-9]+", "");
        }
    }

    @Override
    public void close() {
        poller.close();
        pollerOfPeer.close();
        exposed.close();
        sent.close();
        adapter.close();
        check(device.objects() == 0, "native objects left");
        device.dispose();
    }
}
