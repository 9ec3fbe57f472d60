package dev.verbena.bench;

import dev.verbena.Adapter;
import dev.verbena.Gid;
import dev.verbena.Port;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.util.HashMap;
import java.util.Map;

/**
 * The command line of the programs of this package, the same as in {@code c}: first what has no
 * name, then {@code --name value}.
 */
final class Options {
    private static final String PORT = "7174";

    private final String[] arguments;
    private final Map<String, String> named = new HashMap<>();

    /** Parses it; {@code names} are the options there are. */
    Options(String usage, int unnamed, String[] arguments, String... names) {
        if (arguments.length < unnamed || (arguments.length - unnamed) % 2 != 0) {
            throw new IllegalArgumentException("usage: " + usage);
        }
        this.arguments = arguments;
        for (String name : names) {
            named.put(name, null);
        }
        for (int i = unnamed; i < arguments.length; i += 2) {
            if (!named.containsKey(arguments[i])) {
                throw new IllegalArgumentException(
                        "%s: there is no such option; usage: %s".formatted(arguments[i], usage));
            }
            named.put(arguments[i], arguments[i + 1]);
        }
    }

    /** Those of a program with a server and a client. */
    static Options ofPair(String program, String[] arguments) {
        String usage =
                program
                        + " server|client ADDRESS [--from ADDRESS] [--port N] [--count N] [--warmup N] [--rounds N]; both sides with the same numbers";
        Options options =
                new Options(
                        usage, 2, arguments, "--from", "--port", "--count", "--warmup", "--rounds");
        if (!arguments[0].equals("server") && !arguments[0].equals("client")) {
            throw new IllegalArgumentException("usage: " + usage);
        }
        return options;
    }

    String argument(int index) {
        return arguments[index];
    }

    boolean is(String name, String value) {
        return value.equals(named.get(name));
    }

    String text(String name) {
        String given = named.get(name);
        if (given == null) {
            throw new IllegalArgumentException(name + " is missing");
        }
        return given;
    }

    /** A positive number. */
    int number(String name, int otherwise) {
        String given = named.get(name);
        if (given == null) {
            return otherwise;
        }
        try {
            int number = Integer.parseInt(given);
            if (number > 0) {
                return number;
            }
        } catch (NumberFormatException e) {
            // reported below
        }
        throw new IllegalArgumentException(
                "%s takes a positive number, not \"%s\"".formatted(name, given));
    }

    boolean server() {
        return arguments[0].equals("server");
    }

    /** Where the server listens. */
    InetSocketAddress address() {
        String port = named.get("--port");
        return new InetSocketAddress(
                literal(arguments[1]), Integer.parseInt(port == null ? PORT : port));
    }

    /** Where the client connects from; its device is the one that has it. */
    InetAddress from() {
        String from = named.get("--from");
        if (from == null) {
            throw new IllegalArgumentException(
                    "A client needs --from: the address of the device that it is to use");
        }
        return literal(from);
    }

    private static InetAddress literal(String address) {
        try {
            return InetAddress.getByName(address);
        } catch (UnknownHostException e) {
            throw new IllegalArgumentException("%s is no address".formatted(address), e);
        }
    }

    /** Opens the device with an address. */
    static Adapter adapterOf(InetAddress address) {
        for (String name : Adapter.activeNames()) {
            Adapter adapter = Adapter.open(name);
            if (adapter.ports().stream()
                    .filter(Port::active)
                    .flatMap(port -> port.gids().stream())
                    .anyMatch(entry -> entry.gid().equals(Gid.of(address)))) {
                return adapter;
            }
            adapter.close();
        }
        throw new IllegalArgumentException(
                "No device here has the address %s".formatted(address.getHostAddress()));
    }
}
