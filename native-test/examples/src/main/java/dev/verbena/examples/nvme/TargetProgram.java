package dev.verbena.examples.nvme;

import dev.verbena.Adapter;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.Poller;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.FileSystemException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * {@code nvme-target}: serves files, or memory, as disks to NVMe hosts over RDMA.
 *
 * <pre>
 * nvme-target --device roce0 --file disk.img --nqn nqn.2026-11.dev.verbena:disk
 * </pre>
 */
public final class TargetProgram {
    private static final String USAGE =
            """
            Usage: nvme-target [--device NAME] [--address ADDRESS] [--port PORT] [--nqn NAME]
                               [--file FILE]... [--memory MIB]... [--shared-receives COUNT] [--ack-timeout MS]
                               [--quiet]

            Serves each file, and each amount of memory, as a disk of one NVMe subsystem over RDMA.

              --device           an RDMA device; the first that is active, if none is named
              --address          of the device, to listen on; its first one, if none is named
              --port             4420, if none is named
              --nqn              the subsystem's name
              --file             an existing file; flushed when a host wants it, and at the end
              --memory           a disk of zeros of so many MiB, which is lost at the end
              --shared-receives  how many receives the I/O queues of all hosts share
              --ack-timeout      after how many ms packets are sent again that were lost
              --quiet            prints no line for each host
            """;
    private static final int LINES_WAITING = 1000;
    private static final Duration SPIN = Duration.ofNanos(50_000);

    private String device;
    private InetAddress address;
    private int port = NvmeTarget.PORT;
    private String name = "nqn.2026-11.dev.verbena:disk";
    private final List<Path> files = new ArrayList<>();
    private final List<Long> memories = new ArrayList<>();
    private NvmeTarget.Options options = NvmeTarget.Options.DEFAULTS;
    private boolean quiet;

    private TargetProgram() {}

    /**
     * Runs until it is ended by a signal.
     *
     * @param arguments as the usage says
     * @throws IOException when a file cannot be opened or mapped
     * @throws InterruptedException when it is interrupted
     */
    public static void main(String[] arguments) throws IOException, InterruptedException {
        TargetProgram program = new TargetProgram();
        try {
            program.parse(arguments);
        } catch (IllegalArgumentException e) {
            System.err.println(e.getMessage());
            System.err.print(USAGE);
            System.exit(64);
        }
        try {
            program.run();
        } catch (VerbenaException | IllegalArgumentException e) { // its message says what to do
            System.err.println(e.getMessage());
            System.exit(1);
        } catch (FileSystemException e) {
            String why = e.getReason() == null ? e.getClass().getSimpleName() : e.getReason();
            System.err.println(
                    "%s cannot be served (%s): --file needs an existing file that you may read and write"
                            .formatted(e.getFile(), why));
            System.exit(1);
        }
    }

    private void parse(String[] arguments) throws IOException {
        for (int i = 0; i < arguments.length; i++) {
            String option = arguments[i];
            if (option.equals("--quiet")) {
                quiet = true;
                continue;
            }
            if (i + 1 == arguments.length) {
                throw new IllegalArgumentException("%s needs a value".formatted(option));
            }
            String value = arguments[++i];
            switch (option) {
                case "--device" -> device = value;
                case "--address" -> address = InetAddress.getByName(value);
                case "--port" -> port = Integer.parseInt(value);
                case "--nqn" -> name = value;
                case "--file" -> files.add(Path.of(value));
                case "--memory" -> memories.add(mebibytes(value));
                case "--shared-receives" ->
                        options = options.withSharedReceives(Integer.parseInt(value));
                case "--ack-timeout" ->
                        options = options.withAckTimeout(Duration.ofMillis(Long.parseLong(value)));
                default -> throw new IllegalArgumentException("There is no option " + option);
            }
        }
        if (files.isEmpty() && memories.isEmpty()) {
            throw new IllegalArgumentException("Name a --file or --memory to serve");
        }
    }

    private static long mebibytes(String value) {
        long count = Long.parseLong(value);
        if (count < 1) {
            throw new IllegalArgumentException("--memory needs 1 MiB at least");
        }
        return count << 20;
    }

    private Adapter open() {
        if (device != null) {
            return Adapter.open(device);
        }
        if (address != null) {
            return Adapter.forAddress(address);
        }
        List<String> active = Adapter.activeNames();
        if (active.isEmpty()) {
            String none = Adapter.whyNone();
            throw new VerbenaException(
                    Status.INVALID_PARAMETER,
                    none.isEmpty() ? "No RDMA device here has its link up" : none);
        }
        return Adapter.open(active.getFirst());
    }

    private void run() throws IOException, InterruptedException {
        for (Path file : files) {
            Namespace.check(file); // before anything begins
        }
        CountDownLatch stopped = new CountDownLatch(1);
        CountDownLatch closed = new CountDownLatch(1);
        Runtime.getRuntime()
                .addShutdownHook(
                        new Thread(
                                () -> { // the disks are flushed before the process ends
                                    stopped.countDown();
                                    try {
                                        closed.await();
                                    } catch (InterruptedException e) {
                                        Thread.currentThread().interrupt();
                                    }
                                }));
        List<Namespace> disks = new ArrayList<>();
        try (Adapter adapter = open()) {
            try (Poller poller = Poller.start(adapter, IdleStrategy.spinThenWait(SPIN))) {
                for (Path file : files) {
                    String disk = "%s %s".formatted(name, file.toRealPath());
                    disks.add(Namespace.ofFile(poller.domain(), file, disk));
                }
                for (long bytes : memories) {
                    String disk = "%s memory %d".formatted(name, disks.size());
                    disks.add(Namespace.inMemory(poller.domain(), bytes, disk));
                }
                InetAddress local =
                        address == null ? adapter.gid().gid().gid().toInetAddress() : address;
                NvmeTarget.Options logging = quiet ? options : options.withLog(printer());
                try (NvmeTarget target =
                        new NvmeTarget(
                                poller,
                                new InetSocketAddress(local, port),
                                List.of(new Subsystem(name, disks)),
                                logging)) {
                    target.warmUp(name);
                    greet(target);
                    stopped.await();
                    System.out.println(target.counts());
                }
            } finally {
                disks.forEach(Namespace::close); // no queue uses them any more
            }
        } finally {
            closed.countDown();
        }
    }

    /** Prints on a thread of its own: the polling thread must not wait for a full pipe. */
    private static Consumer<String> printer() {
        ThreadPoolExecutor thread =
                new ThreadPoolExecutor(
                        1,
                        1,
                        0,
                        TimeUnit.SECONDS,
                        new ArrayBlockingQueue<>(LINES_WAITING),
                        work -> Thread.ofPlatform().daemon().name("nvme-log").unstarted(work),
                        new ThreadPoolExecutor.DiscardPolicy()); // and lines beyond are lost
        return line -> thread.execute(() -> System.out.println(line));
    }

    private void greet(NvmeTarget target) {
        InetSocketAddress at = target.address();
        String host = at.getAddress().getHostAddress();
        System.out.println("Listening on %s, port %d, for %s".formatted(host, at.getPort(), name));
        System.out.println("On the other side, as root:");
        System.out.println("    modprobe nvme-rdma");
        System.out.println(
                "    nvme connect -t rdma -a %s -s %d -n %s".formatted(host, at.getPort(), name));
        System.out.println("or, without nvme-cli:");
        System.out.println(
                "    echo transport=rdma,traddr=%s,trsvcid=%d,nqn=%s >/dev/nvme-fabrics"
                        .formatted(host, at.getPort(), name));
    }
}
