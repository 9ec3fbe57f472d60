package dev.verbena.nativetest;

/** How rping of rdma-core ends. */
public final class Rping {
    private static final String CLOSED_CHANNEL = "rdma_get_cm_event: Bad file descriptor";

    private Rping() {}

    /**
     * With 0; or, before rdma-core 61, sometimes with 255 although all its work is done: its main
     * thread closes the event channel, and its other thread asks that for one event more. Whether
     * the work was done only its other lines, or its peer's, can say.
     */
    public static boolean endedWell(int exitCode, String errors) {
        return exitCode == 0 || exitCode == 255 && errors.contains(CLOSED_CHANNEL);
    }
}
