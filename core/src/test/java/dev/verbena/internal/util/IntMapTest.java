package dev.verbena.internal.util;

import static org.assertj.core.api.Assertions.assertThat;

import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
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
        IntMap<String> map = new IntMap<>(4);
        Map<Integer, String> expected = new HashMap<>();
        for (int i = 0; i < 20_000; i++) {
            int key = random.nextInt(spread) - spread / 2;
            if (random.nextInt(3) > 0 && expected.size() < most) {
                map.put(key, "v" + i);
                expected.put(key, "v" + i);
            } else if (!expected.isEmpty()) {
                int gone = random.nextBoolean() ? key : expected.keySet().iterator().next();
                assertThat(map.remove(gone)).isEqualTo(expected.remove(gone));
            }
            assertThat(map.get(key)).isEqualTo(expected.get(key));
            if (most < 8) {
                expected.forEach((known, value) -> assertThat(map.get(known)).isEqualTo(value));
            }
        }
        expected.forEach((key, value) -> assertThat(map.get(key)).isEqualTo(value));
    }

    @Property(tries = 300)
    void isAMap(@ForAll @IntRange(max = 20) int most, @ForAll long seed) {
        Random random = new Random(seed);
        int[] keys = random.ints(most + 5).toArray();
        for (int i = 0; i < keys.length; i += 2) {
            keys[i] = keys[0] + (i << 8); // as tokens of windows that were made one after the other
        }
        Map<Integer, String> expected = new HashMap<>();
        IntMap<String> map = new IntMap<>(most);
        int places = map.places();
        for (int i = 0; i < 500; i++) {
            int key = keys[random.nextInt(keys.length)];
            if (random.nextBoolean()) {
                if (expected.size() < most) {
                    map.put(key, "v" + i);
                    expected.put(key, "v" + i);
                }
            } else {
                assertThat(map.remove(key)).isEqualTo(expected.remove(key));
            }
            for (int one : keys) {
                assertThat(map.get(one)).isEqualTo(expected.get(one));
            }
            assertThat(map.size()).isEqualTo(expected.size());
        }
        assertThat(map.places()).as("it was made for as many").isEqualTo(places);
        List<String> placed = new ArrayList<>();
        for (int i = 0; i < map.places(); i++) {
            if (map.at(i) != null) {
                placed.add(map.at(i));
            }
        }
        assertThat(placed).containsExactlyInAnyOrderElementsOf(expected.values());
        for (String any = map.any(); any != null; any = map.any()) {
            String found = any;
            int key =
                    expected.keySet().stream()
                            .filter(one -> found.equals(expected.get(one)))
                            .findAny()
                            .orElseThrow();
            assertThat(map.remove(key)).isEqualTo(expected.remove(key));
        }
        assertThat(expected).isEmpty();
    }

    @Test
    void roomThatWasMadeNeedsNoMemoryLater() {
        var threads = (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
        IntMap<String> map = new IntMap<>(4);
        map.ensureCapacity(1 << 16);
        long before = threads.getCurrentThreadAllocatedBytes();
        for (int key = 0; key < 1 << 16; key++) {
            map.put(key, "here");
        }
        assertThat(threads.getCurrentThreadAllocatedBytes() - before).isLessThan(1 << 12);
    }

    /** As windows are bound and invalidated for years. */
    @Test
    void keysThatComeAndGoNeedNoMemory() {
        var threads = (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
        IntMap<String> map = new IntMap<>(4);
        long before = threads.getCurrentThreadAllocatedBytes();
        for (int key = 0; key < 200_000; key++) {
            map.put(key, "here");
            var _ = map.remove(key);
        }
        // A table for as many keys would take megabytes.
        assertThat(threads.getCurrentThreadAllocatedBytes() - before).isLessThan(1 << 16);
    }
}
