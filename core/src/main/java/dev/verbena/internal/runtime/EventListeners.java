package dev.verbena.internal.runtime;

import dev.verbena.AdapterEvent;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.internal.events.FlightRecording;
import dev.verbena.internal.events.FlightRecording.DeviceEvent;
import dev.verbena.internal.util.Text;
import dev.verbena.internal.verbs.AsyncEvent;

import java.util.List;
import java.util.Objects;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;

/**
 * The program's listeners of one device's events.
 *
 * <p>The event thread hands each event to every listener's own sequence of callbacks: a listener
 * that waits delays neither that thread nor another listener.
 */
public final class EventListeners {
    private final String device;
    private final List<Listener> listeners = new CopyOnWriteArrayList<>();

    public EventListeners(String device) {
        this.device = device;
    }

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

    public AdapterEvent.Registration add(Consumer<AsyncEvent> consumer) {
        Listener listener = new Listener(consumer);
        listeners.add(listener);
        return listener;
    }

    /** Hands an event of the device to all listeners. Called by the event thread. */
    void arrived(AsyncEvent event) {
        try {
            if (FlightRecording.on()) {
                String object = Objects.toString(event.object(), "");
                DeviceEvent.record(device, event.port(), event.type().name(), object);
            }
        } finally {
            for (Listener listener : listeners) {
                listener.deliver(event);
            }
        }
    }

    /** Notifies each listener, once, that no more events will be delivered. */
    public void threadEnded() {
        for (Listener listener : listeners) {
            if (!listener.ended.getAndSet(true)) {
                listener.deliver(new AsyncEvent(AdapterEvent.Type.EVENTS_ENDED));
            }
        }
    }
}
