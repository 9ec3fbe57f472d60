package dev.verbena.internal.verbs;

import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.LongFunction;

/** Asynchronous events of a {@link FakeDevice}, and their descriptor. For any thread. */
final class FakeAsyncEvents {
    private static final int LAST_PORT = 255; // addresses are higher

    private final FakeSettings settings;
    private final int descriptor = Descriptors.newEventFd();
    private final Queue<AsyncEvent> events = new ConcurrentLinkedQueue<>();

    FakeAsyncEvents(FakeSettings settings) {
        this.settings = settings;
    }

    int descriptor() {
        return descriptor;
    }

    void raise(AsyncEvent.Kind kind, int number, long object) {
        events.add(new AsyncEvent(kind, number, object, null));
        setReadable();
    }

    void setReadable() {
        Descriptors.setReadable(descriptor);
    }

    AsyncEvent take(LongFunction<Object> objects) {
        Error error = settings.taking.getAndSet(null);
        if (error != null) {
            throw error;
        }
        AsyncEvent event = events.poll();
        if (event != null && event.element() > LAST_PORT) {
            event =
                    new AsyncEvent(
                            event.kind(),
                            event.number(),
                            event.element(),
                            objects.apply(event.element()));
        }
        if (settings.gone) {
            settings.askedForAsyncEventsInVain += event == null ? 1 : 0;
            return event != null ? event : end();
        }
        if (events.isEmpty()) {
            Descriptors.drain(descriptor);
            if (!events.isEmpty() || settings.gone) { // another thread has just added one
                setReadable();
            }
        }
        return event == null ? new AsyncEvent(AsyncEvent.Kind.NONE) : event;
    }

    private AsyncEvent end() {
        return new AsyncEvent(
                settings.hidesTheEnd ? AsyncEvent.Kind.NONE : AsyncEvent.Kind.DEVICE_DISASSOCIATED);
    }

    void close() {
        Descriptors.close(descriptor);
    }
}
