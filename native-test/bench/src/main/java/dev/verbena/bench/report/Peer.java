package dev.verbena.bench.report;

import java.util.Arrays;
import java.util.Locale;

/** Who does in Java's place what C does, in the rows beside peers. */
enum Peer {
    /** c/post_poll.c and c/load.c with --tuned. */
    TUNED_C("tuned C"),
    /** RawLoop, by the FFM API. */
    RAW_FFM("raw FFM"),
    /** RawLoop, by c/bare_jni.c. */
    BARE_JNI("bare JNI"),
    /** Turns and Load, confined. */
    VERBENA("Verbena, confined"),
    /** Turns with a batch posted again, confined. */
    VERBENA_PREPARED("Verbena, a batch posted again"),
    /** Turns, queues that any thread may use. */
    VERBENA_SHARED("Verbena, shared"),
    /** MessageTurns, queue pairs. */
    VERBENA_BY_HAND("Verbena, queue pairs by hand"),
    /** MessageTurns, channels that copy the message into registered memory. */
    VERBENA_CHANNEL("Verbena, channel"),
    /** MessageTurns, channels that send from registered memory. */
    VERBENA_REGISTERED("Verbena, channel, registered memory"),
    /** MessageTurns, without this library. */
    NIO("Java NIO over TCP"),
    /** NettyTurns, over channels of Verbena. */
    NETTY_VERBENA("Netty over Verbena"),
    /** NettyTurns, over TCP; epoll is what the others are compared with. */
    NETTY_NIO("Netty NIO over TCP"),
    /** The same, by io_uring. */
    NETTY_IO_URING("Netty io_uring over TCP");

    /**
     * In the place of a peer's key: the value of C, or of Netty by epoll, which all of them are
     * compared with.
     */
    static final String NONE = "c";

    private final String words;

    Peer(String words) {
        this.words = words;
    }

    /** As it stands in names of files and lists of what was asked for: raw-ffm. */
    String key() {
        return name().toLowerCase(Locale.ROOT).replace('_', '-');
    }

    /** As it stands in the table and in plots. */
    String words() {
        return words;
    }

    static Peer of(String key) {
        return Arrays.stream(values())
                .filter(peer -> peer.key().equals(key))
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException("there is no peer " + key));
    }
}
