package dev.verbena.internal.verbs;

import dev.verbena.AdapterEvent;

import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.LongFunction;
import java.util.stream.IntStream;

/** Asynchronous events of a {@link FakeDevice}, and their descriptor. For any thread. */
final class FakeAsyncEvents {
    private static final int LAST_PORT = 255; // addresses are higher
    private static final int LAST_NUMBER = 20; // of verbs

    private record Raised(AdapterEvent.Type type, int number, long element) {
        AsyncEvent take(LongFunction<Object> objects) {
            return element > LAST_PORT
                    ? new AsyncEvent(type, number, 0, objects.apply(element))
                    : new AsyncEvent(type, number, (int) element, null);
        }
    }

    private final FakeSettings settings;
    private final int descriptor = Descriptors.newEventFd();
    private final Queue<Raised> events = new ConcurrentLinkedQueue<>();

    FakeAsyncEvents(FakeSettings settings) {
        this.settings = settings;
    }

    int descriptor() {
        return descriptor;
    }

    void raise(AdapterEvent.Type type, long object) {
        raise(type, numberOf(type), object);
    }

    void raise(AdapterEvent.Type type, int number, long object) {
        events.add(new Raised(type, number, object));
        setReadable();
    }

    private static int numberOf(AdapterEvent.Type type) {
        return IntStream.rangeClosed(0, LAST_NUMBER)
                .filter(
                        number ->
                                AsyncEvent.typeOf(number) == type
                                        && type != AdapterEvent.Type.OTHER)
                .findFirst()
                .orElse(-1);
    }

    void setReadable() {
        Descriptors.setReadable(descriptor);
    }

    AsyncEvent take(LongFunction<Object> objects) {
        Error error = settings.taking.getAndSet(null);
        if (error != null) {
            throw error;
        }
        Raised raised = events.poll();
        AsyncEvent event = raised == null ? null : raised.take(objects);
        settings.afterTake.run();
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
        return event;
    }

    private AsyncEvent end() {
        return settings.hidesTheEnd ? null : new AsyncEvent(AdapterEvent.Type.DEVICE_REMOVED);
    }

    void close() {
        Descriptors.close(descriptor);
    }
}
