package dev.verbena.internal.queue;

import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.SendChain;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.function.IntSupplier;

/**
 * The initiator side of a queue pair between what NDK promises and what {@code ibv_post_send} does:
 * credit, signals that only this layer sees, deferral, and who is owed a completion when the
 * provider refuses what was accepted.
 *
 * <p>A post enters, asks {@link #admit}, builds its request with {@link #begin}, gives it to {@link
 * #submit}, and leaves. Whatever it refuses itself goes through {@link #postStaged}: what was
 * deferred before must reach the hardware all the same.
 */
public final class InitiatorQueue {
    private static final VarHandle CONNECTED;

    static {
        try {
            CONNECTED =
                    MethodHandles.lookup()
                            .findVarHandle(InitiatorQueue.class, "connected", boolean.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private static final int TRIES = 8; // while other queue pairs' completions come in between

    private final RequestFifo fifo;
    private final SendChain chain;
    private final CompletionPump pump;
    private final int interval;
    private final IntSupplier modifyToError;
    private final Gate gate = new Gate();

    // Under the gate; the state has a reader outside, see connected().
    private boolean connected;
    private boolean ended; // there is no way back to connected
    private boolean owed; // to be announced outside of the gate
    private int unsignaled; // silent requests since the last signal

    /**
     * Makes one.
     *
     * @param fifo its requests
     * @param chain where they are built
     * @param pump where their completions are told
     * @param interval how many silent ones may follow each other until one asks for a signal
     * @param modifyToError moves the queue pair to the error state, so that what it holds is
     *     flushed
     */
    public InitiatorQueue(
            RequestFifo fifo,
            SendChain chain,
            CompletionPump pump,
            int interval,
            IntSupplier modifyToError) {
        this.fifo = fifo;
        this.chain = chain;
        this.pump = pump;
        this.interval = interval;
        this.modifyToError = modifyToError;
    }

    /**
     * How many silent requests may follow each other until one asks for a signal. Hardware gives a
     * place back only when a completion at or behind it is polled, so a queue of silent requests
     * needs signals; half of the depth keeps one in reach, and more than 64 would gain nothing.
     *
     * @param depth of the queue
     * @return 1 to 64
     */
    public static int interval(int depth) {
        return Math.clamp(depth / 2, 1, 64);
    }

    /**
     * Goes in; one at a time.
     *
     * @return false when the queue pair is closed
     */
    public boolean enter() {
        return gate.enter();
    }

    /** Goes out. */
    public void leave() {
        if (owed) {
            owed = false;
            gate.leave();
            pump.announce();
        } else {
            gate.leave();
        }
    }

    /** Lets posts through, unless the end came first. */
    public void connect() {
        if (gate.enter()) {
            CONNECTED.setRelease(this, !ended);
            gate.leave();
        }
    }

    /**
     * Whether posts are let through.
     *
     * @return false before the connection, after a flush, and after a post that the provider
     *     refused too late
     */
    public boolean connected() {
        return (boolean) CONNECTED.getAcquire(this);
    }

    /**
     * Whether a request is let through, and there is room for it. For who is inside.
     *
     * @return {@link Refusal#NONE}, or why not
     */
    public int admit() {
        if (!connected) {
            return Refusal.NOT_CONNECTED;
        }
        if (fifo.full()) {
            pump.drain(); // silent requests may have ended without anybody having asked
            if (fifo.full()) {
                return Refusal.FULL;
            }
        }
        return Refusal.NONE;
    }

    /**
     * Starts a request; not while {@link #admit} refuses.
     *
     * @param opcode one of {@link SendChain}'s
     * @return where it is built
     */
    public SendChain begin(int opcode) {
        chain.begin(opcode);
        return chain;
    }

    /**
     * Ends a request and posts it with all that was deferred before, unless it is deferred itself.
     *
     * @param context the caller's context
     * @param type what it is
     * @param flags {@code IBV_SEND_…}, but for the signal
     * @param silent whether success is not to be told
     * @param defer whether it may wait for the next one
     * @return {@link Refusal#NONE}, or why it was not accepted: no completion follows then
     */
    public int submit(long context, RequestType type, int flags, boolean silent, boolean defer) {
        int before = unsignaled;
        boolean signaled = finish(flags, silent);
        fifo.add(context, type, silent, signaled);
        return defer && !chain.full() ? Refusal.NONE : postFinished(before);
    }

    /**
     * As the other, for a request that names a window: a bind, or an invalidate.
     *
     * @param window the window it names
     * @param context the caller's context
     * @param type BIND or INVALIDATE
     * @param flags {@code IBV_SEND_…}, but for the signal
     * @param silent whether success is not to be told
     * @param defer whether it may wait for the next one
     * @return {@link Refusal#NONE}, or why it was not accepted: no completion follows then
     */
    public int submit(
            Window window,
            long context,
            RequestType type,
            int flags,
            boolean silent,
            boolean defer) {
        int before = unsignaled;
        boolean signaled = finish(flags, silent);
        fifo.add(window, context, type, silent, signaled);
        if (type == RequestType.BIND) {
            fifo.endpoint().windows().bind(window, fifo.endpoint());
        } else {
            fifo.endpoint().windows().invalidate(window);
        }
        return defer && !chain.full() ? Refusal.NONE : postFinished(before);
    }

    private boolean finish(int flags, boolean silent) {
        boolean signaled = !silent || unsignaled + 1 >= interval;
        unsignaled = signaled ? 0 : unsignaled + 1;
        chain.finish(fifo.nextId(), signaled ? flags | SendChain.SIGNALED : flags);
        return signaled;
    }

    private int postFinished(int before) {
        int refusal = post(true);
        if (refusal != Refusal.NONE) {
            unsignaled = before;
        }
        return refusal;
    }

    /** Posts what was deferred; its callers were told that it was accepted. */
    public void postStaged() {
        if (!chain.isEmpty()) {
            post(false);
        }
    }

    /**
     * Refuses posts from now on, after what was deferred has been posted. What the queue pair holds
     * is flushed by who calls this.
     */
    public void disconnect() {
        postStaged();
        disconnected();
    }

    /**
     * Refuses posts from now on, and sees to it that {@link #drained} hears of the last request:
     * where it is silent and without a signal, a write of no bytes goes behind it, which touches
     * nothing at the peer and needs no token. (A peer that lets no writes in at all would refuse
     * it, and end the connection: it is ending.)
     */
    public void drain() {
        disconnect();
        if (unsignaled > 0 && fifo.underWay() > 0) {
            post(SendChain.WRITE);
        }
    }

    /**
     * Whether all requests have ended, by what the device has told until now.
     *
     * @return true when nothing is under way
     */
    public boolean drained() {
        pump.drain();
        return fifo.underWay() == 0;
    }

    /** Posts a request of this layer's own, of no bytes. */
    private void post(int opcode) {
        chain.begin(opcode);
        chain.buffers(0, 0);
        if (opcode == SendChain.WRITE) {
            chain.remote(0, 0);
        }
        chain.finish(WorkId.of(fifo.queue(), fifo.addHidden()), SendChain.SIGNALED);
        if (chain.post(0) != 0) {
            fifo.takeBack();
        }
        chain.clear();
    }

    /**
     * Lets nobody in any more, and ends what is under way: to the last request if the device plays
     * along, or after a moment by this layer's own word.
     *
     * @param nanoseconds how long a moment is
     */
    public void shut(long nanoseconds) {
        if (end()) {
            gate.shut();
            // Not in the gate: posts beside the close are not to wait.
            pump.finish(fifo, nanoseconds, CompletionPump.FLUSHED);
        }
    }

    /**
     * Refuses posts from now on, and ends what is under way as {@link #shut} does.
     *
     * @param nanoseconds how long to wait for the device
     * @param rest the status of what the device does not end
     */
    public void finish(long nanoseconds, int rest) {
        if (end()) {
            pump.finish(fifo, nanoseconds, rest);
        }
    }

    /** Has the device flush what is under way; false when the queue is shut. */
    private boolean end() {
        if (!gate.enter()) {
            return false;
        }
        try {
            disconnect();
            if (fifo.underWay() > 0) {
                var _ = modifyToError.getAsInt();
                // The last requests may be silent and without a signal. In the error state this one
                // is flushed behind them, and says that all before it have been heard of.
                post(SendChain.SEND);
            }
        } finally {
            leave();
        }
        return true;
    }

    /**
     * Posts the chain.
     *
     * @param lastIsAsking whether the last request's caller still waits for the answer, so that it
     *     may be refused without a completion
     */
    private int post(boolean lastIsAsking) {
        int posted = 0; // so many the provider has taken
        int errno = chain.post(posted);
        // A queue that was full for the provider may have room after a look at its completions.
        for (int tries = 0;
                tries < TRIES
                        && errno == Errno.ENOMEM
                        && chain.refusedAt() != SendChain.UNKNOWN
                        && pump.drain();
                tries++) {
            posted = chain.refusedAt();
            errno = chain.post(posted);
        }
        if (errno != 0) {
            errno = refused(errno, posted, chain.refusedAt(), lastIsAsking);
        }
        chain.clear();
        return errno;
    }

    /**
     * The provider refused a request of the chain, and with it all behind it.
     *
     * @param posted how many of the chain it had taken before
     * @param at which one it refused, or {@link SendChain#UNKNOWN}
     * @return what the last one's caller is told
     */
    private int refused(int errno, int posted, int at, boolean lastIsAsking) {
        int last = fifo.last();
        int first = last - chain.length() + 1;
        if (lastIsAsking && at == chain.length() - 1) {
            fifo.takeBack();
            return errno; // nothing else has happened
        }
        int told = errno;
        if (at == SendChain.UNKNOWN) {
            if (pump.refuse(fifo, first + posted, last, lastIsAsking)) {
                return Refusal.NONE; // whatever the provider meant: all have completed
            }
            disconnected();
        } else {
            disconnected();
            int lastOwed = last;
            if (lastIsAsking) {
                fifo.takeBack();
                lastOwed--;
                told = Refusal.NOT_CONNECTED;
            }
            pump.owe(fifo, first + at, lastOwed, CompletionPump.NOT_POSTED);
        }
        var _ = modifyToError.getAsInt();
        owed = true;
        return told;
    }

    /**
     * Requests that were accepted will not be done: their completions are owed, and nothing may
     * follow them.
     */
    private void disconnected() {
        CONNECTED.setRelease(this, false);
        ended = true;
    }
}
