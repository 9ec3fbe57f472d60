package dev.verbena.channel;

import static org.assertj.core.api.Assertions.assertThat;

import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;

/** A map of tokens does what a HashMap does, up to as many tokens as it was made for. */
class TokenMapTest {
    @Property(tries = 300)
    void isAMap(@ForAll @IntRange(max = 20) int most, @ForAll long seed) {
        Random random = new Random(seed);
        int[] tokens = random.ints(most + 5).toArray();
        for (int i = 0; i < tokens.length; i += 2) {
            tokens[i] = tokens[0] + (i << 8); // as of windows that were made one after the other
        }
        Map<Integer, String> expected = new HashMap<>();
        TokenMap<String> map = new TokenMap<>(most);
        for (int i = 0; i < 500; i++) {
            int token = tokens[random.nextInt(tokens.length)];
            if (random.nextBoolean()) {
                boolean fits = expected.size() < most && !expected.containsKey(token);
                assertThat(map.put(token, "v" + i)).isEqualTo(fits);
                if (fits) {
                    expected.put(token, "v" + i);
                }
            } else {
                assertThat(map.remove(token)).isEqualTo(expected.remove(token));
            }
            for (int one : tokens) {
                assertThat(map.get(one)).isEqualTo(expected.get(one));
                assertThat(map.contains(one)).isEqualTo(expected.containsKey(one));
            }
            assertThat(map.size()).isEqualTo(expected.size());
        }
        List<String> placed = new ArrayList<>();
        for (int i = 0; i < map.places(); i++) {
            if (map.at(i) != null) {
                placed.add(map.at(i));
            }
        }
        assertThat(placed).containsExactlyInAnyOrderElementsOf(expected.values());
        for (String any = map.any(); any != null; any = map.any()) {
            String found = any;
            int token =
                    expected.keySet().stream()
                            .filter(one -> found.equals(expected.get(one)))
                            .findAny()
                            .orElseThrow();
            assertThat(map.remove(token)).isEqualTo(expected.remove(token));
        }
        assertThat(expected).isEmpty();
    }
}
