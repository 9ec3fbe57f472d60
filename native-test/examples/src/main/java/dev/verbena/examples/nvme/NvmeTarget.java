package dev.verbena.examples.nvme;

import dev.verbena.ConnectionOptions;
import dev.verbena.Connector;
import dev.verbena.Listener;
import dev.verbena.PathOptions;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.messaging.Poller;
import dev.verbena.messaging.RawReceives;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Consumer;

/**
 * Serves disks over RDMA to any NVMe host, such as the Linux kernel. Read in this order:
 *
 * <ol>
 *   <li>this class listens, and makes a {@link TargetQueue} of each connection;
 *   <li>{@link TargetQueue} and {@link RdmaExchange} do everything that has to do with RDMA;
 *   <li>{@link FabricsCommands}, {@link AdminCommands} and {@link IoCommands} carry out commands as
 *       the NVMe specifications want it;
 *   <li>{@link Controller} keeps what the target knows of a host, {@link Namespace} is a disk.
 * </ol>
 *
 * <p><b>A read from end to end.</b> The host sends a command of 64 bytes. {@link
 * TargetQueue#received} gets the message, an {@link RdmaExchange} copies the command out of it, and
 * {@link IoCommands} checks it and calls {@link Exchange#sendBlocks}. That posts two requests: an
 * RDMA write from the disk's memory into the host's, and the answer, a send that invalidates the
 * host's key. For a write the first request is an RDMA read, and its completion posts the answer.
 *
 * <p><b>Threads.</b> The poller's thread carries out all commands. The listener's threads accept
 * connections. A flush runs on a thread of its own, and many blocks are zeroed piece by piece, so
 * that other commands need not wait for it.
 */
public final class NvmeTarget implements AutoCloseable {
    /** The port that hosts expect. */
    public static final int PORT = 4420;

    /** How often silent hosts are looked for. */
    private static final int LOOK_MILLIS = 250;

    private static final Duration CONNECT_WITHIN = Duration.ofSeconds(30);

    /** A host whose command finds no receive posted sends it again after 0.64 ms. */
    private static final PathOptions PATH =
            PathOptions.DEFAULTS.withMinRnrTimer(Duration.ofNanos(640_000));

    /** How a target is made. */
    record Options(
            Limits limits,
            int sharedReceives,
            int mostConnections,
            PathOptions path,
            KeyReturn keyReturn,
            Duration connectWithin,
            Consumer<String> log) {
        static final Options DEFAULTS =
                new Options(
                        Limits.DEFAULTS,
                        0,
                        1024,
                        PATH,
                        KeyReturn.OF_COMMAND,
                        CONNECT_WITHIN,
                        line -> {});

        Options withLimits(Limits of) {
            return new Options(
                    of, sharedReceives, mostConnections, path, keyReturn, connectWithin, log);
        }

        /** The I/O queues of all hosts share this many receives; with 0 each has its own. */
        Options withSharedReceives(int count) {
            return new Options(limits, count, mostConnections, path, keyReturn, connectWithin, log);
        }

        Options withMostConnections(int count) {
            return new Options(limits, sharedReceives, count, path, keyReturn, connectWithin, log);
        }

        /**
         * After how long packets are sent again. A few round trips are right where many are lost.
         */
        Options withAckTimeout(Duration timeout) {
            PathOptions with = path.withAckTimeout(timeout);
            return new Options(
                    limits, sharedReceives, mostConnections, with, keyReturn, connectWithin, log);
        }

        Options withKeyReturn(KeyReturn of) {
            return new Options(
                    limits, sharedReceives, mostConnections, path, of, connectWithin, log);
        }

        /** How long a connection may be there without the command Connect. */
        Options withConnectWithin(Duration most) {
            return new Options(limits, sharedReceives, mostConnections, path, keyReturn, most, log);
        }

        Options withLog(Consumer<String> to) {
            return new Options(
                    limits, sharedReceives, mostConnections, path, keyReturn, connectWithin, to);
        }
    }

    private final Poller poller;
    private final Options options;
    private final Subsystems subsystems;
    private final FabricsCommands fabrics;
    private final AdminCommands admin;
    private final RawReceives sharedReceives; // null: each queue has its own
    private final Set<TargetQueue> queues = ConcurrentHashMap.newKeySet();
    private final AtomicInteger connections = new AtomicInteger();
    private final LongAdder commands = new LongAdder();
    private final LongAdder keyed = new LongAdder();
    private final LongAdder invalidating = new LongAdder();
    private final LongAdder failed = new LongAdder();
    private final ExecutorService workers = Executors.newFixedThreadPool(2, NvmeTarget::daemon);
    private final ScheduledExecutorService clock =
            Executors.newSingleThreadScheduledExecutor(NvmeTarget::daemon);
    private final Listener listener;

    private static Thread daemon(Runnable work) {
        return Thread.ofPlatform().daemon().name("nvme-target").unstarted(work);
    }

    /**
     * Starts to serve.
     *
     * @param poller of the device; the caller closes it after the target
     * @param address to listen on, one of the device's; with port 0 the kernel chooses a port
     * @param served the disks; the caller closes them after the poller
     */
    NvmeTarget(Poller poller, InetSocketAddress address, List<Subsystem> served, Options options) {
        this.poller = poller;
        this.options = options;
        this.sharedReceives =
                options.sharedReceives == 0
                        ? null
                        : RawReceives.shared(
                                poller,
                                options.sharedReceives,
                                Command.BYTES + options.limits.inCapsuleBytes());
        this.subsystems = new Subsystems(served, this::address);
        this.fabrics = new FabricsCommands(subsystems, options.limits);
        this.admin = new AdminCommands(subsystems);
        this.listener = poller.adapter().listen(address, 0, this::request);
        var _ =
                clock.scheduleAtFixedRate(
                        () -> poller.execute(this::endSilent),
                        LOOK_MILLIS,
                        LOOK_MILLIS,
                        TimeUnit.MILLISECONDS);
    }

    /**
     * Connects to itself once, and reads a block. Hosts wait 3 s for each step of a connection, and
     * a JVM is slow at what it does for the first time: on emulated processors the first connection
     * took 1.9 s without this.
     */
    void warmUp(String subsystem) {
        NvmeHost.Options options = NvmeHost.Options.of(UUID.randomUUID()).withQueueSize(2);
        try (NvmeHost host = NvmeHost.connect(poller, address(), subsystem, options)) {
            int read = host.disk(1).read(ByteBuffer.allocate(Namespace.BLOCK_BYTES));
            say("Warmed up: read %d bytes from itself".formatted(read));
        } catch (IOException | VerbenaException e) {
            report("warming up", e); // the first host waits longer, that is all
        }
    }

    InetSocketAddress address() {
        return listener.localAddress();
    }

    Counts counts() {
        return new Counts(commands.sum(), keyed.sum(), invalidating.sum(), failed.sum());
    }

    // ---- connections

    /**
     * Accepts or rejects a connection, which is to become a queue. Runs on a thread of the
     * listener; the host waits 3 s for the answer.
     */
    private void request(Connector connector) {
        try {
            if (connections.incrementAndGet() > options.mostConnections) {
                throw new QueueRequest.Refused(QueueRequest.Refusal.NO_RESOURCES);
            }
            accept(
                    connector,
                    QueueRequest.read(
                            connector.connectionData().privateData(),
                            options.limits.queues(),
                            options.limits.commands()));
        } catch (QueueRequest.Refused e) {
            connections.decrementAndGet();
            say("Refused %s: %s".formatted(connector.peerAddress(), e.refusal()));
            reject(connector, e.refusal());
        } catch (VerbenaException e) { // no queue pair or memory is left, or the host is gone
            connections.decrementAndGet();
            report("a connection of " + connector, e);
            reject(connector, QueueRequest.Refusal.NO_RESOURCES);
        }
    }

    private void accept(Connector connector, QueueRequest request) {
        TargetQueue queue = new TargetQueue(this, request, sharedReceives);
        queues.add(queue);
        var _ =
                queue.channel()
                        .acceptAsync(
                                connector,
                                ConnectionOptions.DEFAULTS
                                        .withoutAnnouncement() // hosts know none
                                        .assumingInvalidatablePeer()
                                        .withPath(options.path)
                                        .withPrivateData(request.acceptance()))
                        .thenRun(() -> poller.execute(queue::accepted));
    }

    private static void reject(Connector connector, QueueRequest.Refusal refusal) {
        try (connector) {
            connector.reject(refusal.toBytes());
        } catch (VerbenaException e) {
            return; // the host has given up
        }
    }

    // ---- what queues call

    Poller poller() {
        return poller;
    }

    Limits limits() {
        return options.limits;
    }

    KeyReturn keyReturn() {
        return options.keyReturn;
    }

    FabricsCommands fabrics() {
        return fabrics;
    }

    AdminCommands admin() {
        return admin;
    }

    /**
     * Runs work on another thread, then calls {@code then} on the polling thread with what the work
     * has thrown, or null.
     */
    void aside(Runnable work, Consumer<Throwable> then) {
        workers.execute(
                () -> {
                    Throwable thrown = null;
                    try {
                        work.run();
                    } catch (Throwable t) {
                        thrown = t;
                    }
                    Throwable outcome = thrown;
                    poller.execute(() -> then.accept(outcome));
                });
    }

    /** Runs the rest of a command on the polling thread, when that has polled in between. */
    void later(Runnable rest) {
        clock.execute(() -> poller.execute(rest));
    }

    void counted(boolean isKeyed, boolean invalidates, boolean hasFailed) {
        commands.increment();
        keyed.add(isKeyed ? 1 : 0);
        invalidating.add(invalidates ? 1 : 0);
        failed.add(hasFailed ? 1 : 0);
    }

    void ended(TargetQueue queue) {
        queues.remove(queue);
        connections.decrementAndGet();
    }

    void say(String line) {
        options.log.accept(line);
    }

    void report(String what, Throwable thrown) {
        options.log.accept("%s: %s".formatted(what, thrown));
    }

    /**
     * Ends the connections of hosts whose keep-alive time is over, and those that nobody has made a
     * queue of a controller. Runs on the polling thread.
     */
    private void endSilent() {
        long now = System.nanoTime();
        long within = options.connectWithin.toNanos();
        queues.forEach(queue -> queue.endUnused(now, within));
        Controller silent = subsystems.expired(now);
        while (silent != null) {
            silent.end("the host has shown no sign of life"); // which also forgets it
            silent = subsystems.expired(now);
        }
    }

    /** Stops listening, and ends all connections. */
    @Override
    public void close() {
        listener.close();
        try {
            for (TargetQueue queue : queues) {
                queue.abort("the target was stopped");
                Status ignored = queue.channel().closed().get(1, TimeUnit.MINUTES);
            }
            clock.shutdown(); // no queue has a command any more
            workers.shutdown();
            boolean ignored = workers.awaitTermination(1, TimeUnit.MINUTES);
            if (sharedReceives != null) {
                sharedReceives.close(); // no queue uses them any more
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (ExecutionException | TimeoutException e) {
            report("a queue does not end", e);
        }
    }
}
