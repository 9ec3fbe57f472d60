package dev.verbena.bench;

import dev.verbena.Adapter;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.MessageChannel;
import dev.verbena.messaging.MessageHandler;
import dev.verbena.messaging.MessageServer;
import dev.verbena.messaging.MessagingOptions;
import dev.verbena.messaging.Poller;

import java.lang.foreign.MemorySegment;
import java.net.InetSocketAddress;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicReference;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

import javax.management.JMException;

/**
 * What an idle message channel takes, on stand-ins for libibverbs and librdmacm, with the default
 * options: of Java's heap and of the C heap ({@link MemoryInUse}), without what the stand-in for
 * libibverbs takes. Half of them are a server's, the others have connected to it, and all stay
 * open; with {@code --messages N} each has sent so many messages before, one at a time. Their
 * poller is confined to this thread; with {@code --thread yes} it has one of its own. With {@code
 * --histogram yes} it also prints the bytes of each class for one channel.
 */
public final class IdleChannels {
    private static final MessageHandler IGNORE = (channel, message) -> {};
    private static final int BYTES = 64;
    private static final int FIRST = 100; // which load classes, and make what is made once
    private static final Pattern LINE = Pattern.compile(" *\\d+: +(\\d+) +(\\d+) +(\\S+).*");

    private final Poller poller;
    private final boolean polls; // here
    private final int messages;
    private final AtomicReference<CompletableFuture<MessageChannel>> accepted =
            new AtomicReference<>();

    private IdleChannels(Poller poller, boolean polls, int messages) {
        this.poller = poller;
        this.polls = polls;
        this.messages = messages;
    }

    /**
     * Measures.
     *
     * @param arguments options
     * @throws JMException when the JVM makes no histogram
     */
    public static void main(String[] arguments) throws JMException {
        Options options =
                new Options(
                        "IdleChannels [--count N] [--messages N] [--thread yes] [--histogram yes]",
                        0,
                        arguments,
                        "--count",
                        "--messages",
                        "--thread",
                        "--histogram");
        int count = options.number("--count", 1_000);
        int messages = options.number("--messages", 0);
        boolean polls = !options.is("--thread", "yes");
        boolean histogram = options.is("--histogram", "yes");
        MessageChannel[][] pairs = new MessageChannel[(FIRST + count) / 2][];
        try (Adapter adapter = Adapter.open("copy0");
                Poller poller =
                        polls
                                ? Poller.onThisThread(adapter, IdleStrategy.busySpin())
                                : Poller.start(adapter, IdleStrategy.events())) {
            IdleChannels made = new IdleChannels(poller, polls, messages);
            MessageServer server = made.listen();
            made.fill(pairs, 0, FIRST / 2, server);
            Map<String, long[]> classesBefore = histogram ? classes() : Map.of();
            MemoryInUse before = MemoryInUse.now().withoutProvider();
            made.fill(pairs, FIRST / 2, pairs.length, server);
            MemoryInUse.now().withoutProvider().print("idle-channel", before, count);
            if (histogram) {
                print(classesBefore, count);
            }
            for (MessageChannel[] pair : pairs) { // until here, all are reachable
                for (MessageChannel one : pair) {
                    if (!one.isOpen()) {
                        throw new IllegalStateException(one + " has ended", one.closeReason());
                    }
                }
            }
            server.close();
        }
    }

    private MessageServer listen() {
        return MessageServer.listen(
                poller,
                new InetSocketAddress("192.0.2.1", 0), // the stand-in's
                MessagingOptions.DEFAULTS,
                Integer.MAX_VALUE,
                IGNORE,
                channel -> accepted.get().complete(channel));
    }

    private void fill(MessageChannel[][] pairs, int from, int to, MessageServer server) {
        MemorySegment data = MemorySegment.ofArray(new byte[BYTES]);
        for (int i = from; i < to; i++) {
            CompletableFuture<MessageChannel> peer = new CompletableFuture<>();
            accepted.set(peer);
            CompletableFuture<MessageChannel> connected =
                    MessageChannel.connectAsync(
                            poller, server.localAddress(), MessagingOptions.DEFAULTS, IGNORE);
            pairs[i] = new MessageChannel[] {await(connected), await(peer)};
            for (int j = 0; j < messages; j++) {
                for (MessageChannel sender : pairs[i]) {
                    await(sender.sendAsync(data));
                }
            }
        }
    }

    private <T> T await(CompletableFuture<T> future) {
        while (polls && !future.isDone()) {
            int ignored = poller.poll();
        }
        return future.join();
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
