package dev.verbena.examples.nvme;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;

/**
 * One host's use of a subsystem: its admin queue and I/O queues, a few registers, and how long the
 * host may be silent. Used by the polling thread only.
 *
 * <p>On PCI the registers are memory; over fabrics the host reads and writes them by commands
 * (Property Get and Set).
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
    private long keepAliveNanos; // 0: the host may be silent for ever
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
        keepAlive(keepAliveMillis);
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

    /** Reads a register; -1 when there is none. Only the capabilities have eight bytes. */
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
            for (Exchange kept : asyncEvents) { // a reset ends all commands that came before
                kept.fail(NvmeStatus.ABORT_REQUESTED);
            }
            asyncEvents.clear();
        }
        return true;
    }

    // ---- queues

    /** Adds a queue; false when there is one of this number. */
    boolean add(int number, Queue queue) {
        return queues.putIfAbsent(number, queue) == null;
    }

    boolean has(int number) {
        return queues.containsKey(number);
    }

    /** A queue's connection has ended. With the admin queue the controller ends. */
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

    // ---- keep-alive

    /** Sets after how many milliseconds, unsigned, a host that is there sends something. */
    void keepAlive(int millis) {
        keepAliveNanos = Integer.toUnsignedLong(millis) * 1_000_000;
    }

    /** A command has come, on any of its queues. */
    void alive(long now) {
        lastCommand = now;
    }

    /**
     * Whether the host has sent nothing for twice its keep-alive time. Twice, as commands may be
     * delayed on their way, and a host that is cut off by mistake has to connect again.
     */
    boolean isExpired(long now) {
        return keepAliveNanos > 0 && now - lastCommand > 2 * keepAliveNanos;
    }

    // ---- asynchronous events

    /** Keeps an Asynchronous Event Request, unanswered; false when there are too many. */
    boolean keep(Exchange asyncEvent) {
        return asyncEvents.size() < MOST_ASYNC_EVENTS && asyncEvents.add(asyncEvent);
    }

    /** Aborts a command that is kept; false when there is none of this id. */
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
