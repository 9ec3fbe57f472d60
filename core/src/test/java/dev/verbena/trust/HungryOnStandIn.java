package dev.verbena.trust;

import static java.lang.foreign.ValueLayout.JAVA_LONG_UNALIGNED;

import dev.verbena.Adapter;
import dev.verbena.ProtectionDomain;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.Message;
import dev.verbena.messaging.MessageChannel;
import dev.verbena.messaging.MessageServer;
import dev.verbena.messaging.MessagingOptions;
import dev.verbena.messaging.Poller;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/**
 * Threads send messages in a process whose heap runs out again and again, whatever the senders, the
 * pollers and the handler are doing then. A thread that gets an OutOfMemoryError goes on, with a
 * new channel if that one has ended. What was sent on a channel that is still open arrives, once
 * and in order; when there is memory again, every thread goes on; and after the close, no native
 * object is left. {@link StandInTest} starts it.
 */
final class HungryOnStandIn {
    private static final MessagingOptions OPTIONS =
            MessagingOptions.DEFAULTS.withMaxMessage(100_000);
    private static final int SENDERS = 4;
    private static final int MOST_OF_CHANNEL = 1 << 15;
    private static final int SHORT = 64; // bytes
    private static final int LONG = 100_000;
    private static final int WARM = 300; // messages, until the first channels fail
    private static final int MOST_CRUMBS = 200; // given back at once
    private static final long HUNGER = TimeUnit.MILLISECONDS.toNanos(300);
    private static final Duration TIMEOUT = Duration.ofSeconds(10);
    private static final Duration CLOSE_TIMEOUT = Duration.ofSeconds(30);

    private final AtomicInteger lost = new AtomicInteger();
    private final AtomicInteger doubled = new AtomicInteger();
    private final AtomicInteger overtaken = new AtomicInteger();
    private final AtomicInteger changed = new AtomicInteger();
    private final AtomicInteger hung = new AtomicInteger();
    private final AtomicInteger outOfMemory = new AtomicInteger();
    private final AtomicLong messages = new AtomicLong();
    private final AtomicLong longestWait = new AtomicLong();
    private final Sender[] senders = new Sender[SENDERS];
    private volatile boolean hungry;

    private HungryOnStandIn() {
        for (int i = 0; i < SENDERS; i++) {
            senders[i] = new Sender(i);
        }
    }

    /** Argument: how often the heap runs out. */
    public static void main(String[] arguments) throws InterruptedException {
        Trust.Row row = Trust.row("heap runs out, stand-in");
        long seed = Trust.seed();
        HungryOnStandIn all = new HungryOnStandIn();
        List<String> wrong = new ArrayList<>();
        List<ProtectionDomain> domains = new ArrayList<>();
        try (Adapter adapter = Adapter.open("copy0");
                Poller poller = Poller.start(adapter, IdleStrategy.events());
                Poller ofServer = Poller.start(adapter, IdleStrategy.events());
                MessageServer server =
                        MessageServer.listen(
                                ofServer,
                                new InetSocketAddress("192.0.2.1", 0), // the stand-in's
                                OPTIONS,
                                Integer.MAX_VALUE,
                                all::received,
                                _ -> {})) {
            domains.add(poller.domain());
            domains.add(ofServer.domain());
            all.run(Integer.parseInt(arguments[0]), new Random(seed), poller, server);
        }
        int leaks = 0;
        for (ProtectionDomain domain : domains) {
            try {
                domain.awaitClosed(CLOSE_TIMEOUT);
            } catch (VerbenaException e) {
                wrong.add(e.getMessage());
                leaks++;
            }
        }
        row.messages(all.messages.get())
                .faults(all.outOfMemory.get())
                .losses(all.complain(wrong))
                .leaks(leaks)
                .longestWait(Duration.ofNanos(all.longestWait.get()))
                .seed(seed)
                .write();
        wrong.forEach(System.out::println);
        System.exit(wrong.isEmpty() ? 0 : 1);
    }

    private int complain(List<String> wrong) {
        if (hung.get() > 0) {
            wrong.add("%d messages hung".formatted(hung.get()));
        }
        int losses = lost.get() + doubled.get() + overtaken.get() + changed.get();
        if (losses > 0) {
            wrong.add(
                    "%d messages lost, %d doubled, %d reordered, %d changed"
                            .formatted(lost.get(), doubled.get(), overtaken.get(), changed.get()));
        }
        if (outOfMemory.get() == 0) {
            wrong.add("no thread ran out of memory");
        }
        return losses;
    }

    private void run(int rounds, Random random, Poller poller, MessageServer server)
            throws InterruptedException {
        for (int round = 0; round <= rounds; round++) { // in the first one, all channels end
            hungry = true;
            List<Thread> threads = new ArrayList<>();
            for (Sender sender : senders) {
                Channel channel = sender.connectIfEnded(poller, server.localAddress());
                threads.add(Thread.ofPlatform().start(() -> sender.sendWhileHungry(channel)));
            }
            if (round > 0) {
                eat(random);
            }
            for (Thread thread : threads) {
                thread.join();
            }
            for (Sender sender : senders) {
                sender.check(poller, server.localAddress());
            }
        }
        for (Sender sender : senders) {
            sender.close();
        }
    }

    /** What takes the last bytes of a heap. */
    private static final class Crumb {
        private final @Nullable Crumb next;
        private final long[] bytes = new long[3];

        Crumb(@Nullable Crumb next) {
            this.next = next;
        }
    }

    /** Takes all of the heap, and again and again gives a little back. */
    private void eat(Random random) {
        Object[] largest = new Object[1 << 10];
        Crumb crumbs = null;
        long end = System.nanoTime() + HUNGER;
        try {
            for (int i = 0; i < largest.length; i++) {
                largest[i] = new byte[1 << 20];
            }
        } catch (OutOfMemoryError e) {
            // the crumbs take the rest
        }
        while (System.nanoTime() - end < 0) {
            try {
                while (true) {
                    crumbs = new Crumb(crumbs);
                }
            } catch (OutOfMemoryError e) {
                for (int i = random.nextInt(MOST_CRUMBS); i > 0 && crumbs != null; i--) {
                    crumbs = crumbs.next;
                }
            }
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(1)); // others have the rest
        }
        hungry = false;
    }

    /** By the polling thread of the server. */
    private void received(MessageChannel channel, Message message) {
        MemorySegment buffer = message.buffer();
        long mark = buffer.get(JAVA_LONG_UNALIGNED, 0);
        if (buffer.get(JAVA_LONG_UNALIGNED, message.length() - Long.BYTES) != mark) {
            changed.getAndIncrement();
        } else {
            senders[(int) (mark >>> 56)].received(
                    (int) (mark >>> 32) & 0xFFFFFF, (int) mark, message);
        }
    }

    /** A channel, and what has become of its messages. */
    private static final class Channel {
        private final int number;
        private final MessageChannel channel;
        private final boolean[] sent = new boolean[MOST_OF_CHANNEL];
        private int next;

        // By the polling thread of the server.
        private final boolean[] seen = new boolean[MOST_OF_CHANNEL];
        private int last = -1;

        Channel(int number, MessageChannel channel) {
            this.number = number;
            this.channel = channel;
        }

        boolean goesOn() {
            return channel.isOpen() && next < MOST_OF_CHANNEL - 1; // one is for the check
        }
    }

    /** A thread, and its channel. */
    private final class Sender {
        private final int number;
        private final MemorySegment data = Arena.ofAuto().allocate(LONG);
        private final Semaphore arrived = new Semaphore(0); // the message that is awaited
        private volatile @Nullable Channel current;
        private volatile int awaited = -1;
        private @Nullable Message kept; // by the polling thread of the server

        Sender(int number) {
            this.number = number;
        }

        /** Of a channel that has ended, nothing is expected. */
        Channel connectIfEnded(Poller poller, InetSocketAddress server) {
            Channel before = current;
            if (before != null && before.goesOn()) {
                return before;
            }
            close();
            MessageChannel made = MessageChannel.connect(poller, server, OPTIONS, null);
            awaited = -1;
            Channel channel = new Channel(before == null ? 0 : before.number + 1, made);
            current = channel;
            return channel;
        }

        void close() {
            Channel before = current;
            if (before != null) {
                before.channel.close();
            }
        }

        void sendWhileHungry(Channel channel) {
            while ((hungry || channel.number == 0) && channel.goesOn()) {
                try {
                    send(channel);
                } catch (OutOfMemoryError e) {
                    outOfMemory.getAndIncrement();
                }
            }
        }

        /** Sends a message, which arrives if this returns true and the channel goes on. */
        private boolean send(Channel by) {
            int message = by.next++;
            int length = message % 3 == 2 ? LONG : SHORT;
            long mark = (long) number << 56 | (long) by.number << 32 | message;
            data.set(JAVA_LONG_UNALIGNED, 0, mark);
            data.set(JAVA_LONG_UNALIGNED, length - Long.BYTES, mark);
            long begin = System.nanoTime();
            try {
                if (message % 2 == 0) {
                    by.channel.send(data.asSlice(0, length), TIMEOUT);
                } else {
                    await(by.channel.sendAsync(data.asSlice(0, length)));
                }
            } catch (TimeoutException e) {
                hung.getAndIncrement();
                return false;
            } catch (VerbenaException e) {
                if (e.status() == Status.IO_TIMEOUT && by.channel.isOpen()) {
                    hung.getAndIncrement();
                }
                return false;
            } catch (ExecutionException | IllegalStateException e) { // the channel has ended
                return false;
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
            by.sent[message] = true;
            messages.getAndIncrement();
            longestWait.accumulateAndGet(System.nanoTime() - begin, Math::max);
            return true;
        }

        /** The memory of the message may be in use until its future is complete. */
        private void await(CompletableFuture<Void> future)
                throws InterruptedException, ExecutionException, TimeoutException {
            while (true) {
                try {
                    var _ = future.get(TIMEOUT.toMillis(), TimeUnit.MILLISECONDS);
                    return;
                } catch (OutOfMemoryError e) {
                    outOfMemory.getAndIncrement();
                }
            }
        }

        /** There is memory: one more message passes, and what was sent before has arrived. */
        void check(Poller poller, InetSocketAddress server) throws InterruptedException {
            Channel channel;
            do { // it may be ending just now
                channel = connectIfEnded(poller, server);
                awaited = channel.next;
                int ignored = arrived.drainPermits();
                if (send(channel)
                        && arrived.tryAcquire(TIMEOUT.toMillis(), TimeUnit.MILLISECONDS)) {
                    checkArrived(channel);
                    return;
                }
            } while (!channel.channel.isOpen());
            hung.getAndIncrement();
        }

        private void checkArrived(Channel channel) {
            for (int i = 0; i < channel.next; i++) {
                if (channel.sent[i] && !channel.seen[i]) {
                    lost.getAndIncrement();
                }
            }
        }

        /** A message has come, perhaps of a channel that has ended meanwhile. */
        void received(int ofChannel, int number, Message message) {
            Channel channel = current;
            if (channel == null || channel.number != ofChannel) {
                return;
            }
            if (ofChannel == 0
                    && number >= WARM) { // loads what an end needs, while there is memory for that
                throw new OutOfMemoryError("on purpose");
            }
            if (channel.seen[number]) {
                doubled.getAndIncrement();
            } else if (number < channel.last) {
                overtaken.getAndIncrement();
            }
            channel.seen[number] = true;
            channel.last = number;
            Message before = kept;
            kept = null;
            if (before != null) {
                before.release();
            }
            if (number == awaited) {
                arrived.release();
            } else if (this.number % 2 == 0) {
                kept = message.retain(); // until the next one has come
            }
        }
    }
}
