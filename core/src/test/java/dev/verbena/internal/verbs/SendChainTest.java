package dev.verbena.internal.verbs;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.bindings.ibv_send_wr;
import dev.verbena.bindings.ibv_sge;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

import java.lang.foreign.Arena;
import java.lang.foreign.SegmentAllocator;
import java.util.ArrayList;
import java.util.List;

class SendChainTest {
    private static final long CACHE_LINE = 64;
    private static final long POINTER = 8;

    /** Each place is as many cache lines as its request, its buffers and its bytes need. */
    @ParameterizedTest
    @CsvSource({"1, 0", "1, 48", "1, 49", "4, 0", "7, 1000"})
    void takesTheMemoryThatItsRequestsNeed(int maxSge, int inlineBytes) {
        long request = ibv_send_wr.sizeof() + maxSge * ibv_sge.sizeof() + inlineBytes;
        long place = (request + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
        for (int capacity : new int[] {1, 16}) {
            List<Long> taken = new ArrayList<>();
            SegmentAllocator memory =
                    (bytes, alignment) -> {
                        taken.add(bytes);
                        return Arena.ofAuto().allocate(bytes, alignment);
                    };
            new SendChain(null, capacity, maxSge, inlineBytes, memory);
            assertThat(taken).containsExactly(place * capacity + POINTER);
        }
    }
}
