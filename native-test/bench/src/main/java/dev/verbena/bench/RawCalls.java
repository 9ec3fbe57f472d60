package dev.verbena.bench;

/**
 * The two functions of verbs' data path, called in one way or the other, with addresses. A process
 * loads one of the classes.
 */
abstract class RawCalls {
    /** {@code ibv_post_send}: 0, or an errno. */
    abstract int postSend(long queuePair, long request, long refused);

    /** {@code ibv_poll_cq}: how many completions there were. */
    abstract int pollCq(long queue, int most, long completions);
}
