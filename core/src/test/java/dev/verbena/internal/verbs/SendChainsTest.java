package dev.verbena.internal.verbs;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;

/** Which memory a send queue takes for its requests, and when. */
class SendChainsTest {
    private final List<Long> taken = new ArrayList<>();

    private MemorySegment take(long bytes, long alignment) {
        taken.add(bytes);
        return Arena.ofAuto().allocate(bytes, alignment);
    }

    private SendChains chains(
            int maxDeferred, int maxSge, int inlineBytes, SendChains.Shared shared) {
        return new SendChains(null, maxDeferred, maxSge, inlineBytes, this::take, shared);
    }

    /** Only a deferred request has room for its list of buffers, here of five. */
    @Test
    void aQueueOfItsOwnHasOneRequestUntilOneIsDeferred() {
        SendChains chains = chains(16, 5, 0, null);
        assertThat(taken).containsExactly(128L + 16 + 8);
        SendChain deferred = chains.deferred();
        assertThat(deferred).isNotSameAs(chains.single());
        assertThat(taken).containsExactly(128L + 16 + 8, 16 * 256L + 8);
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1})
    void whatMayNotWaitNeedsNoOtherChain(int maxDeferred) {
        SendChains chains = chains(maxDeferred, 5, 0, null);
        assertThat(chains.deferred()).isSameAs(chains.single());
        assertThat(taken).containsExactly(128L + 5 * 16 + 8);
    }

    @Test
    void queuesOfOneThreadShareTheSingleRequest() {
        SendChains.Shared shared = new SendChains.Shared();
        SendChain first = chains(2, 2, 32, shared).single();
        assertThat(chains(2, 2, 32, shared).single()).isSameAs(first);
        assertThat(chains(2, 1, 0, shared).single()).isSameAs(first);
        assertThat(taken).isEmpty();
        assertThat(chains(2, 2, 32, new SendChains.Shared()).single()).isNotSameAs(first);
    }

    /** One with more buffers and one with more bytes: the third takes any request of both. */
    @Test
    void aLargerQueueBringsALargerRequest() {
        SendChains.Shared shared = new SendChains.Shared();
        SendChain small = chains(2, 1, 16, shared).single();
        SendChain wide = chains(2, 3, 0, shared).single();
        assertThat(wide).isNotSameAs(small);
        SendChain heavy = chains(2, 1, 500, shared).single();
        assertThat(heavy).isNotSameAs(wide);
        assertThat(chains(2, 3, 500, shared).single()).isSameAs(heavy);
        SgeArray three = new SgeArray(3);
        three.set(2, 1, 2, 3);
        heavy.begin(SendChain.SEND);
        heavy.copyOfBuffers(three, 3);
        heavy.gather(0, Arena.ofAuto().allocate(500), 0, 500);
        heavy.ownBytes(500);
    }
}
