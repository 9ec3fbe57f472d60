package dev.verbena.internal.verbs;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.bindings.ibv_send_wr;
import dev.verbena.bindings.ibv_sge;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SegmentAllocator;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;

class SendChainTest {
    private static final long CACHE_LINE = 64;
    private static final long POINTER = 8;

    /**
     * Each place is as many cache lines as its request, its buffers and its bytes need; a single
     * one has no next, and takes no more than they do.
     */
    @ParameterizedTest
    @CsvSource({"1, 0", "1, 48", "1, 49", "4, 0", "7, 1000"})
    void takesTheMemoryThatItsRequestsNeed(int maxSge, int inlineBytes) {
        long request = ibv_send_wr.sizeof() + maxSge * ibv_sge.sizeof() + inlineBytes;
        long lines = (request + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
        for (int capacity : new int[] {1, 16}) {
            List<Long> taken = new ArrayList<>();
            SegmentAllocator memory =
                    (bytes, alignment) -> {
                        taken.add(bytes);
                        return Arena.ofAuto().allocate(bytes, alignment);
                    };
            new SendChain(null, capacity, maxSge, inlineBytes, memory);
            long places = capacity == 1 ? request : lines * capacity;
            assertThat(taken).containsExactly(places + POINTER);
        }
    }

    /** What it begins it clears, and nothing else; lists and bytes go behind it. */
    @Test
    void aRequestStaysInItsPlace() {
        try (Arena arena = Arena.ofConfined()) {
            int place = 256; // of a request of 128 bytes, two buffers, and up to 96 bytes
            MemorySegment all = arena.allocate(4 * place, CACHE_LINE).fill((byte) 0x5A);
            MemorySegment slots = all.asSlice(place, 2 * place + POINTER);
            long first = place + POINTER; // the pointer to what was refused goes before
            SendChain chain =
                    new SendChain(Provider.of(0, 0), 2, 2, 96, (bytes, alignment) -> slots);
            SgeArray two = new SgeArray(2);
            two.set(0, 1, 2, 3);
            two.set(1, 4, 5, 6);
            for (int count = 0; count <= 2; count++) {
                slots.fill((byte) 0x5A);
                chain.clear();
                chain.begin(SendChain.WRITE);
                assertThat(touched(all, first)).isEqualTo(ibv_send_wr.sizeof());
                if (count == 0) {
                    chain.gather(0, arena.allocate(96), 0, 96);
                    chain.ownBytes(96);
                    assertThat(touched(all, first)).isEqualTo(place);
                } else {
                    chain.copyOfBuffers(two, count);
                    assertThat(touched(all, first))
                            .isEqualTo(ibv_send_wr.sizeof() + count * ibv_sge.sizeof());
                }
                assertThat(all.asSlice(0, first)).matches(SendChainTest::untouched);
            }
        }
    }

    /** How many bytes, from an offset to the last that was changed. */
    private static long touched(MemorySegment all, long offset) {
        long end = all.byteSize();
        while (end > offset && all.get(ValueLayout.JAVA_BYTE, end - 1) == 0x5A) {
            end--;
        }
        return end - offset;
    }

    private static boolean untouched(MemorySegment bytes) {
        return touched(bytes, 0) == 0;
    }
}
