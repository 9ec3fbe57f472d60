package dev.verbena.internal.device;

import dev.verbena.AdapterEvent;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.internal.events.DeviceEvent;
import dev.verbena.internal.events.FlightRecording;
import dev.verbena.internal.runtime.AdapterEvents;
import dev.verbena.internal.runtime.SerialCallbacks;
import dev.verbena.internal.runtime.Threads;
import dev.verbena.internal.runtime.Uncaught;
import dev.verbena.internal.text.Text;
import dev.verbena.internal.verbs.AsyncEvent;

import org.jspecify.annotations.Nullable;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;

/**
 * The listeners of one device's events, and the objects that events may name.
 *
 * <p>The event thread hands each event to every listener's own sequence of callbacks: a listener
 * that waits delays neither that thread nor another listener.
 */
public final class EventListeners implements AdapterEvents.Observer {
    private final String device;
    private final Consumer<AsyncEvent> first;
    private final List<Listener> listeners = new CopyOnWriteArrayList<>();
    private final Map<Long, Object> objects = new ConcurrentHashMap<>();

    /**
     * Creates an empty list.
     *
     * @param first called by the event thread with each event that names an object; must not wait
     */
    public EventListeners(String device, Consumer<AsyncEvent> first) {
        this.device = device;
        this.first = first;
    }

    /** One registration. */
    private final class Listener implements AdapterEvent.Registration {
        private final Consumer<AsyncEvent> consumer;
        private final SerialCallbacks calls = new SerialCallbacks(Threads.CALLBACKS);
        private final AtomicBoolean ended = new AtomicBoolean(); // knows that no event will come
        private volatile boolean closed;

        Listener(Consumer<AsyncEvent> consumer) {
            this.consumer = consumer;
        }

        void deliver(AsyncEvent event) {
            calls.execute(
                    () -> {
                        if (!closed) {
                            consumer.accept(event);
                        }
                    });
        }

        @Override
        public void close() {
            closed = true;
            listeners.remove(this);
            if (!calls.finish(AdapterEvents.TIMEOUT)) {
                throw new VerbenaException(
                        Status.IO_TIMEOUT,
                        "Closed, but a listener of events of %s is still running after %s"
                                .formatted(device, Text.time(AdapterEvents.TIMEOUT)));
            }
        }
    }

    /** Adds a listener. */
    public AdapterEvent.Registration add(Consumer<AsyncEvent> consumer) {
        Listener listener = new Listener(consumer);
        listeners.add(listener);
        return listener;
    }

    /** Makes an object known by the address of its {@code ibv_qp}, {@code ibv_cq} or so. */
    public void know(long address, Object object) {
        objects.put(address, object);
    }

    /** Must be called before the native object is destroyed: its address may be used again. */
    public void forget(long address) {
        objects.remove(address);
    }

    @Override
    public @Nullable Object objectAt(long address) {
        return objects.get(address);
    }

    @Override
    public void arrived(AsyncEvent event) {
        Object object = event.object();
        if (object != null) {
            Uncaught.run(() -> first.accept(event));
        }
        try {
            if (FlightRecording.on()) {
                DeviceEvent.record(
                        device,
                        event.port(),
                        event.type().name(),
                        object == null ? "" : object.toString());
            }
        } finally {
            for (Listener listener : listeners) {
                listener.deliver(event);
            }
        }
    }

    @Override
    public void threadEnded() {
        for (Listener listener : listeners) {
            if (!listener.ended.getAndSet(true)) {
                listener.deliver(new AsyncEvent(AdapterEvent.Type.EVENTS_ENDED));
            }
        }
    }
}
