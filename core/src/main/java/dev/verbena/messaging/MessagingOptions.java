package dev.verbena.messaging;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.Adapter;
import dev.verbena.AdapterInfo;
import dev.verbena.ConnectionOptions;
import dev.verbena.Status;
import dev.verbena.internal.util.Arguments;
import dev.verbena.internal.util.OptionValues;
import dev.verbena.internal.util.Text;

import java.time.Duration;
import java.util.List;

/**
 * How a {@link MessageChannel} is made. Start from {@link #DEFAULTS} and change what differs:
 * {@code DEFAULTS.withMaxMessage(65_536).withReceives(32)}.
 *
 * <p>A channel has no registered memory of its own. All channels of a {@link Poller} share its
 * buffers for frames that are being sent; those with the same {@linkplain #withEagerLimit eager
 * limit} share its receives: 64 at first, or 1 MiB of them, and up to 2,048 or 64 MiB when more
 * messages come than are polled; the lower of each two, but never fewer than one channel needs.
 * Memory for a message above that limit is taken when it comes. The two sides need not agree: the
 * handshake says what each has.
 *
 * <p>Immutable.
 */
@CheckReturnValue
public final class MessagingOptions extends OptionValues<MessagingOptions> {
    /**
     * Messages of up to 4,064 bytes (4 KiB with what a frame adds), 16 outstanding, 16 receives, 16
     * exposures and 64 of the peer, 10 s for a message, an idle peer looked at every 5 s; up to 16
     * MiB for messages above the eager limit, if there are any.
     */
    public static final MessagingOptions DEFAULTS = new MessagingOptions();

    private static final int MOST_OFFERS = 8;
    private static final int MOST = 0x7fff; // receives have 16 bits in the handshake

    int maxMessage = 4064;
    int eagerLimit = 4064;
    long largeMemory = 16 << 20;
    int outstanding = 16;
    int receives = 16;
    int exposures = 16;
    int peerExposures = 64;
    Duration timeout = Duration.ofSeconds(10);
    Duration keepAlive = Duration.ofSeconds(5);
    ConnectionOptions connection = ConnectionOptions.DEFAULTS;
    boolean tracking;

    private MessagingOptions() {
        super(
                o ->
                        List.of(
                                o.maxMessage,
                                o.eagerLimit,
                                o.largeMemory,
                                o.outstanding,
                                o.receives,
                                o.exposures,
                                o.peerExposures,
                                o.timeout,
                                o.keepAlive,
                                o.connection,
                                o.tracking));
    }

    /**
     * Changes the longest message, of either direction. Messages above the {@linkplain
     * #withEagerLimit eager limit} take no memory before they come.
     *
     * @param bytes 1 to 1 GiB
     * @return a changed copy of these options
     */
    public MessagingOptions withMaxMessage(int bytes) {
        check(bytes, 1 << 30, "The longest message has %d to %,d bytes, not %,d");
        return with(changed -> changed.maxMessage = bytes);
    }

    /**
     * Changes which messages are sent at once, into the receives that this side has posted, which
     * have just this size. For a longer one the sender asks first: the receiver offers memory for
     * it, and the sender writes it there. That costs another message in either direction, about a
     * microsecond of processor time, and no memory for messages that do not come. Raise the limit
     * for a service with many messages of 8 to 64 KiB. The lower limit of both sides holds.
     *
     * <p>A device without memory windows receives all messages at once ({@link
     * AdapterInfo#invalidatableWindows}).
     *
     * @param bytes 1 to 1 GiB; also at most 32 less than the device sends at once ({@link
     *     AdapterInfo#maxTransferBytes}; Soft-RoCE: 8 MiB), or clients and servers refuse these
     *     options
     * @return a changed copy of these options
     */
    public MessagingOptions withEagerLimit(int bytes) {
        check(bytes, 1 << 30, "The eager limit is %d to %,d bytes, not %,d");
        return with(changed -> changed.eagerLimit = bytes);
    }

    /**
     * Changes how much memory the messages above the eager limit may take on this side of a
     * channel: as much for those that come, from when they are announced until they are released,
     * and as much again for copies of those that are sent. What does not fit waits. Messages are in
     * blocks of at least 5 KiB, which are up to a quarter longer than the message, and the limit
     * counts the blocks. It is never less than the block of the longest message. All channels of a
     * poller together take at most 64 times the largest of these limits for what comes, and the
     * last quarter only for channels that have no such message; channels whose messages were
     * {@linkplain Message#detach copied to the heap} have the first half. Blocks that are free are
     * kept for some seconds, but only while all blocks of the poller take no more than its channels
     * may.
     *
     * @param bytes 0 or more
     * @return a changed copy of these options
     */
    public MessagingOptions withLargeMemory(long bytes) {
        if (bytes < 0) {
            throw new IllegalArgumentException(
                    "Large messages take 0 or more bytes, not %,d".formatted(bytes));
        }
        return with(changed -> changed.largeMemory = bytes);
    }

    /**
     * Changes how many messages, writes and reads may be outstanding.
     *
     * @param messages 1 to 32,767; together with {@link #withExposures} less than half of the
     *     device's {@link AdapterInfo#maxInitiatorDepth}, or clients and servers refuse these
     *     options
     * @return a changed copy of these options
     */
    public MessagingOptions withOutstanding(int messages) {
        check(messages, MOST, "%d to %,d messages may be outstanding, not %,d");
        return with(changed -> changed.outstanding = messages);
    }

    /**
     * Changes how many messages the peer may send that were not released here. So one channel never
     * keeps more of the poller's receives than this: a peer that sends more loses its channel.
     * Where all channels of a poller may keep more receives than it can have (2,048, or 64 MiB of
     * them), and messages that were not released take three quarters of these, further ones are
     * copied when they come.
     *
     * @param messages 1 to 32,767; also at most 5 less than the device's {@link
     *     AdapterInfo#maxSharedReceiveDepth} (or {@link AdapterInfo#maxReceiveDepth}, on a device
     *     that cannot share receives), or clients and servers refuse these options
     * @return a changed copy of these options
     */
    public MessagingOptions withReceives(int messages) {
        check(messages, MOST, "A channel has %d to %,d receives, not %,d");
        return with(changed -> changed.receives = messages);
    }

    /**
     * Changes how many parts of its memory this side may expose to the peer at a time ({@link
     * OwnMemory#expose}). Each takes a memory window, which is created when it is first needed, and
     * kept until the channel ends.
     *
     * @param parts 0 to 32,767
     * @return a changed copy of these options
     */
    public MessagingOptions withExposures(int parts) {
        if (parts < 0 || parts > MOST) {
            throw new IllegalArgumentException(
                    "A channel has 0 to %,d exposures, not %,d".formatted(MOST, parts));
        }
        return with(changed -> changed.exposures = parts);
    }

    /**
     * Changes how many parts of its memory the peer may expose to this side at a time. The peer is
     * held to the lower of this and its own {@link #withExposures}: what it claims costs this side
     * no more memory than this allows, 40 bytes each.
     *
     * @param parts 0 to 32,767
     * @return a changed copy of these options
     */
    public MessagingOptions withPeerExposures(int parts) {
        if (parts < 0 || parts > MOST) {
            throw new IllegalArgumentException(
                    "A channel uses 0 to %,d exposures of its peer, not %,d"
                            .formatted(MOST, parts));
        }
        return with(changed -> changed.peerExposures = parts);
    }

    /**
     * Changes the deadline of each message, write and read, from its post: one that has not ended
     * then closes the channel with IO_TIMEOUT, as reliable connections cannot take a single message
     * back. Looked at every 100 ms: it may come 0.3 s late. The deadline of a message above the
     * eager limit begins when the peer has offered memory for it; a peer that does not write to
     * that memory loses its channel after twice this time, and 1 s for each MiB.
     *
     * @param within longer than zero
     * @return a changed copy of these options
     */
    public MessagingOptions withTimeout(Duration within) {
        Arguments.checkPositive(within, "The timeout of messages");
        return with(changed -> changed.timeout = within);
    }

    /**
     * Changes the interval of keep-alives: if nothing has come for so long, this side asks the peer
     * whether it is there; down to half of that, so that the channels of a poller do not all ask at
     * the same time. One that is gone, or whose process or poller does nothing any more, is noticed
     * within that time and the {@linkplain #withTimeout timeout}, or 0.3 s later (1.3 s on a poller
     * of {@link Poller#onThisThread}): the channel ends with IO_TIMEOUT. So a peer whose poller is
     * not polled for so long, as in a debugger, loses its channels.
     *
     * @param every longer than zero
     * @return a changed copy of these options
     */
    public MessagingOptions withKeepAlive(Duration every) {
        Arguments.checkPositive(every, "The interval of keep-alives");
        return with(changed -> changed.keepAlive = every);
    }

    /**
     * Changes how the connection is made: deadline, local address, traffic class and the like. Its
     * private data is the channel's own.
     *
     * @param options of the connection
     * @return a changed copy of these options
     */
    public MessagingOptions withConnection(ConnectionOptions options) {
        Arguments.notNull(options, "options");
        return with(changed -> changed.connection = options);
    }

    /**
     * Detects uses of a message after its release, for tests: the memory of each message then has a
     * scope of its own, so a segment that was kept throws as soon as the message is released. A
     * message then allocates some hundred bytes and takes some microseconds.
     *
     * <p>{@link Message#data} and {@link Message#buffer} of a released message throw in any case.
     *
     * @param on whether to track
     * @return a changed copy of these options
     */
    public MessagingOptions withTracking(boolean on) {
        return with(changed -> changed.tracking = on);
    }

    /**
     * How many messages the peer may send that were not released here.
     *
     * @return 1 or more
     */
    public int receives() {
        return receives;
    }

    /**
     * Which messages are sent at once.
     *
     * @return bytes
     */
    public int eagerLimit() {
        return eagerLimit;
    }

    /**
     * How the connection is made.
     *
     * @return what {@link #withConnection} has set
     */
    public ConnectionOptions connection() {
        return connection;
    }

    /**
     * The deadline of each message.
     *
     * @return longer than zero
     */
    public Duration timeout() {
        return timeout;
    }

    /** How many receives a channel posts. */
    int receiveDepth() {
        return receives + Credits.RESERVE;
    }

    /** How many requests a channel has outstanding at most. */
    int sendDepth() {
        return 2 * outstanding // a write and a message each
                + Credits.RESERVE
                + Exposures.requests(exposures, offers());
    }

    /**
     * How much a channel's send queue takes of a completion queue. That is twice as deep natively
     * as it says, for internal signals of silent requests. So the half of all requests is enough
     * for the case that all of them fail, and all that are not silent must fit.
     */
    int completions() {
        return Math.max(Outbox.requestCount(this), Math.ceilDiv(sendDepth(), 2));
    }

    /** How many offers of memory for large messages a channel makes at a time. */
    int offers() {
        return maxMessage <= eagerLimit ? 0 : Math.min(receives, MOST_OFFERS);
    }

    /** Whether messages above the eager limit are written to memory that is offered for them. */
    boolean offersMemory(Adapter adapter) {
        AdapterInfo info = adapter.info();
        return offers() > 0 && info.invalidatableWindows() && info.sendsWithInvalidate();
    }

    /** The longest message that fits a receive. */
    int eagerLimit(Adapter adapter) {
        return offersMemory(adapter) ? eagerLimit : maxMessage;
    }

    /** How a channel connects or accepts: with what its peer has to know. */
    ConnectionOptions connection(Adapter adapter) {
        return connection.withPrivateData(handshake(adapter).toBytes());
    }

    /** What the peer of a channel has to know. */
    Handshake handshake(Adapter adapter) {
        return new Handshake(
                maxMessage,
                receives,
                exposures,
                peerExposures,
                eagerLimit(adapter),
                offersMemory(adapter));
    }

    /**
     * How much memory large messages take, of either direction.
     *
     * @return bytes, at least those of the block of the longest message
     */
    public long largeMemory() {
        return Math.max(largeMemory, LargeMemory.blockBytes(maxMessage));
    }

    /** Refuses what the device has no room for: its messages and queues have limits. */
    void checkFits(Adapter adapter) {
        AdapterInfo info = adapter.info();
        int shared = info.maxSharedReceiveDepth();
        int most = shared > 0 ? shared : info.maxReceiveDepth();
        if (receiveDepth() > most) {
            throw new MessagingException(
                    Status.INVALID_PARAMETER,
                    "%,d receives of a channel are too many for %s: its receive queues are at most %,d deep, and a channel needs %d receives more. Use MessagingOptions.withReceives(%d) or less"
                            .formatted(
                                    receives,
                                    adapter.name(),
                                    most,
                                    Credits.RESERVE,
                                    most - Credits.RESERVE));
        }
        if (sendDepth() > info.maxInitiatorDepth()) {
            throw new MessagingException(
                    Status.INVALID_PARAMETER,
                    "%s and %s of a channel are too many for %s: its send queues are at most %,d deep. Use MessagingOptions.withOutstanding and withExposures that add up to %,d or less"
                            .formatted(
                                    Text.count(outstanding, "outstanding request"),
                                    Text.count(exposures, "exposure"),
                                    adapter.name(),
                                    info.maxInitiatorDepth(),
                                    (info.maxInitiatorDepth() - Credits.RESERVE - offers()) / 2));
        }
        long longest = info.maxTransferBytes();
        if ((long) eagerLimit(adapter) + Frame.MOST_EXTRA_BYTES > longest) {
            throw new MessagingException(
                    Status.INVALID_PARAMETER,
                    "Messages of up to %,d bytes are too long for %s: it sends at most %,d bytes at once, and a channel adds up to %d to a message. Use MessagingOptions.%s(%d) or less"
                            .formatted(
                                    eagerLimit(adapter),
                                    adapter.name(),
                                    longest,
                                    Frame.MOST_EXTRA_BYTES,
                                    offersMemory(adapter) ? "withEagerLimit" : "withMaxMessage",
                                    Math.max(1, longest - Frame.MOST_EXTRA_BYTES)));
        }
    }

    private static void check(int value, int most, String sentence) {
        if (value < 1 || value > most) {
            throw new IllegalArgumentException(sentence.formatted(1, most, value));
        }
    }

    @Override
    public String toString() {
        return "MessagingOptions(messages of up to %,d bytes, up to %,d at once, %d outstanding, %d receives, %d exposures, each within %s, keep-alive every %s)"
                .formatted(
                        maxMessage,
                        Math.min(eagerLimit, maxMessage),
                        outstanding,
                        receives,
                        exposures,
                        Text.time(timeout),
                        Text.time(keepAlive));
    }
}
