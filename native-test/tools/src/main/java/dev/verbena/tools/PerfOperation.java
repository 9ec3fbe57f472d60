package dev.verbena.tools;

/** What perf has the devices do. */
enum PerfOperation {
    /** Messages into the peer's receives. */
    SEND("send", "Messages, each into a receive of the server's."),
    /** Writes into the peer's memory. */
    WRITE("write", "Writes into the server's memory; no server thread takes part."),
    /** Reads of the peer's memory. */
    READ("read", "Reads of the server's memory; no server thread takes part."),
    /** Messages that each invalidate a remote key that the peer has sent, as NDK's consumers do. */
    SEND_INV(
            "send-inv",
            "Messages that each invalidate a remote key (token) of the server, which binds a memory"
                    + " window for each of them."),
    /** Messages through channels, as services send them. */
    CHANNEL(
            "channel",
            "Messages through channels (package dev.verbena.messaging) instead of queue pairs: with"
                    + " credits, deadlines, a callback and a handler.");

    private final String word;
    private final String description;

    PerfOperation(String word, String description) {
        this.word = word;
        this.description = description;
    }

    /** For the command's help. */
    String description() {
        return description;
    }

    /** Whether the peer has receives for its messages. */
    boolean takesReceives() {
        return this == SEND || this == SEND_INV;
    }

    @Override
    public String toString() {
        return word;
    }
}
