package dev.verbena.tools;

import dev.verbena.Adapter;
import dev.verbena.Connector;
import dev.verbena.Listener;
import dev.verbena.QueuePair;
import dev.verbena.VerbenaException;

import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

import java.io.PrintWriter;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/** Serves clients, one after the other; each client's plan says what is measured. */
@Command(
        name = "server",
        mixinStandardHelpOptions = true,
        versionProvider = Versions.class,
        sortOptions = false,
        description =
                "Serves clients, one after the other, until it is stopped. Clients choose what is"
                        + " measured, and how.")
final class PerfServer implements Callable<Integer> {
    private static final int REASON_BYTES = 136; // what a refusal carries

    @Spec private CommandSpec spec;

    @Option(
            names = "--bind",
            paramLabel = "ADDRESS",
            description = "The address to listen on (default: all addresses of the device).")
    private InetAddress bind;

    @Mixin private PerfOptions options;

    @Option(names = "--once", description = "Serve one client, and exit.")
    private boolean once;

    private static final long LOOK_EVERY_MILLIS = 200; // for a client that has left

    private final BlockingQueue<Connector> requests = new LinkedBlockingQueue<>();
    private final Deque<Connector> later = new ArrayDeque<>();

    @Override
    public Integer call() {
        return run(() -> ToolDevices.forServer(options.device, bind));
    }

    /** Serves; with a device that is opened once the command line is known to be right. */
    int run(Supplier<Adapter> device) {
        options.check(spec, 0);
        InetSocketAddress address =
                bind == null
                        ? new InetSocketAddress(options.port)
                        : new InetSocketAddress(bind, options.port);
        try (Adapter adapter = device.get();
                Listener listener = adapter.listen(address, 0, requests::add)) {
            out().printf(
                            "Listening on %s of %s%n",
                            ToolDevices.describe(listener.localAddress()), adapter.name());
            while (true) {
                boolean well = serve(adapter, later.isEmpty() ? requests.take() : later.remove());
                if (once) {
                    return well ? 0 : 1;
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new ToolFailure("Interrupted while waiting for a client");
        } finally {
            requests.forEach(Connector::close);
            later.forEach(Connector::close);
        }
    }

    private PrintWriter out() {
        return spec.commandLine().getOut();
    }

    /** Serves one client; a failure ends that client's session only. */
    private boolean serve(Adapter adapter, Connector request) throws InterruptedException {
        try (request) {
            return serveRequest(adapter, request);
        } catch (VerbenaException | ToolFailure e) {
            return failed(e.getMessage());
        } catch (RuntimeException | OutOfMemoryError e) { // what a strange client wants, perhaps
            return failed(e.toString());
        }
    }

    private boolean failed(String why) throws InterruptedException {
        if (PerfStop.asked()) {
            throw new InterruptedException(); // reported once, by the launcher
        }
        spec.commandLine().getErr().println(why);
        return false;
    }

    private boolean serveRequest(Adapter adapter, Connector request) throws InterruptedException {
        Deque<AutoCloseable> made = new ArrayDeque<>();
        try {
            Session session;
            try {
                PerfPlan plan = PerfPlan.decode(request.connectionData().privateData());
                if (plan.index() != 0) {
                    throw new ToolFailure("A connection arrived for a session that is over");
                }
                session = new Session(adapter, plan, request, made);
            } catch (VerbenaException | ToolFailure e) {
                request.reject(shortened(e.getMessage()));
                throw e;
            }
            session.connect(request);
            session.serve(ToolDevices.describe(request.peerAddress()));
            return true;
        } finally {
            PerfControl.closeAll(made);
        }
    }

    private static byte[] shortened(String message) {
        byte[] words = message.getBytes(StandardCharsets.UTF_8);
        return words.length <= REASON_BYTES ? words : Arrays.copyOf(words, REASON_BYTES);
    }

    /** One client's, from its first connection to its last. */
    private final class Session {
        private final PerfPlan plan;
        private final PerfTerms terms;
        private final Deque<AutoCloseable> made;
        private final PerfControl control;
        private final PerfEnd end; // null for channels
        private final PerfMessages channels; // null for queue pairs
        private PerfLoops loops;

        Session(Adapter adapter, PerfPlan plan, Connector request, Deque<AutoCloseable> made) {
            this.plan = plan;
            this.made = made;
            PerfTerms possible = PerfTerms.of(plan, adapter.info());
            control = new PerfControl(adapter, plan.timeout(), true);
            made.push(control);
            if (plan.operation() == PerfOperation.CHANNEL) {
                end = null;
                channels = PerfMessages.server(adapter, plan, possible, request.localAddress());
                made.push(channels);
                terms = possible.withPort(channels.port());
            } else {
                end = new PerfEnd(adapter, plan, possible, true);
                made.push(end);
                channels = null;
                terms = possible;
            }
        }

        void connect(Connector request) throws InterruptedException {
            accept(request, control.queuePair());
            control.watch(request);
            if (channels != null) {
                channels.awaitConnected(control);
                loops = channels;
                return;
            }
            for (int q = 0; q < plan.queuePairs(); q++) {
                Connector next = next(q + 1);
                made.push(next);
                accept(next, end.queuePairs[q]);
                end.watch(next);
            }
            loops =
                    plan.latency()
                            ? new PerfLatency(plan, end, true)
                            : new PerfBandwidth(plan, terms, end, true, 0);
        }

        private void accept(Connector request, QueuePair queuePair) {
            PerfAddress own = PerfAddress.of(queuePair, request.localAddress().getAddress());
            request.accept(queuePair, plan.connection(terms.encode(own)));
        }

        /** This client's next connection; other clients have to wait. */
        private Connector next(int index) throws InterruptedException {
            long until = System.nanoTime() + plan.timeout().toNanos();
            while (true) {
                Connector request = requests.poll(LOOK_EVERY_MILLIS, TimeUnit.MILLISECONDS);
                if (control.peerHasLeft()) {
                    throw new ToolFailure(
                            "The client disconnected before all of its connections were established");
                }
                if (System.nanoTime() - until > 0) {
                    throw new ToolFailure(
                            "The client did not establish all of its connections within %d s (--timeout)",
                            plan.seconds());
                }
                if (request == null) {
                    continue;
                }
                PerfPlan theirs;
                try {
                    theirs = PerfPlan.decode(request.connectionData().privateData());
                } catch (ToolFailure e) {
                    later.add(request); // refused when it is its turn
                    continue;
                }
                if (theirs.equals(plan.withIndex(index))) {
                    return request;
                }
                later.add(request);
            }
        }

        void serve(String peer) {
            out().printf("%s: %s %s%n", peer, plan.operation(), plan.measure());
            int rounds = 0;
            try {
                while (true) {
                    PerfControl.Message message = control.receiveUnlessPeerLeft();
                    if (message == null) {
                        break;
                    }
                    round(control.checked(message, PerfControl.Kind.ROUND));
                    rounds++;
                }
            } catch (ToolFailure | VerbenaException e) {
                control.sendFailure(e.getMessage());
                throw e;
            } catch (RuntimeException e) { // a bug of perf
                control.sendFailure(e.toString());
                throw e;
            }
            if (rounds == 0) {
                throw new ToolFailure("The client disconnected before it had measured anything");
            }
            out().printf("%s: complete; all data was correct%n", peer);
        }

        private void round(PerfControl.Message message) {
            int size = message.size();
            int least =
                    plan.latency() && plan.operation() == PerfOperation.SEND_INV
                            ? Integer.BYTES // the token
                            : 1;
            if (size < least || size > terms.largest() || message.count() < 0) {
                throw new ToolFailure(
                        "The client asks for %s of %s, which this server does not support",
                        Words.count(message.count(), "message"), Words.count(size, "byte"));
            }
            PerfCompilers.awaitIdle(plan.seconds() / 2);
            int count = message.count();
            loops.prepare(size, PerfData.seed(message.number(), true));
            loops.begin(size, count, message.address(), message.token(), 0, PerfLoops.AS_PLANNED);
            control.send(
                    new PerfControl.Message(
                            PerfControl.Kind.READY,
                            message.number(),
                            size,
                            message.count(),
                            loops.address(),
                            loops.token(),
                            loops.firstWindow(),
                            ""));
            double rate = loops.serve(message.count());
            PerfControl.Message over = control.receiveUnlessPeerLeft();
            if (over == null) {
                throw new ToolFailure("The client disconnected in the middle of a measurement");
            }
            control.checked(over, PerfControl.Kind.OVER);
            long wrong =
                    loops.mismatch(
                            size, over.count(), PerfData.seed(message.number(), false), true);
            if (wrong >= 0) {
                throw new ToolFailure(
                        "The data from the client is wrong from byte %,d of %,d on", wrong, size);
            }
            control.send(PerfControl.Message.checked(loops.fewest(), rate));
        }
    }
}
