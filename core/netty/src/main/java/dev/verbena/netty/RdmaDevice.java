package dev.verbena.netty;

import dev.verbena.Adapter;
import dev.verbena.ProtectionDomain;
import dev.verbena.VerbenaException;

import org.jspecify.annotations.Nullable;

import java.util.function.Supplier;

/**
 * What all event loops of a factory share: the device, the domain of their memory, and the buffers
 * that are registered in it. Open as long as one of the loops is.
 */
final class RdmaDevice {
    /** What is there while it is open. */
    record Opened(Adapter adapter, ProtectionDomain domain, RegisteredByteBufAllocator allocator) {}

    private final Supplier<Adapter> opens;
    private final boolean closesAdapter;
    final RdmaOptions options;
    private @Nullable Opened opened; // guarded by this, as the count is
    private int users;

    private RdmaDevice(Supplier<Adapter> opens, boolean closesAdapter, RdmaOptions options) {
        this.opens = opens;
        this.closesAdapter = closesAdapter;
        this.options = options;
    }

    static RdmaDevice named(String name, RdmaOptions options) {
        return new RdmaDevice(() -> open(name), true, options);
    }

    static RdmaDevice of(Adapter adapter, RdmaOptions options) {
        return new RdmaDevice(() -> adapter, false, options);
    }

    private static Adapter open(String name) {
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
                if (closesAdapter) {
                    adapter.close();
                }
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
            try (var _ = closesAdapter ? last.adapter() : null;
                    var _ = last.domain();
                    var _ = last.allocator()) {
                users = 0; // closes all three, in reverse order
            }
        }
    }
}
