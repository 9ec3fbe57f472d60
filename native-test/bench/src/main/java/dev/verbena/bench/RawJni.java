package dev.verbena.bench;

/** By JNI: {@code c/bare_jni.c} calls the functions. */
final class RawJni extends RawCalls {
    /**
     * Loads it.
     *
     * @param library the path of libbare_jni.so
     */
    @SuppressWarnings("restricted")
    RawJni(String library) {
        System.load(library);
    }

    @Override
    int postSend(long queuePair, long request, long refused) {
        return post(queuePair, request, refused);
    }

    @Override
    int pollCq(long queue, int most, long completions) {
        return poll(queue, most, completions);
    }

    private static native int post(long queuePair, long request, long refused);

    private static native int poll(long queue, int most, long completions);
}
