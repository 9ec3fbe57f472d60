package dev.verbena.internal.connect;

/**
 * How many bytes the connection manager's messages carry for the program, this library's {@link
 * Announcement} included: the private data fields of InfiniBand's REQ (92 bytes, less 36 that
 * librdmacm needs for the IP addresses), REP and REJ. iWARP's carry more; what fits here fits
 * there.
 */
public final class PrivateData {
    /** With a request. */
    public static final int REQUEST_BYTES = 56;

    /** With the answer that accepts it. */
    public static final int REPLY_BYTES = 196;

    /** With a refusal. */
    public static final int REJECT_BYTES = 148;

    private PrivateData() {}
}
