package dev.verbena.examples.nvme;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;

/**
 * What one host has of a subsystem: a few registers, an admin queue and I/O queues, and the promise
 * to show signs of life. Belongs to the polling thread.
 *
 * <p>On PCI its registers are memory; here the host gets and sets them by commands (properties).
 */
final class Controller {
    static final int MOST_ASYNC_EVENTS = 4;

    private static final int CAPABILITIES = 0x00;
    private static final int VERSION = 0x08;
    private static final int CONFIGURATION = 0x14;
    private static final int STATUS = 0x1c;

    static final int VERSION_1_3 = 0x10300;
    private static final int ENABLE = 1;
    private static final int SHUTDOWN = 3 << 14;
    private static final int READY = 1;
    private static final int SHUTDOWN_COMPLETE = 2 << 2;

    private final Subsystem subsystem;
    private final int id;
    private final String hostName;
    private final Limits limits;
    private final Map<Integer, Queue> queues = new HashMap<>();
    private final Deque<Exchange> asyncEvents = new ArrayDeque<>();
    private final long keepAliveNanos; // 0: the host promises nothing
    private long lastCommand;
    private int configuration;
    private int asyncEventConfiguration;

    /** One of its queues. */
    interface Queue {
        /** Ends its connection. */
        void abort(String why);
    }

    Controller(
            Subsystem subsystem,
            int id,
            String hostName,
            Limits limits,
            int keepAliveMillis,
            long now) {
        this.subsystem = subsystem;
        this.id = id;
        this.hostName = hostName;
        this.limits = limits;
        this.keepAliveNanos = Integer.toUnsignedLong(keepAliveMillis) * 1_000_000;
        this.lastCommand = now;
    }

    Subsystem subsystem() {
        return subsystem;
    }

    int id() {
        return id;
    }

    String hostName() {
        return hostName;
    }

    Limits limits() {
        return limits;
    }

    int keepAliveMillis() {
        return (int) (keepAliveNanos / 1_000_000);
    }

    // ---- registers

    boolean isEnabled() {
        return (configuration & ENABLE) != 0;
    }

    /** Reads a register; -1 when there is none. Eight bytes only the capabilities. */
    long property(int offset, boolean eightBytes) {
        if (eightBytes != (offset == CAPABILITIES)) {
            return -1;
        }
        return switch (offset) {
            case CAPABILITIES ->
                    limits.commands() - 1 // MQES
                            | 1L << 16 // queues are contiguous
                            | 15L << 24 // ready within 7.5 s
                            | 1L << 37; // the NVM command set
            case VERSION -> VERSION_1_3;
            case CONFIGURATION -> Integer.toUnsignedLong(configuration);
            case STATUS ->
                    (isEnabled() ? READY : 0)
                            | ((configuration & SHUTDOWN) != 0 ? SHUTDOWN_COMPLETE : 0);
            default -> -1;
        };
    }

    /** Writes a register; false when there is none that can be written. */
    boolean setProperty(int offset, boolean eightBytes, long value) {
        if (offset != CONFIGURATION || eightBytes) {
            return false;
        }
        boolean before = isEnabled();
        configuration = (int) value;
        if (before && !isEnabled()) {
            for (Exchange kept : asyncEvents) { // a reset: what was asked before is over
                kept.fail(NvmeStatus.ABORT_REQUESTED);
            }
            asyncEvents.clear();
        }
        return true;
    }

    // ---- queues

    /** Takes a queue; false when it has one of this number. */
    boolean add(int number, Queue queue) {
        return queues.putIfAbsent(number, queue) == null;
    }

    boolean has(int number) {
        return queues.containsKey(number);
    }

    /** A queue has ended; without its admin queue the controller is no more. */
    void ended(int number) {
        queues.remove(number);
        if (number == 0) {
            end("its admin queue has ended");
        }
    }

    /** Ends all queues. */
    void end(String why) {
        subsystem.remove(this);
        asyncEvents.clear();
        for (Queue queue : Map.copyOf(queues).values()) {
            queue.abort(why);
        }
    }

    // ---- signs of life

    /** A command has come, on whichever queue. */
    void alive(long now) {
        lastCommand = now;
    }

    /**
     * Whether the host has been silent for twice the time that it promised: its commands travel,
     * too, and a host that is cut off by mistake has to recover.
     */
    boolean isExpired(long now) {
        return keepAliveNanos > 0 && now - lastCommand > 2 * keepAliveNanos;
    }

    // ---- asynchronous events

    /** Keeps a command that is answered when something happens; false when it has enough. */
    boolean keep(Exchange asyncEvent) {
        return asyncEvents.size() < MOST_ASYNC_EVENTS && asyncEvents.add(asyncEvent);
    }

    /** Ends a command that is kept; false when it is none. */
    boolean abort(int commandId) {
        for (Exchange kept : asyncEvents) {
            if (kept.command().id() == commandId) {
                asyncEvents.remove(kept);
                kept.fail(NvmeStatus.ABORT_REQUESTED);
                return true;
            }
        }
        return false;
    }

    int asyncEventConfiguration() {
        return asyncEventConfiguration;
    }

    void configureAsyncEvents(int configuration) {
        asyncEventConfiguration = configuration;
    }

    @Override
    public String toString() {
        return "controller %d of %s for %s".formatted(id, subsystem.name(), hostName);
    }
}
