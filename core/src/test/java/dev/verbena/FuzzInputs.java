package dev.verbena;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.SplittableRandom;

/**
 * Inputs for what reads bytes of a peer: a corpus, which is a text file with one input in
 * hexadecimal per line, and random changes of it. The same seed gives the same inputs. Used by
 * other modules, too.
 */
public final class FuzzInputs {
    private static final int MOST_BYTES = 4096;
    private static final long[] INTERESTING = {
        0,
        1,
        2,
        3,
        4,
        5,
        7,
        8,
        15,
        16,
        17,
        31,
        32,
        127,
        128,
        255,
        256,
        32_767,
        32_768,
        65_535,
        65_536,
        Integer.MAX_VALUE,
        Integer.MIN_VALUE,
        -1,
        -2,
        -16,
        Long.MAX_VALUE,
        Long.MIN_VALUE
    };

    private final List<byte[]> corpus;
    private final SplittableRandom random;

    public FuzzInputs(List<byte[]> corpus, long seed) {
        this.corpus = corpus;
        this.random = new SplittableRandom(seed);
    }

    /** The corpus in a resource; lines that begin with # are comments. */
    public static List<byte[]> corpus(Class<?> of, String resource) {
        try (InputStream in = of.getResourceAsStream(resource)) {
            if (in == null) {
                throw new IllegalStateException("There is no resource " + resource);
            }
            return new String(in.readAllBytes(), StandardCharsets.US_ASCII)
                    .lines()
                    .filter(line -> !line.startsWith("#"))
                    .map(line -> HexFormat.of().parseHex(line.replace(" ", "")))
                    .toList();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** An input of the corpus with one to eight changes. */
    public byte[] next() {
        byte[] input = any();
        for (int left = 1 << random.nextInt(4); left > 0; left--) {
            input = changed(input);
        }
        return input.length > MOST_BYTES ? Arrays.copyOf(input, MOST_BYTES) : input;
    }

    private byte[] any() {
        return corpus.get(random.nextInt(corpus.size())).clone();
    }

    private byte[] changed(byte[] input) {
        int length = input.length;
        int at = random.nextInt(length + 1);
        int count = random.nextInt(1, 17);
        switch (random.nextInt(9)) {
            case 0 -> flip(input, at);
            case 1 -> put(input, at, random.nextInt(), 1);
            case 2 -> put(input, at, number(), 1 << random.nextInt(4));
            case 3 -> {
                return Arrays.copyOf(input, at);
            }
            case 4 -> {
                byte[] more = new byte[count];
                random.nextBytes(more);
                return joined(input, length, more, 0);
            }
            case 5 -> { // insert
                return joined(input, at, joined(new byte[count], count, input, at), 0);
            }
            case 6 -> { // remove
                return joined(input, at, input, Math.min(length, at + count));
            }
            case 7 -> { // repeat a part
                return joined(input, length, input, at);
            }
            default -> { // splice
                byte[] other = any();
                return joined(input, at, other, random.nextInt(other.length + 1));
            }
        }
        return input;
    }

    private long number() {
        return random.nextInt(3) == 0
                ? random.nextLong()
                : INTERESTING[random.nextInt(INTERESTING.length)];
    }

    private void flip(byte[] input, int at) {
        if (at < input.length) {
            input[at] ^= (byte) (1 << random.nextInt(8));
        }
    }

    /** Writes a number, little- or big-endian. */
    private void put(byte[] input, int at, long number, int bytes) {
        boolean little = random.nextBoolean();
        for (int i = 0; i < bytes && at + i < input.length; i++) {
            input[at + i] = (byte) (number >>> 8 * (little ? i : bytes - 1 - i));
        }
    }

    /** The first bytes of one input, and another from an index on. */
    private static byte[] joined(byte[] first, int end, byte[] second, int from) {
        byte[] all = Arrays.copyOf(first, end + second.length - from);
        System.arraycopy(second, from, all, end, second.length - from);
        return all;
    }

    /** The lines of a corpus file. */
    public static List<String> lines(List<byte[]> inputs) {
        List<String> lines = new ArrayList<>();
        inputs.forEach(input -> lines.add(HexFormat.of().formatHex(input)));
        return lines;
    }
}
