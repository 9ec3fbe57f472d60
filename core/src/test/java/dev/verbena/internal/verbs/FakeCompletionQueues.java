package dev.verbena.internal.verbs;

import static java.lang.foreign.ValueLayout.JAVA_INT_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_LONG_UNALIGNED;

import dev.verbena.bindings.ibv_wc;

import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.function.LongConsumer;

/**
 * Completion queues of a {@link FakeDevice}, and the channels of their events. A queue that
 * overflows counts an overrun. The caller holds the device's monitor.
 */
final class FakeCompletionQueues {
    static final int SUCCESS = 0;

    /** Keeps every event until it is taken, one at a time, as the kernel does. */
    private static final class Channel {
        final int descriptor = Descriptors.newEventFd();
        final Deque<Queue> events = new ArrayDeque<>();

        void add(Queue queue) {
            events.add(queue);
            Descriptors.setReadable(descriptor);
        }

        void forget(Queue queue) {
            if (events.removeIf(of -> of == queue) && events.isEmpty()) {
                Descriptors.drain(descriptor);
            }
        }

        Queue take() {
            Queue taken = events.poll();
            if (taken != null && events.isEmpty()) {
                Descriptors.drain(descriptor);
            }
            return taken;
        }
    }

    /** One completion queue. */
    static final class Queue {
        private final Deque<byte[]> entries = new ArrayDeque<>();
        private int depth;
        private long context;
        private Channel channel;
        private boolean armed;
        private boolean solicitedOnly;
    }

    /** What a completion has, of which only some is valid if the request failed. */
    record Entry(long id, int status, int opcode, int bytes, int flags, int extra, int queuePair) {
        static Entry ended(long id, int status, int queuePair) {
            return new Entry(id, status, 0, 0, 0, 0, queuePair);
        }

        private byte[] toBytes() {
            byte[] raw = new byte[(int) ibv_wc.sizeof()];
            MemorySegment wc = MemorySegment.ofArray(raw);
            Arrays.fill(raw, (byte) 0xA5); // what is not valid is not zero either
            wc.set(JAVA_LONG_UNALIGNED, ibv_wc.wr_id$offset(), id);
            wc.set(JAVA_INT_UNALIGNED, ibv_wc.status$offset(), status);
            wc.set(JAVA_INT_UNALIGNED, ibv_wc.vendor_err$offset(), status == SUCCESS ? 0xA5 : 0x77);
            wc.set(JAVA_INT_UNALIGNED, ibv_wc.qp_num$offset(), queuePair);
            if (status == SUCCESS) {
                wc.set(JAVA_INT_UNALIGNED, ibv_wc.opcode$offset(), opcode);
                wc.set(JAVA_INT_UNALIGNED, ibv_wc.byte_len$offset(), bytes);
                wc.set(JAVA_INT_UNALIGNED, ibv_wc.wc_flags$offset(), flags);
                wc.set(JAVA_INT_UNALIGNED, ibv_wc.imm_data$offset(), extra);
            }
            return raw;
        }
    }

    private final FakeSettings settings;
    private final FakeObjects objects;
    private final Map<Long, Queue> queues = new HashMap<>();
    private final Map<Long, Channel> channels = new HashMap<>();
    private final List<Queue> lateEvents = new ArrayList<>();

    FakeCompletionQueues(FakeSettings settings, FakeObjects objects) {
        this.settings = settings;
        this.objects = objects;
    }

    int count() {
        return queues.size() + channels.size();
    }

    Queue find(long cq) {
        return queues.get(cq);
    }

    long lastAddress() {
        return queues.keySet().stream().mapToLong(Long::longValue).max().orElse(0);
    }

    // ---- control calls

    long createChannel() {
        long address = objects.made();
        if (address > 0) {
            channels.put(address, new Channel());
        }
        return address;
    }

    int descriptor(long channel) {
        return channels.get(channel).descriptor;
    }

    int lastDescriptor() {
        return descriptor(channels.keySet().stream().max(Long::compare).orElseThrow());
    }

    int destroyChannel(long channel) {
        settings.beforeOther.accept("ibv_destroy_comp_channel");
        settings.destroys.add("ibv_destroy_comp_channel"); // of which the kernel is not asked
        settings.notifyAll();
        int refusal = -settings.destroyErrors.getOrDefault("ibv_destroy_comp_channel", 0);
        if (refusal == 0
                && queues.values().stream().anyMatch(q -> q.channel == channels.get(channel))) {
            return -Errno.EBUSY;
        }
        if (refusal == 0) {
            Descriptors.close(channels.remove(channel).descriptor);
        }
        return refusal;
    }

    long create(int depth, long channel, int vector, long context) {
        long address = depth > 4 * settings.maxDepth ? -Errno.EINVAL : objects.made();
        if (address > 0) {
            Queue queue = new Queue();
            queue.depth = depth;
            queue.context = context;
            queue.channel = channels.get(channel);
            if (queue.channel != null) { // not of a probe
                settings.vectors.add(vector);
            }
            queues.put(address, queue);
        }
        return address;
    }

    int resize(long cq, int depth) {
        if (settings.resizeError != 0) {
            return -settings.resizeError;
        }
        if (queues.get(cq).entries.size() > depth) {
            return -Errno.EINVAL;
        }
        queues.get(cq).depth = depth;
        return 0;
    }

    int moderate(int count, int microseconds) {
        if (settings.moderationCount == 0) {
            return -Errno.EOPNOTSUPP;
        }
        settings.moderations.add("%d after %d us".formatted(count, microseconds));
        return count > settings.moderationCount ? -Errno.EINVAL : 0;
    }

    int destroy(long cq) {
        Queue removed = queues.get(cq);
        if (removed.channel != null) {
            removed.channel.forget(removed); // as the kernel does
        }
        return objects.destroy("ibv_destroy_cq", queues, cq);
    }

    // ---- completions

    /** Takes completions, and gives the id of each to a consumer. */
    int poll(long cq, int atMost, long wcs, LongConsumer taken) {
        Queue queue = queues.get(cq);
        MemorySegment to = Native.at(wcs, atMost * ibv_wc.sizeof());
        int count = 0;
        while (count < atMost && !queue.entries.isEmpty()) {
            MemorySegment entry = MemorySegment.ofArray(queue.entries.remove());
            MemorySegment.copy(entry, 0, to, count * ibv_wc.sizeof(), ibv_wc.sizeof());
            taken.accept(entry.get(JAVA_LONG_UNALIGNED, ibv_wc.wr_id$offset()));
            count++;
        }
        return count;
    }

    /** Queues a completion that has only what a real one has. */
    void add(Queue queue, Entry entry, boolean solicited) {
        if (queue.entries.size() == queue.depth) {
            settings.overruns++;
            return;
        }
        queue.entries.add(entry.toBytes());
        boolean failureWakes = entry.status != SUCCESS && settings.vendorId != FakeSettings.RXE;
        boolean solicitedWakes = solicited && settings.vendorId != FakeSettings.SIW;
        if (queue.armed && (!queue.solicitedOnly || solicitedWakes || failureWakes)) {
            queue.armed = false;
            if (queue.channel != null && settings.eventsAreLate) {
                lateEvents.add(queue);
            } else if (queue.channel != null) {
                bringEvent(queue);
            }
        }
    }

    /** Removes a destroyed queue pair's completions, as {@code __mlx5_cq_clean} does. */
    static void clean(Queue queue, int queuePair, LongConsumer removed) {
        for (Iterator<byte[]> entries = queue.entries.iterator(); entries.hasNext(); ) {
            MemorySegment wc = MemorySegment.ofArray(entries.next());
            if (wc.get(JAVA_INT_UNALIGNED, ibv_wc.qp_num$offset()) == queuePair) {
                entries.remove();
                removed.accept(wc.get(JAVA_LONG_UNALIGNED, ibv_wc.wr_id$offset()));
            }
        }
    }

    // ---- events

    boolean isArmed(long cq) {
        return find(cq).armed;
    }

    int arm(long cq, boolean solicitedOnly) {
        Queue queue = queues.get(cq);
        settings.arms.add(solicitedOnly);
        if (settings.notifyAnswer != 0) {
            return settings.notifyAnswer;
        }
        queue.armed = true;
        queue.solicitedOnly = solicitedOnly;
        return 0;
    }

    void bringLateEvents() {
        lateEvents.forEach(this::bringEvent);
        lateEvents.clear();
    }

    void bringEvent(Queue queue) {
        queue.channel.add(queue);
        settings.mostEventsNotTaken =
                Math.max(settings.mostEventsNotTaken, queue.channel.events.size());
    }

    boolean takeEvent(long channel, EventWait wait) {
        settings.eventsAskedFor = settings.eventsAskedFor + 1;
        settings.notifyAll();
        Queue of = channels.get(channel).take();
        if (of == null) {
            return false;
        }
        wait.context(of.context);
        Error error = settings.takingCompletionEvent.getAndSet(null);
        if (error != null) {
            throw error;
        }
        return true;
    }

    /** Makes all channels readable, as the kernel does when a device is removed. */
    void raiseChannels() {
        channels.values().forEach(channel -> Descriptors.setReadable(channel.descriptor));
    }
}
