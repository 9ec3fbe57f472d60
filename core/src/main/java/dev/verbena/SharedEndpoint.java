package dev.verbena;

import dev.verbena.internal.connect.Listening;
import dev.verbena.internal.device.Addresses;
import dev.verbena.internal.runtime.Teardown;

import org.jspecify.annotations.Nullable;

import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A local address and port that several connectors connect from: NDK's shared endpoint. No two of
 * them connect to the same peer address and port.
 *
 * <p>May be used from any thread. After it is closed, the address stays in use until the
 * connections from it are closed.
 */
public final class SharedEndpoint extends NativeObject {
    /** One connector's use of this endpoint, from its connect until its queue pair is released. */
    interface Use {
        void release();
    }

    static final Use NO_USE = () -> {};

    private final Adapter adapter;
    private final Listening held; // binds the address, but never listens
    private final Set<String> peers = ConcurrentHashMap.newKeySet();

    SharedEndpoint(Adapter adapter, InetSocketAddress address) {
        super(adapter);
        this.adapter = adapter;
        Listening made = null;
        try {
            Addresses.check(adapter.device().ports(), address, "connect from");
            made =
                    new Listening(
                            adapter.device().connectionEvents(),
                            adapter.name(),
                            address,
                            new Listening.Limits(0, Duration.ZERO, Duration.ZERO),
                            request -> {});
            made.share();
            this.held = made;
        } catch (Throwable t) {
            abandon(made);
            throw t;
        }
    }

    private void abandon(@Nullable Listening made) {
        try {
            if (made != null) {
                made.close();
            }
        } finally {
            abandon();
        }
    }

    Use use(InetSocketAddress peer) {
        acquire();
        // As text, because Java considers IPv6 addresses equal that differ only in their scope.
        String name = peer.getAddress().getHostAddress() + " " + peer.getPort();
        if (!peers.add(name)) {
            release();
            throw new VerbenaException(
                    Status.ADDRESS_ALREADY_EXISTS,
                    "A connection from %s to %s exists already".formatted(localAddress(), peer));
        }
        return () -> {
            peers.remove(name);
            release();
        };
    }

    /**
     * The shared address (NdkGetSharedEndpointLocalAddress).
     *
     * @return the address, with the actual port if port 0 was requested
     */
    public InetSocketAddress localAddress() {
        return held.address();
    }

    @Override
    void destroy(Teardown end) {
        held.close();
    }

    @Override
    String describe() {
        return "SharedEndpoint of %s on %s".formatted(adapter.name(), localAddress());
    }
}
