package dev.verbena.internal.queue;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.PostResult;
import dev.verbena.internal.queue.Operation.Flags;

import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/** What a request may ask for: each limit lets in what reaches it, and nothing beyond. */
class OperationTest {
    private static final Domain DOMAIN = new Domain(1);
    private static final Domain OTHER = new Domain(2);
    private static final int MAX_BUFFERS = 3;
    private static final int MAX_READ_BUFFERS = 2;
    private static final int MAX_INLINE = 40;
    private static final int MAX_MESSAGE = 100;
    private static final int MAX_WINDOW = 50;

    private final SendLimits limits = limits(true);
    private final SendLimits poor = limits(false);

    /** Of a device that can do all operations, or only those that each device can do. */
    private static SendLimits limits(boolean all) {
        return new SendLimits(
                DOMAIN,
                MAX_BUFFERS,
                MAX_READ_BUFFERS,
                MAX_INLINE,
                MAX_MESSAGE,
                MAX_WINDOW,
                all,
                all,
                all);
    }

    private static RegisteredMemory region(
            Domain domain, MemorySegment memory, boolean writable, boolean bindable) {
        return new RegisteredMemory(
                domain, memory, memory.address(), memory.byteSize(), 7, 8, writable, bindable);
    }

    private static RegisteredMemory region(boolean writable) {
        return region(DOMAIN, Arena.ofAuto().allocate(64), writable, true);
    }

    private static Buffers buffers(int count, long length) {
        Buffers buffers = new Buffers(8);
        for (int i = 0; i < count; i++) {
            assertThat(buffers.add(region(true), 0, length)).isTrue();
        }
        return buffers;
    }

    private static PostResult check(
            SendLimits limits, Operation operation, Buffers buffers, int flags) {
        return operation.check(limits, buffers, buffers.size(), 16, flags);
    }

    private static void allowed(
            SendLimits limits, Operation operation, Buffers buffers, int flags) {
        assertThat(check(limits, operation, buffers, flags)).isEqualTo(PostResult.ACCEPTED);
    }

    private static void refused(
            PostResult refusal,
            SendLimits limits,
            Operation operation,
            Buffers buffers,
            int flags) {
        assertThat(check(limits, operation, buffers, flags)).isEqualTo(refusal);
    }

    @Test
    void aMessageHasSoManyBytes() {
        allowed(limits, Operation.SEND, buffers(2, MAX_MESSAGE / 2), 0);
        Buffers over = buffers(1, MAX_MESSAGE + 1);
        refused(PostResult.TOO_MANY_BYTES, limits, Operation.SEND, over, 0);
        refused(PostResult.TOO_MANY_BYTES, limits, Operation.SEND, over, Flags.INLINE);
    }

    @Test
    void aRequestCarriesSoManyInline() {
        allowed(limits, Operation.SEND, buffers(1, MAX_INLINE), Flags.INLINE);
        allowed(limits, Operation.SEND, buffers(8, MAX_INLINE / 8), Flags.INLINE);
        Buffers over = buffers(1, MAX_INLINE + 1);
        refused(PostResult.TOO_MANY_INLINE_BYTES, limits, Operation.SEND, over, Flags.INLINE);
        allowed(limits, Operation.SEND, over, 0);
    }

    @Test
    void aRequestNamesSoManyBuffers() {
        allowed(limits, Operation.WRITE, buffers(MAX_BUFFERS, 1), 0);
        refused(
                PostResult.TOO_MANY_BUFFERS,
                limits,
                Operation.WRITE,
                buffers(MAX_BUFFERS + 1, 1),
                0);
        allowed(limits, Operation.READ, buffers(MAX_READ_BUFFERS, 1), 0);
        refused(
                PostResult.TOO_MANY_BUFFERS,
                limits,
                Operation.READ,
                buffers(MAX_READ_BUFFERS + 1, 1),
                0);
    }

    @Test
    void buffersAreOfTheQueuePairsDomain() {
        RegisteredMemory foreign = region(OTHER, Arena.ofAuto().allocate(64), true, true);
        Buffers mixed = buffers(1, 8);
        mixed.add(foreign, 0, 8);
        refused(PostResult.OTHER_DOMAIN, limits, Operation.SEND, mixed, 0);
        Buffers plain = new Buffers(3);
        plain.add(foreign, 0, 8);
        refused(PostResult.OTHER_DOMAIN, limits, Operation.SEND, plain, 0);
        // Not registered comes before: that is what INLINE would allow.
        plain.addUnregistered(Arena.ofAuto().allocate(8));
        refused(PostResult.NOT_REGISTERED, limits, Operation.SEND, plain, 0);
        allowed(limits, Operation.SEND, plain, Flags.INLINE);
        allowed(limits, Operation.SEND, new Buffers(1), 0); // none at all
        plain.clear();
        plain.addUnregistered(Arena.ofAuto().allocate(8));
        plain.add(region(true), 0, 8);
        refused(PostResult.NOT_REGISTERED, limits, Operation.SEND, plain, 0);
    }

    @Test
    void whatADeviceCannotDoIsRefused() {
        for (Operation operation : new Operation[] {Operation.SEND, Operation.WRITE}) {
            allowed(poor, operation, buffers(1, 8), 0);
        }
        Buffers eight = buffers(1, 8);
        refused(PostResult.NO_REMOTE_INVALIDATE, poor, Operation.SEND_AND_INVALIDATE, eight, 0);
        allowed(limits, Operation.SEND_AND_INVALIDATE, eight, 0);
        for (Operation operation :
                new Operation[] {Operation.SEND_WITH_IMMEDIATE, Operation.WRITE_WITH_IMMEDIATE}) {
            refused(PostResult.NO_IMMEDIATE_DATA, poor, operation, eight, 0);
            allowed(limits, operation, eight, 0);
        }
        for (Operation operation :
                new Operation[] {Operation.FETCH_AND_ADD, Operation.COMPARE_AND_SWAP}) {
            refused(PostResult.NO_ATOMICS, poor, operation, eight, 0);
            allowed(limits, operation, eight, 0);
            refused(PostResult.NOT_ONE_LONG, limits, operation, buffers(1, 7), 0);
            refused(PostResult.NOT_ONE_LONG, limits, operation, buffers(2, 4), 0);
            for (long address : new long[] {1, 4, -1, Long.MAX_VALUE}) {
                assertThat(operation.check(limits, eight, 1, address, 0))
                        .isEqualTo(PostResult.NOT_ALIGNED);
            }
            assertThat(operation.check(limits, eight, 1, -8, 0)).isEqualTo(PostResult.ACCEPTED);
        }
        for (Operation operation : new Operation[] {Operation.READ, Operation.FETCH_AND_ADD}) {
            Buffers readOnly = new Buffers(1);
            readOnly.add(region(false), 0, 8);
            refused(PostResult.NOT_WRITABLE, limits, operation, readOnly, 0);
        }
    }

    @Nested
    class OfABind {
        private final RegisteredMemory region = region(true);
        private final Window window = window(DOMAIN);

        private static Window window(Domain domain) {
            return new Window(domain) {
                @Override
                protected int prepare() {
                    return 0;
                }

                @Override
                protected void freeFormer() {}
            };
        }

        private PostResult check(RegisteredMemory of, long offset, long length, int flags) {
            return WindowRequests.check(limits, window, of, offset, length, flags);
        }

        @Test
        void theRangeIsOfTheRegionAndNoLongerThanAWindowMayBe() {
            assertThat(check(region, 0, MAX_WINDOW, 0)).isEqualTo(PostResult.ACCEPTED);
            assertThat(check(region, 64 - MAX_WINDOW, MAX_WINDOW, 0))
                    .isEqualTo(PostResult.ACCEPTED);
            assertThat(check(region, 63, 1, 0)).isEqualTo(PostResult.ACCEPTED);
            for (long[] range :
                    new long[][] {
                        {-1, 8}, {0, 0}, {0, -1}, {0, MAX_WINDOW + 1}, {63, 2}, {64, 1}, {60, 8}
                    }) {
                assertThat(check(region, range[0], range[1], 0))
                        .as("%d bytes at %d", range[1], range[0])
                        .isEqualTo(PostResult.OUTSIDE_REGION);
            }
        }

        @Test
        void windowAndRegionAreOfTheQueuePairsDomain() {
            RegisteredMemory foreign = region(OTHER, Arena.ofAuto().allocate(8), true, true);
            assertThat(check(foreign, 0, 8, 0)).isEqualTo(PostResult.OTHER_DOMAIN);
            assertThat(WindowRequests.check(limits, window(OTHER), region, 0, 8, 0))
                    .isEqualTo(PostResult.OTHER_DOMAIN);
        }

        @Test
        void theRegionGrantsWhatTheWindowIsToAllow() {
            int read = Flags.ALLOW_REMOTE_READ;
            int write = Flags.ALLOW_REMOTE_WRITE;
            RegisteredMemory readOnly = region(false);
            assertThat(check(readOnly, 0, 8, read)).isEqualTo(PostResult.ACCEPTED);
            assertThat(check(readOnly, 0, 8, write)).isEqualTo(PostResult.REGION_NOT_BINDABLE);
            assertThat(check(region, 0, 8, read | write)).isEqualTo(PostResult.ACCEPTED);
            RegisteredMemory notBindable = region(DOMAIN, Arena.ofAuto().allocate(8), true, false);
            assertThat(check(notBindable, 0, 8, read)).isEqualTo(PostResult.REGION_NOT_BINDABLE);
            // ALLOW_REMOTE_WRITE has two bits: one alone is no right of a window.
            for (int half : new int[] {Flags.ALLOW_LOCAL_WRITE, 0x20}) {
                assertThat(check(region, 0, 8, read | half))
                        .isEqualTo(PostResult.WRONG_WINDOW_RIGHTS);
            }
        }

        @Test
        void theMemoryIsThere() {
            Arena arena = Arena.ofShared();
            RegisteredMemory gone = region(DOMAIN, arena.allocate(8), true, true);
            assertThat(check(gone, 0, 8, 0)).isEqualTo(PostResult.ACCEPTED);
            arena.close();
            assertThat(check(gone, 0, 8, 0)).isEqualTo(PostResult.ARENA_CLOSED);
        }
    }
}
