package dev.verbena.examples.nvme;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.function.Consumer;

/** A command of a host that is not there, and what became of it. */
final class FakeExchange implements Exchange {
    final MemorySegment bytes = MemorySegment.ofArray(new byte[Command.BYTES]);
    final MemorySegment page = MemorySegment.ofArray(new byte[PAGE_BYTES]);

    /** What the host offers; null where it offers less than is wanted. */
    MemorySegment hostData = MemorySegment.ofArray(new byte[PAGE_BYTES]);

    private final Command command = new Command();
    int answers;
    NvmeStatus status;
    long result;
    int sentPage; // bytes of the page
    int asides;
    final Deque<Runnable> rests = new ArrayDeque<>();
    String sentBlocks;

    FakeExchange(int opcode, int namespace) {
        Wire.put8(bytes, 0, opcode);
        Wire.put16(bytes, 2, 77);
        Wire.put32(bytes, 4, namespace);
        command.copyFrom(bytes);
    }

    static FakeExchange fabrics(int type) {
        return new FakeExchange(Opcode.FABRICS, type);
    }

    FakeExchange with16(int offset, int value) {
        Wire.put16(bytes, offset, value);
        command.copyFrom(bytes);
        return this;
    }

    FakeExchange with32(int offset, int value) {
        Wire.put32(bytes, offset, value);
        command.copyFrom(bytes);
        return this;
    }

    FakeExchange with64(int offset, long value) {
        Wire.put64(bytes, offset, value);
        command.copyFrom(bytes);
        return this;
    }

    FakeExchange id(int id) {
        return with16(2, id);
    }

    @Override
    public Command command() {
        return command;
    }

    @Override
    public MemorySegment page() {
        return page;
    }

    @Override
    public void succeed(long with) {
        end(NvmeStatus.SUCCESS, with);
    }

    @Override
    public void fail(NvmeStatus why, long with) {
        end(why, with);
    }

    private void end(NvmeStatus as, long with) {
        answers++;
        assertThat(answers).as("answers of " + command).isOne();
        status = as;
        result = with;
    }

    @Override
    public void sendPage(int length) {
        assertThat(length).isBetween(1, PAGE_BYTES);
        sentPage = length;
        succeed(0);
    }

    @Override
    public void fetchPage(int length, Consumer<Exchange> then) {
        if (hostData == null) {
            fail(NvmeStatus.DATA_LENGTH_INVALID);
            return;
        }
        MemorySegment.copy(hostData, 0, page, 0, length);
        then.accept(this);
    }

    @Override
    public void sendBlocks(Namespace from, long offset, long length) {
        assertThat(from.memory().asSlice(offset, length).byteSize()).isPositive();
        sentBlocks = "%d bytes at %d".formatted(length, offset);
        succeed(0);
    }

    @Override
    public void fetchBlocks(Namespace to, long offset, long length, Consumer<Exchange> then) {
        to.memory().asSlice(offset, length).fill((byte) 0x5a);
        then.accept(this);
    }

    @Override
    public void aside(Runnable work) {
        asides++;
        work.run();
        succeed(0);
    }

    @Override
    public void later(Runnable rest) {
        rests.add(rest);
    }

    /** Does all that was left for later. */
    void finish() {
        while (!rests.isEmpty()) {
            rests.remove().run();
        }
    }
}
