package dev.verbena.bench;

import dev.verbena.Adapter;
import dev.verbena.Status;
import dev.verbena.messaging.ConnectedChannels;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.MessageChannel;
import dev.verbena.messaging.MessageHandler;
import dev.verbena.messaging.MessagingOptions;
import dev.verbena.messaging.Poller;

import java.lang.foreign.MemorySegment;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

import javax.management.JMException;

/**
 * What an idle message channel takes, on a stand-in for libibverbs, with the default options: of
 * Java's heap and of the C heap ({@link MemoryInUse}), without what the provider takes. All are
 * connected and stay open; with {@code --messages N} each has sent so many messages before, one at
 * a time. With {@code --histogram yes} it also prints the bytes of each class for one channel.
 */
public final class IdleChannels {
    private static final int BYTES = 64;
    private static final int FIRST = 100; // which load classes, and make what is made once
    private static final Pattern LINE = Pattern.compile(" *\\d+: +(\\d+) +(\\d+) +(\\S+).*");

    private IdleChannels() {}

    /**
     * Measures.
     *
     * @param arguments options
     * @throws JMException when the JVM makes no histogram
     */
    public static void main(String[] arguments) throws JMException {
        Options options =
                new Options(
                        "IdleChannels [--count N] [--messages N] [--histogram yes]",
                        0,
                        arguments,
                        "--count",
                        "--messages",
                        "--histogram");
        int count = options.number("--count", 1_000);
        int messages = options.number("--messages", 0);
        boolean histogram = options.is("--histogram", "yes");
        MessageChannel[][] pairs = new MessageChannel[(FIRST + count) / 2][];
        try (Adapter adapter = Adapter.open("copy0");
                Poller poller = Poller.onThisThread(adapter, IdleStrategy.busySpin())) {
            fill(pairs, 0, FIRST / 2, poller, messages);
            Map<String, long[]> classesBefore = histogram ? classes() : Map.of();
            MemoryInUse before = MemoryInUse.now().withoutProvider();
            fill(pairs, FIRST / 2, pairs.length, poller, messages);
            MemoryInUse.now().withoutProvider().print("idle-channel", before, count);
            if (histogram) {
                print(classesBefore, count);
            }
            for (MessageChannel[] pair : pairs) { // until here, all are reachable
                var _ = pair[0].closeAsync();
                var _ = pair[1].closeAsync();
            }
        }
    }

    private static void fill(
            MessageChannel[][] pairs, int from, int to, Poller poller, int messages) {
        MessageHandler ignore = (channel, message) -> {};
        MemorySegment data = MemorySegment.ofArray(new byte[BYTES]);
        for (int i = from; i < to; i++) {
            pairs[i] = ConnectedChannels.pair(poller, MessagingOptions.DEFAULTS, ignore, ignore);
            for (int j = 0; j < messages; j++) {
                for (MessageChannel sender : pairs[i]) {
                    Status status = sender.trySend(data);
                    if (status != Status.SUCCESS) {
                        throw new IllegalStateException(status.toString());
                    }
                    while (sender.counters().outstanding() > 0) {
                        int ignored = poller.poll();
                    }
                }
            }
        }
    }

    /** Of each class: how many objects, and how many bytes. */
    private static Map<String, long[]> classes() throws JMException {
        Map<String, long[]> found = new HashMap<>();
        MemoryInUse.histogram()
                .lines()
                .map(LINE::matcher)
                .filter(Matcher::matches)
                .forEach(
                        line ->
                                found.merge(
                                        line.group(3),
                                        new long[] {
                                            Long.parseLong(line.group(1)),
                                            Long.parseLong(line.group(2))
                                        },
                                        (a, b) -> new long[] {a[0] + b[0], a[1] + b[1]}));
        return found;
    }

    private static void print(Map<String, long[]> before, int count) throws JMException {
        Map<String, long[]> after = new TreeMap<>(classes());
        after.entrySet().stream()
                .map(
                        of -> {
                            long[] was = before.getOrDefault(of.getKey(), new long[2]);
                            return Map.entry(
                                    of.getKey(),
                                    new double[] {
                                        (double) (of.getValue()[0] - was[0]) / count,
                                        (double) (of.getValue()[1] - was[1]) / count
                                    });
                        })
                .filter(each -> each.getValue()[1] >= 1)
                .sorted((a, b) -> Double.compare(b.getValue()[1], a.getValue()[1]))
                .forEach(
                        each ->
                                System.out.printf(
                                        "%8.1f B in %5.2f of %s%n",
                                        each.getValue()[1], each.getValue()[0], each.getKey()));
    }
}
