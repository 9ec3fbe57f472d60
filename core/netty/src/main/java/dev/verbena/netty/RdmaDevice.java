package dev.verbena.netty;

import dev.verbena.Adapter;
import dev.verbena.ProtectionDomain;
import dev.verbena.VerbenaException;

import org.jspecify.annotations.Nullable;

import java.util.HashMap;
import java.util.Map;
import java.util.Objects;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * What all event loops of a factory share: the device, the domain of their memory, and the buffers
 * that are registered in it. Open as long as one of the loops is.
 */
final class RdmaDevice {
    /** What is there while it is open. */
    record Opened(Adapter adapter, ProtectionDomain domain, RegisteredByteBufAllocator allocator) {}

    /**
     * Adapters that were opened by name, while event loops use them. Factories of the same name
     * share one: a queue pair connects by its own adapter only, so the loops of a server's children
     * need the adapter that the server listens on.
     */
    static final class Named {
        private static final class Use {
            final Adapter adapter;
            int devices;

            Use(Adapter adapter) {
                this.adapter = adapter;
            }
        }

        private final Function<String, Adapter> opens;
        private final Map<String, Use> uses = new HashMap<>(); // guarded by this

        Named(Function<String, Adapter> opens) {
            this.opens = opens;
        }

        synchronized Adapter open(String name) {
            Use use = uses.get(name);
            if (use == null) {
                use = new Use(opens.apply(name));
                uses.put(name, use);
            }
            use.devices++;
            return use.adapter;
        }

        synchronized void close(String name) {
            Use use = Objects.requireNonNull(uses.get(name));
            if (--use.devices == 0) {
                uses.remove(name);
                use.adapter.close();
            }
        }
    }

    private static final Named NAMED = new Named(RdmaDevice::openAdapter);

    private final Supplier<Adapter> opens;
    private final Runnable closes;
    final RdmaOptions options;
    private @Nullable Opened opened; // guarded by this, as the count is
    private int users;

    private RdmaDevice(Supplier<Adapter> opens, Runnable closes, RdmaOptions options) {
        this.opens = opens;
        this.closes = closes;
        this.options = options;
    }

    static RdmaDevice named(String name, RdmaOptions options) {
        return named(name, options, NAMED);
    }

    static RdmaDevice named(String name, RdmaOptions options, Named adapters) {
        return new RdmaDevice(() -> adapters.open(name), () -> adapters.close(name), options);
    }

    static RdmaDevice of(Adapter adapter, RdmaOptions options) {
        return new RdmaDevice(() -> adapter, () -> {}, options);
    }

    private static Adapter openAdapter(String name) {
        try {
            return Adapter.open(name);
        } catch (VerbenaException e) {
            throw new VerbenaException(
                    e.status(),
                    "There is no transport over RDMA: %s. `verbena-tools doctor` says what this machine lacks; without a device, use NioIoHandler and its channels"
                            .formatted(e.getMessage()),
                    e);
        }
    }

    /** One user more. */
    synchronized Opened open() {
        Opened now = opened;
        if (now == null) {
            Adapter adapter = opens.get();
            try {
                ProtectionDomain domain = adapter.createProtectionDomain();
                now =
                        new Opened(
                                adapter,
                                domain,
                                new RegisteredByteBufAllocator(domain, options.registeredMemory()));
            } catch (Throwable t) {
                closes.run();
                throw t;
            }
            opened = now;
        }
        users++;
        return now;
    }

    /** One user less: the last one closes it. What still has buffers keeps their memory. */
    synchronized void close() {
        users--;
        Opened last = opened;
        if (users == 0 && last != null) {
            opened = null;
            try (var _ = last.domain();
                    var _ = last.allocator()) {
                users = 0; // closes both, in reverse order
            } finally {
                closes.run();
            }
        }
    }
}
