package dev.verbena;

import dev.verbena.internal.connect.ConnectionEvents;
import dev.verbena.internal.connect.Failure;
import dev.verbena.internal.runtime.AdapterEvents;
import dev.verbena.internal.verbs.ConnectionControl;
import dev.verbena.internal.verbs.DeviceAttributes;
import dev.verbena.internal.verbs.DeviceControl;
import dev.verbena.internal.verbs.Provider;
import dev.verbena.internal.verbs.VerbsContext;

import org.jspecify.annotations.Nullable;

import java.util.function.Function;
import java.util.function.Supplier;

/**
 * What an adapter creates when it is first needed, once: the event thread, the connection manager,
 * the data path, and the limits of the device. Any thread may call it, with a reference to the
 * adapter.
 */
final class AdapterServices {
    private final String name;
    private final DeviceControl control;
    private final DeviceAttributes attributes;
    private final Provider provider;
    private final AdapterPorts ports;
    private final EventListeners listeners;
    private final Function<Provider, VerbsContext> dataPath;
    private final Supplier<ConnectionControl> connections;

    // Under this object's lock.
    private @Nullable AdapterEvents events;
    private @Nullable AdapterInfo info;
    private @Nullable AdapterInfo extendedInfo;
    private @Nullable VerbsContext context;

    private final Object connectionLock = new Object();
    private @Nullable ConnectionEvents connectionEvents; // under that lock

    AdapterServices(
            String name,
            DeviceControl control,
            DeviceAttributes attributes,
            Provider provider,
            AdapterPorts ports,
            EventListeners listeners,
            Function<Provider, VerbsContext> dataPath,
            Supplier<ConnectionControl> connections) {
        this.name = name;
        this.control = control;
        this.attributes = attributes;
        this.provider = provider;
        this.ports = ports;
        this.listeners = listeners;
        this.dataPath = dataPath;
        this.connections = connections;
    }

    /** The event loop, with its thread. */
    synchronized AdapterEvents events() {
        if (events == null) {
            events = new AdapterEvents(name, control, VerbenaException::of, listeners);
        }
        return events;
    }

    /** The event loop, or null if it was never needed. */
    synchronized @Nullable AdapterEvents runningEvents() {
        return events;
    }

    /** The events of rdma_cm, which the event thread handles. */
    ConnectionEvents connectionEvents() {
        AdapterEvents loop = events();
        synchronized (connectionLock) {
            if (connectionEvents == null) {
                try {
                    connectionEvents = new ConnectionEvents(connections.get(), loop.timers());
                } catch (Failure f) {
                    throw VerbenaException.of(f);
                }
                loop.attach(connectionEvents);
            }
            return connectionEvents;
        }
    }

    /**
     * The data path. Called only when a queue is about to be created, because the provider of the
     * first call gets the fast path (constants for the JIT, see {@link VerbsContext}).
     */
    synchronized VerbsContext context() {
        if (context == null) {
            context = dataPath.apply(provider);
        }
        return context;
    }

    /**
     * Without what only ibv_query_device_ex reports: linking that takes some milliseconds, which no
     * queue pair needs.
     */
    synchronized AdapterInfo info() {
        if (info == null) {
            info =
                    new AdapterInfo(
                            AdapterFacts.of(
                                    name,
                                    attributes,
                                    provider,
                                    ports.query(),
                                    AdapterProbe.probe(control, attributes)));
        }
        return info;
    }

    /** All that is known of the device. */
    synchronized AdapterInfo extendedInfo() {
        if (extendedInfo == null) {
            extendedInfo = info().with(control.extended());
        }
        return extendedInfo;
    }
}
