package dev.verbena.internal.queue;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

import java.lang.management.ManagementFactory;
import java.util.HashMap;
import java.util.Map;
import java.util.Random;

@Timeout(60)
class IntMapTest {
    /** With at most 7 keys the table stays at 16 slots, and chains go round its end. */
    @ParameterizedTest
    @CsvSource({
        "8, 500",
        "64, 500",
        "0x7FFFFFFF, 500",
        "64, 7",
        "0x7FFFFFFF, 7",
    })
    void itKeepsWhatAHashMapKeeps(String range, int most) {
        int spread = Integer.decode(range);
        Random random = new Random(20261120);
        IntMap<String> map = new IntMap<>();
        Map<Integer, String> expected = new HashMap<>();
        for (int i = 0; i < 20_000; i++) {
            int key = random.nextInt(spread) - spread / 2;
            if (random.nextInt(3) > 0 && expected.size() < most) {
                map.put(key, "v" + i);
                expected.put(key, "v" + i);
            } else if (!expected.isEmpty()) {
                int gone = random.nextBoolean() ? key : expected.keySet().iterator().next();
                map.remove(gone);
                expected.remove(gone);
            }
            assertThat(map.get(key)).isEqualTo(expected.get(key));
            if (most < 8) {
                expected.forEach((known, value) -> assertThat(map.get(known)).isEqualTo(value));
            }
        }
        expected.forEach((key, value) -> assertThat(map.get(key)).isEqualTo(value));
    }

    @Test
    void roomThatWasMadeNeedsNoMemoryLater() {
        var threads = (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
        IntMap<String> map = new IntMap<>();
        for (int key = 0; key < 1 << 16; key++) {
            map.makeRoom();
            long before = threads.getCurrentThreadAllocatedBytes();
            map.put(key, "here");
            assertThat(threads.getCurrentThreadAllocatedBytes() - before).isLessThan(1 << 12);
        }
    }

    /** As windows are bound and invalidated for years. */
    @Test
    void keysThatComeAndGoNeedNoMemory() {
        var threads = (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
        IntMap<String> map = new IntMap<>();
        long before = threads.getCurrentThreadAllocatedBytes();
        for (int key = 0; key < 200_000; key++) {
            map.put(key, "here");
            map.remove(key);
        }
        // A table for as many keys would take megabytes.
        assertThat(threads.getCurrentThreadAllocatedBytes() - before).isLessThan(1 << 16);
    }
}
