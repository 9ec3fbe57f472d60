package dev.verbena.messaging;

/** Answers the calls of the peers of channels: see {@link Calls}. */
@FunctionalInterface
public interface CallHandler {
    /**
     * A call has arrived. Called by the thread of the {@link Poller}, one call at a time for each
     * channel, and must not block: it holds up all channels of the poller. To take longer, {@link
     * Call#retain} the call, and answer it later from another thread; on a poller of {@link
     * Poller#onThisThread}, by {@link Poller#execute}.
     *
     * @param call to be answered once: {@link Call#answer}, or {@link Call#fail}
     * @throws Exception is an answer, too: as {@link Call#fail} with its message. An Error, or an
     *     Exception after the answer, closes the channel
     */
    void called(Call call) throws Exception;
}
