package dev.verbena.messaging;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Adapter;
import dev.verbena.FakeAdapters;
import dev.verbena.internal.verbs.FakeDevice;

import org.junit.jupiter.api.Test;

import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.TreeMap;
import java.util.stream.IntStream;

/** What one channel costs must not depend on how many others its poller has. */
class ManyChannelsTest {
    /** A copy of a list of all others shows in the bytes: of 6,000 references, it takes 24 KB. */
    @Test
    void openingAndClosingAChannelAllocatesNoMoreWhenThereAreMany() {
        long[] ofFew = allocatedByEach(1000);
        long[] ofMany = allocatedByEach(6000);
        assertThat(ofMany[0]).as("opening").isLessThan(ofFew[0] * 3 / 2);
        assertThat(ofMany[1]).as("closing").isLessThan(ofFew[1] * 3 / 2);
    }

    private static long[] allocatedByEach(int channels) {
        var threads = (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
        FakeDevice device = new FakeDevice();
        Adapter adapter = FakeAdapters.open(device);
        long start = threads.getCurrentThreadAllocatedBytes();
        long opened;
        try (Poller poller = Poller.onThisThread(adapter, IdleStrategy.busySpin())) {
            List<MessageChannel> all = new ArrayList<>();
            for (int i = 0; i < channels; i++) {
                all.add(new MessageChannel(poller, OneThread.SMALL, null));
            }
            opened = threads.getCurrentThreadAllocatedBytes();
            all.forEach(MessageChannel::abandon);
            int ignored = poller.poll(); // ends them
            assertThat(all).allMatch(MessageChannel::isClosed);
        }
        long closed = threads.getCurrentThreadAllocatedBytes();
        adapter.close();
        device.dispose();
        return new long[] {(opened - start) / channels, (closed - opened) / channels};
    }

    @Test
    void theChannelsOfAPollerAskTheirPeersInDifferentTicks() {
        int interval = 20; // ticks
        int channels = 100;
        List<KeepAlive> all =
                IntStream.range(0, channels)
                        .mapToObj(place -> new KeepAlive(interval, 5, place))
                        .toList();
        all.forEach(KeepAlive::heard); // all in the same tick
        var asking = new TreeMap<Integer, Integer>(); // how many of them, by tick
        for (int tick = 0; tick <= interval; tick++) {
            for (KeepAlive one : all) {
                asking.merge(tick, one.asks(tick) ? 1 : 0, Integer::sum);
            }
        }
        assertThat(asking.headMap(interval / 2 + 1).values()).containsOnly(0);
        assertThat(asking.values().stream().mapToInt(Integer::intValue).sum()).isEqualTo(channels);
        assertThat(Collections.max(asking.values())).isEqualTo(2 * channels / interval);
    }
}
