package dev.verbena.examples.nvme;

import dev.verbena.BufferList;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.Status;
import dev.verbena.messaging.RawCallback;
import dev.verbena.messaging.RawMessage;

import java.lang.foreign.MemorySegment;
import java.util.function.Consumer;

/**
 * A command that came over RDMA. It is the target that moves the data, straight between the disk's
 * memory and the host's: an RDMA read fetches what the host wants to write, an RDMA write brings
 * what the host wants to read. The answer is a send that invalidates the host's key for that
 * memory: once the host has the answer, nobody can reach the memory any more, and the host has
 * nothing to do for that.
 *
 * <p>A queue makes its exchanges in advance and uses them again and again.
 */
final class RdmaExchange implements Exchange {
    /** Bytes for one answer: a cache line of its own. */
    private static final int RESPONSE_STRIDE = 64;

    static final int BYTES = PAGE_BYTES + RESPONSE_STRIDE;

    /**
     * For data to the host: posted together with the answer behind it, without a completion of its
     * own. Requests end in order, so the answer's completion says that the data has arrived.
     */
    private static final OpFlags BEFORE_ANSWER = OpFlags.DEFER.and(OpFlags.SILENT_SUCCESS);

    private static final RawCallback DATA_FETCHED =
            (channel, exchange, status) -> ((RdmaExchange) exchange).dataFetched(status);

    private final TargetQueue queue;
    private final MemoryRegion scratch;
    private final long pageOffset;
    private final MemorySegment page;
    private final MemorySegment response;
    private final BufferList answer;
    private final BufferList data = new BufferList(1);
    private final Command command = new Command();

    // Of the command that is being carried out.
    private RawMessage capsule; // until its receive is posted again
    private Consumer<Exchange> whenFetched;
    private boolean pageIsClear;
    private boolean answered;

    RdmaExchange(TargetQueue queue, MemoryRegion scratch, int number) {
        this.queue = queue;
        this.scratch = scratch;
        this.pageOffset = (long) number * BYTES;
        this.page = scratch.memory().asSlice(pageOffset, PAGE_BYTES);
        this.response = scratch.memory().asSlice(pageOffset + PAGE_BYTES, Response.BYTES);
        this.answer = new BufferList(1).add(scratch, pageOffset + PAGE_BYTES, Response.BYTES);
    }

    /** Takes a command. Its receive is posted again at once, unless it has the command's data. */
    void begin(RawMessage message) {
        command.copyFrom(message.buffer());
        capsule = message;
        whenFetched = null;
        pageIsClear = false;
        answered = false;
        if (command.data().kind() != DataPointer.Kind.IN_CAPSULE) {
            releaseCapsule();
        }
    }

    private void releaseCapsule() {
        RawMessage message = capsule;
        capsule = null;
        if (message != null) {
            Status ignored =
                    message.repost().status(); // refused only where the connection has ended
        }
    }

    TargetQueue queue() {
        return queue;
    }

    @Override
    public Command command() {
        return command;
    }

    @Override
    public MemorySegment page() {
        if (!pageIsClear) {
            pageIsClear = true;
            page.fill((byte) 0);
        }
        return page;
    }

    // ---- data from the host

    @Override
    public void fetchPage(int length, Consumer<Exchange> then) {
        int offered = command.data().length();
        if (offered >= length && length <= PAGE_BYTES) { // Linux offers a page for few bytes
            page(); // clears what the data does not fill
            fetch(scratch, pageOffset, length, then);
        } else {
            fail(NvmeStatus.DATA_LENGTH_INVALID);
        }
    }

    @Override
    public void fetchBlocks(Namespace to, long offset, long length, Consumer<Exchange> then) {
        if (length > queue.limits().transferBytes()) {
            fail(NvmeStatus.INVALID_FIELD);
        } else if (command.data().length() != length) {
            fail(NvmeStatus.DATA_LENGTH_INVALID);
        } else {
            fetch(to.region(), offset, (int) length, then);
        }
    }

    private void fetch(MemoryRegion to, long offset, int length, Consumer<Exchange> then) {
        DataPointer from = command.data();
        switch (from.kind()) {
            case KEYED, KEYED_INVALIDATE -> {
                whenFetched = then;
                Status status =
                        queue.channel()
                                .read(
                                        data.clear().add(to, offset, length),
                                        from.address(),
                                        from.key(),
                                        OpFlags.NONE,
                                        DATA_FETCHED,
                                        this)
                                .status();
                queue.check(status, "a read of the host's memory");
            }
            case IN_CAPSULE -> copyFromCapsule(to.memory(), offset, length, then);
            case NONE -> fail(NvmeStatus.DATA_LENGTH_INVALID);
            case UNKNOWN -> fail(NvmeStatus.SGL_TYPE_INVALID);
        }
    }

    private void copyFromCapsule(
            MemorySegment to, long offset, int length, Consumer<Exchange> then) {
        RawMessage message = capsule;
        long from = command.data().address();
        long most = message == null ? -1 : (long) message.length() - Command.BYTES - length;
        if (message == null || from < 0 || from > most) {
            fail(NvmeStatus.SGL_OFFSET_INVALID);
            return;
        }
        MemorySegment.copy(message.buffer(), Command.BYTES + from, to, offset, length);
        releaseCapsule();
        then.accept(this);
    }

    private void dataFetched(Status status) {
        Consumer<Exchange> then = whenFetched;
        whenFetched = null;
        if (status.isSuccess() && then != null) {
            try {
                then.accept(this);
            } catch (RuntimeException e) {
                queue.broke(this, e);
            }
        }
    }

    // ---- data to the host

    @Override
    public void sendPage(int length) {
        page(); // clears it, if nothing was written into it
        if (command.data().length() < length) {
            fail(NvmeStatus.DATA_LENGTH_INVALID);
        } else {
            send(scratch, pageOffset, length);
        }
    }

    @Override
    public void sendBlocks(Namespace from, long offset, long length) {
        if (length > queue.limits().transferBytes()) {
            fail(NvmeStatus.INVALID_FIELD);
        } else if (command.data().length() != length) {
            fail(NvmeStatus.DATA_LENGTH_INVALID);
        } else {
            send(from.region(), offset, length);
        }
    }

    private void send(MemoryRegion from, long offset, long length) {
        DataPointer to = command.data();
        switch (to.kind()) {
            case KEYED, KEYED_INVALIDATE -> {
                Status status =
                        queue.channel()
                                .write(
                                        data.clear().add(from, offset, length),
                                        to.address(),
                                        to.key(),
                                        BEFORE_ANSWER,
                                        null,
                                        null)
                                .status();
                queue.check(status, "a write into the host's memory");
                if (status.isSuccess()) {
                    succeed(0);
                }
            }
            case NONE -> fail(NvmeStatus.DATA_LENGTH_INVALID);
            case IN_CAPSULE, UNKNOWN -> fail(NvmeStatus.SGL_TYPE_INVALID);
        }
    }

    // ---- the answer

    @Override
    public void succeed(long result) {
        answer(NvmeStatus.SUCCESS, result);
    }

    @Override
    public void fail(NvmeStatus status, long result) {
        answer(status, result);
    }

    private void answer(NvmeStatus status, long result) {
        if (answered) {
            throw new IllegalStateException(command + " was answered before");
        }
        answered = true;
        releaseCapsule(); // before the answer, with which the host may send its next command
        Response.write(
                response, result, queue.head(), queue.number(), command.id(), status.value());
        boolean keyed = command.data().kind() == DataPointer.Kind.KEYED_INVALIDATE;
        long key = keyed ? queue.keyReturn().of(command.data().key()) : KeyReturn.NONE;
        queue.answer(this, answer, key);
        boolean failed = queue.number() > 0 && status != NvmeStatus.SUCCESS;
        queue.counted(keyed, key != KeyReturn.NONE, failed);
    }

    boolean isAnswered() {
        return answered;
    }

    @Override
    public void aside(Runnable work) {
        releaseCapsule(); // the connection may end before there is an answer
        queue.aside(this, work);
    }

    @Override
    public void later(Runnable rest) {
        releaseCapsule();
        queue.later(this, rest);
    }
}
