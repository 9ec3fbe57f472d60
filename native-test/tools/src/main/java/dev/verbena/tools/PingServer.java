package dev.verbena.tools;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.BufferList;
import dev.verbena.Connector;
import dev.verbena.Listener;
import dev.verbena.MemoryRegion;
import dev.verbena.RemoteMemory;
import dev.verbena.Status;
import dev.verbena.VerbenaException;

import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

import java.io.PrintWriter;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.LinkedBlockingQueue;

/** Serves clients, one after the other: reads the data of each round and writes it back. */
@Command(
        name = "server",
        mixinStandardHelpOptions = true,
        versionProvider = Versions.class,
        sortOptions = false,
        description = "Serves one client, or several one after the other, and checks their data.")
final class PingServer implements Callable<Integer> {
    @Spec private CommandSpec spec;

    @Option(
            names = "--bind",
            paramLabel = "ADDRESS",
            description = "The address to listen on (default: all addresses of the device).")
    private InetAddress bind;

    @Mixin private PingOptions options;

    @ArgGroup private Clients clients = new Clients();

    @Option(
            names = "--size",
            defaultValue = "1048576",
            converter = ToolBytes.class,
            paramLabel = "BYTES",
            description =
                    "The largest size of data that a client may use, as in 64K (default: ${DEFAULT-VALUE}).")
    private int size;

    /** How many clients; one of the two. */
    private static final class Clients {
        @Option(
                names = "--clients",
                paramLabel = "N",
                description = "How many clients to serve before it exits (default: 1).")
        int count = 1;

        @Option(names = "--forever", description = "Serve clients until it is stopped.")
        boolean forever;
    }

    @Override
    public Integer call() {
        options.check(spec, 0);
        PingOptions.within(spec, "--size", size, PingOptions.SMALLEST, PingOptions.LARGEST);
        PingOptions.within(spec, "--clients", clients.count, 1, Integer.MAX_VALUE);
        BlockingQueue<Connector> requests = new LinkedBlockingQueue<>();
        try (Adapter adapter = ToolDevices.forServer(options.device, bind);
                Listener listener = adapter.listen(address(), 0, requests::add)) {
            out().printf(
                            "Listening on %s of %s%n",
                            ToolDevices.describe(listener.localAddress()), adapter.name());
            boolean allWell = true;
            int served = 0;
            while (clients.forever || served < clients.count) {
                End end = serve(adapter, requests.take());
                served += end == End.GAVE_UP ? 0 : 1;
                allWell &= end != End.BADLY;
            }
            return allWell ? 0 : 1;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new ToolFailure("Interrupted while waiting for a client");
        } finally {
            requests.forEach(Connector::close);
        }
    }

    private PrintWriter out() {
        return spec.commandLine().getOut();
    }

    private InetSocketAddress address() {
        return bind == null
                ? new InetSocketAddress(options.port)
                : new InetSocketAddress(bind, options.port);
    }

    private enum End {
        WELL,
        BADLY,
        /** It did not wait until its turn came: it is no client. */
        GAVE_UP
    }

    /** Serves one client; a failure ends that client's session only. */
    private End serve(Adapter adapter, Connector request) {
        boolean accepted = false;
        try (request;
                PingEnd end = new PingEnd(adapter, options)) {
            String peer = ToolDevices.describe(request.peerAddress());
            MemoryRegion data = end.register(size, Access.LOCAL_WRITE);
            end.accept(request, options.connection());
            accepted = true;
            Served served = rounds(end, data);
            if (served.rounds() == 0) {
                throw new ToolFailure("The client disconnected before the first round");
            }
            out().printf(
                            "%s: %s of %s%s%n",
                            peer,
                            Words.count(served.rounds(), "round"),
                            Words.count(served.bytes(), "byte"),
                            options.verify ? "; all data was correct" : "");
            return End.WELL;
        } catch (VerbenaException | ToolFailure e) {
            spec.commandLine().getErr().println(e.getMessage());
            boolean gaveUp =
                    !accepted
                            && e instanceof VerbenaException failure
                            && failure.status() == Status.CONNECTION_ABORTED
                            && failure.verb().isEmpty(); // or a call has failed here
            return gaveUp ? End.GAVE_UP : End.BADLY;
        } catch (RuntimeException | OutOfMemoryError e) { // what a strange client wants, perhaps
            spec.commandLine().getErr().println(e);
            return End.BADLY;
        }
    }

    /** How many rounds a client had, and with how much data in the last. */
    private record Served(int rounds, long bytes) {}

    /** Serves rounds until the client disconnects. */
    private Served rounds(PingEnd end, MemoryRegion data) {
        BufferList goAhead = BufferList.of(end.register(RpingMessage.BYTES));
        long bytes = 0;
        for (int round = 0; ; round++) {
            RemoteMemory source = end.receive();
            if (source == null) {
                return new Served(round, bytes);
            }
            bytes = source.bytes();
            fetch(end, data, source, round);
            end.send(goAhead);
            RemoteMemory sink = end.receive();
            if (sink == null) {
                throw new ToolFailure("The client disconnected in the middle of round %,d", round);
            }
            bring(end, data, bytes, sink);
            end.send(goAhead);
        }
    }

    private void fetch(PingEnd end, MemoryRegion data, RemoteMemory source, int round) {
        if (source.bytes() > size) {
            throw new ToolFailure(
                    "The client's data has %s, and this server accepts up to %,d: start it with a larger --size",
                    Words.count(source.bytes(), "byte"), size);
        }
        end.read(data, source);
        if (!options.verify) {
            return;
        }
        long at = PingData.mismatch(data.memory().asSlice(0, source.bytes()), round);
        if (at >= 0) {
            throw new ToolFailure(
                    "The data of round %,d differs from what rping and ping send, from byte %,d of %,d on (--no-verify accepts any data)",
                    round, at, source.bytes());
        }
    }

    private static void bring(PingEnd end, MemoryRegion data, long bytes, RemoteMemory sink) {
        if (sink.bytes() < bytes) {
            throw new ToolFailure(
                    "The client's data has %s, and its buffer for what comes back only %,d",
                    Words.count(bytes, "byte"), sink.bytes());
        }
        end.write(data, bytes, sink);
    }
}
