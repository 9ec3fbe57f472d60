package dev.verbena;

import dev.verbena.internal.events.FlightRecording;
import dev.verbena.internal.runtime.AdapterEvents;
import dev.verbena.internal.runtime.SerialCallbacks;
import dev.verbena.internal.runtime.Threads;
import dev.verbena.internal.runtime.Uncaught;
import dev.verbena.internal.verbs.AsyncEvent;

import org.jspecify.annotations.Nullable;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;

/**
 * The listeners of one adapter's events, and the objects that events may name.
 *
 * <p>The event thread hands each event to every listener's own sequence of callbacks: a listener
 * that waits holds up neither that thread nor another listener.
 */
final class EventListeners implements AdapterEvents.Observer {
    private final Adapter adapter;
    private final List<Listener> listeners = new CopyOnWriteArrayList<>();
    private final Map<Long, NativeObject> objects = new ConcurrentHashMap<>();

    EventListeners(Adapter adapter) {
        this.adapter = adapter;
    }

    /** One registration. */
    private final class Listener implements AdapterEvent.Registration {
        private final Consumer<? super AdapterEvent> consumer;
        private final SerialCallbacks calls = new SerialCallbacks(Threads.CALLBACKS);
        private final AtomicBoolean ended = new AtomicBoolean(); // knows that no event will come
        private volatile boolean closed;

        Listener(Consumer<? super AdapterEvent> consumer) {
            this.consumer = consumer;
        }

        void deliver(AdapterEvent event) {
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
                throw VerbenaException.stillRunning(
                        "a listener of events of " + adapter.name(), AdapterEvents.TIMEOUT);
            }
        }
    }

    AdapterEvent.Registration add(Consumer<? super AdapterEvent> consumer) {
        Listener listener = new Listener(consumer);
        listeners.add(listener);
        return listener;
    }

    /** Makes an object known by the address of its {@code ibv_qp}, {@code ibv_cq} or so. */
    void know(long address, NativeObject object) {
        objects.put(address, object);
    }

    /** Must be called before the native object is destroyed: its address may be used again. */
    void forget(long address) {
        objects.remove(address);
    }

    @Override
    public @Nullable Object objectAt(long address) {
        return objects.get(address);
    }

    @Override
    public void arrived(AsyncEvent event) {
        if (event.object() instanceof QueuePair queuePair) {
            Uncaught.run(() -> failed(queuePair, event.type()));
        }
        if (!listeners.isEmpty() || FlightRecording.on()) {
            deliver(new AdapterEvent(adapter, event));
        }
    }

    /** With nothing outstanding, nothing else shows that a queue pair failed. */
    private static void failed(QueuePair queuePair, AdapterEvent.Type type) {
        switch (type) {
            case QUEUE_PAIR_ACCESS_ERROR, QUEUE_PAIR_REQUEST_ERROR ->
                    queuePair.failedByEvent(false);
            case QUEUE_PAIR_FAILED -> queuePair.failedByEvent(true);
            default -> {}
        }
    }

    private void deliver(AdapterEvent event) {
        try {
            if (FlightRecording.on()) {
                event.record();
            }
        } finally {
            listeners.forEach(listener -> listener.deliver(event));
        }
    }

    @Override
    public void threadEnded() {
        AdapterEvent end =
                new AdapterEvent(adapter, new AsyncEvent(AdapterEvent.Type.EVENTS_ENDED));
        for (Listener listener : listeners) {
            if (!listener.ended.getAndSet(true)) {
                listener.deliver(end);
            }
        }
    }
}
