package dev.verbena.examples.nvme;

import dev.verbena.ConnectionOptions;
import dev.verbena.Connector;
import dev.verbena.Listener;
import dev.verbena.PathOptions;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.channel.Poller;
import dev.verbena.channel.RawReceives;

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
 * Serves disks over RDMA to any NVMe host, such as the Linux kernel. What to read first:
 *
 * <ol>
 *   <li>this class: listens, and makes a {@link TargetQueue} of each connection;
 *   <li>{@link TargetQueue} and {@link RdmaExchange}: all that has to do with RDMA;
 *   <li>{@link FabricsCommands}, {@link AdminCommands} and {@link IoCommands}: what NVMe wants;
 *   <li>{@link Controller} and {@link Namespace}: what is kept for a host, and the disk.
 * </ol>
 *
 * <p><b>Threads.</b> One polls, and carries out all commands; connections are accepted on those of
 * the listener; work that takes long (flushing a file, zeroing much) is done on another, so that it
 * holds up nobody.
 */
public final class NvmeTarget implements AutoCloseable {
    /** The port that hosts expect. */
    public static final int PORT = 4420;

    private static final int LOOK_MILLIS = 250; // for hosts that are silent
    private static final PathOptions PATH = // where shared receives are used up, hosts wait so long
            PathOptions.DEFAULTS.withMinRnrTimer(Duration.ofNanos(640_000));

    /** How a target is made. */
    record Options(
            Limits limits,
            int sharedReceives,
            int mostConnections,
            PathOptions path,
            KeyReturn keyReturn,
            Consumer<String> log) {
        static final Options DEFAULTS =
                new Options(Limits.DEFAULTS, 0, 1024, PATH, KeyReturn.OF_COMMAND, line -> {});

        Options withLimits(Limits of) {
            return new Options(of, sharedReceives, mostConnections, path, keyReturn, log);
        }

        /** I/O queues of all hosts share so many receives; 0: each has its own. */
        Options withSharedReceives(int count) {
            return new Options(limits, count, mostConnections, path, keyReturn, log);
        }

        Options withMostConnections(int count) {
            return new Options(limits, sharedReceives, count, path, keyReturn, log);
        }

        /** How soon packets are sent again; where many are lost, a few round trips are right. */
        Options withAckTimeout(Duration timeout) {
            PathOptions with = path.withAckTimeout(timeout);
            return new Options(limits, sharedReceives, mostConnections, with, keyReturn, log);
        }

        Options withKeyReturn(KeyReturn of) {
            return new Options(limits, sharedReceives, mostConnections, path, of, log);
        }

        Options withLog(Consumer<String> to) {
            return new Options(limits, sharedReceives, mostConnections, path, keyReturn, to);
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
     * Begins to serve.
     *
     * @param poller polls for it; closed by the caller, after this
     * @param address of the device; port 0 lets the kernel choose
     * @param served closed by the caller, after the poller
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
     * Connects to itself once, and reads a block. The kernel waits 3 s for each step of a
     * connection, and what a virtual machine does for the first time takes long: without this, 1.9
     * s to the first connection were seen under emulation.
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

    /** On a thread of the listener's. The host waits 3 s for the answer. */
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
        } catch (VerbenaException e) { // no queue pair or memory to be had, or the host is gone
            connections.decrementAndGet();
            report("a connection of " + connector, e);
            reject(connector, QueueRequest.Refusal.NO_RESOURCES);
        }
    }

    private void accept(Connector connector, QueueRequest request) {
        TargetQueue queue = new TargetQueue(this, request, sharedReceives);
        queues.add(queue);
        queue.channel().open(connector); // first: commands may come before the accept returns
        var _ =
                connector
                        .acceptAsync(
                                queue.channel().queuePair(),
                                ConnectionOptions.DEFAULTS
                                        .withoutAnnouncement() // hosts know none
                                        .assumingInvalidatablePeer()
                                        .withPath(options.path)
                                        .withPrivateData(request.acceptance()))
                        .whenComplete(
                                (nothing, thrown) -> {
                                    if (thrown == null) {
                                        poller.execute(queue::accepted);
                                    } else {
                                        queue.abort("it was not accepted: " + thrown);
                                    }
                                });
    }

    private static void reject(Connector connector, QueueRequest.Refusal refusal) {
        try (connector) {
            connector.reject(refusal.toBytes());
        } catch (VerbenaException e) {
            return; // the host has given up
        }
    }

    // ---- for queues

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

    /** Does something on another thread; then goes on here, with what was thrown or null. */
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

    /** By the polling thread. */
    private void endSilent() {
        long now = System.nanoTime();
        for (Controller controller : subsystems.controllers()) {
            if (controller.isExpired(now)) {
                controller.end("the host has shown no sign of life");
            }
        }
    }

    /** Refuses hosts from now on, and ends the connections of those that there are. */
    @Override
    public void close() {
        listener.close();
        clock.shutdown();
        workers.shutdown();
        try {
            for (TargetQueue queue : queues) {
                queue.abort("the target was stopped");
                Status ignored = queue.channel().closed().get(1, TimeUnit.MINUTES);
            }
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
