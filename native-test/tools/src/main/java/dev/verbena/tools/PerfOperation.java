package dev.verbena.tools;

/** What perf has the devices do. */
enum PerfOperation {
    /** Messages into the peer's receives. */
    SEND("send", "Messages, each into a receive of the server's."),
    /** Writes into the peer's memory. */
    WRITE("write", "Writes into the server's memory, of which the server is not told."),
    /** Reads of the peer's memory. */
    READ("read", "Reads of the server's memory, of which the server is not told."),
    /** Messages that each kill a token which the peer has handed out, as NDK's consumers do. */
    SEND_INV(
            "send-inv",
            "Messages that each kill a token of the server's: there, a memory window is bound for"
                    + " each of them.");

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
