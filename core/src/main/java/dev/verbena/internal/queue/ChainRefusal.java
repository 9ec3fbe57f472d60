package dev.verbena.internal.queue;

import dev.verbena.PostResult;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.SendChain;
import dev.verbena.internal.verbs.WorkCompletions;

/**
 * What becomes of a chain that the provider did not accept as a whole. Those whose callers still
 * wait for the answer are taken back, and refused; those whose posts have returned get synthesized
 * completions, and the queue pair goes to the error state.
 *
 * <p>Under the send queue's lock.
 */
final class ChainRefusal {
    // Which requests of a chain have callers that wait for the answer, and may be refused without a
    // completion.
    static final int NONE_ASKS = 0;
    static final int LAST_ASKS = 1;
    static final int ALL_ASK = 2; // a batch

    private static final int TRIES = 8; // while other queue pairs' completions come in between

    private ChainRefusal() {}

    /**
     * Posts the rest again where that may help, otherwise settles what becomes of each request.
     *
     * @param queue whose chain it is; its requests are in the ledger
     * @param asking whose post has not returned yet
     */
    static PostResult settle(SendQueue queue, SendChain chain, int answer, int asking) {
        int posted = 0; // so many the provider has taken
        int errno = chain.refused(posted, answer);
        // A queue that was full for the provider may have a free slot once completions are polled.
        for (int tries = 0;
                tries < TRIES
                        && errno == Errno.ENOMEM
                        && chain.refusedAt() != SendChain.UNKNOWN
                        && queue.poller.drain();
                tries++) {
            posted = chain.refusedAt();
            errno = queue.post(chain, posted);
        }
        return errno == 0 ? PostResult.ACCEPTED : refused(queue, chain, errno, posted, asking);
    }

    /**
     * The provider refused a request of the chain, and with it all behind it.
     *
     * @param posted how many of the chain it had taken before
     * @return what the post returns whose caller waits
     */
    private static PostResult refused(
            SendQueue queue, SendChain chain, int errno, int posted, int asking) {
        RequestLedger ledger = queue.ledger;
        int at = chain.refusedAt();
        int last = ledger.last();
        int first = last - chain.length() + 1;
        if (asking == ALL_ASK ? at == 0 : asking == LAST_ASKS && at == chain.length() - 1) {
            for (int sequence = last; sequence - (first + at) >= 0; sequence--) {
                ledger.takeBack();
            }
            return PostResult.ofErrno(errno); // nothing else has happened
        }
        boolean lastIsAsking = asking == LAST_ASKS;
        // Some of a batch may be posted.
        PostResult answer = asking == ALL_ASK ? PostResult.ACCEPTED : PostResult.ofErrno(errno);
        if (at == SendChain.UNKNOWN) {
            if (queue.poller.refuse(ledger, first + posted, last, lastIsAsking)) {
                return PostResult.ACCEPTED; // whatever the provider meant: all have completed
            }
            queue.end();
        } else {
            queue.end();
            int lastSynthesized = last;
            if (lastIsAsking) {
                ledger.takeBack();
                lastSynthesized--;
                answer = PostResult.NOT_CONNECTED;
            }
            queue.poller.synthesize(
                    ledger, first + at, lastSynthesized, WorkCompletions.GENERAL_ERROR);
        }
        queue.fail();
        return answer;
    }
}
