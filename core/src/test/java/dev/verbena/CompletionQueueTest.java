package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.internal.verbs.FakeDevice;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.ThreadFactory;
import java.util.stream.Stream;

/** The life of a completion queue and its callback's thread. */
@Timeout(60)
class CompletionQueueTest {
    private static final int TRIES = 50;

    /** As where pids.max or ulimit -u is reached; but JUnit gives up at an OutOfMemoryError. */
    private static final class NoThread extends Error {
        private static final long serialVersionUID = 1;

        NoThread() {
            super("unable to create native thread, for a test");
        }
    }

    private static final ThreadFactory NO_THREADS =
            task ->
                    new Thread(task) {
                        @Override
                        public void start() {
                            throw new NoThread();
                        }
                    };

    private static long descriptors() throws IOException {
        try (Stream<Path> open = Files.list(Path.of("/proc/self/fd"))) {
            return open.count();
        }
    }

    @Test
    void oneWhoseThreadCannotStartLeavesNothingBehind() throws IOException {
        FakeDevice device = new FakeDevice();
        Adapter adapter = new Adapter("fake0", device, device.open());
        adapter.createCompletionQueue(8, status -> {}).close(); // what is made once is there now
        int objects = device.objects();
        long descriptors = descriptors();
        for (int i = 0; i < TRIES; i++) {
            assertThatThrownBy(() -> new CompletionQueue(adapter, 8, status -> {}, NO_THREADS))
                    .isInstanceOf(NoThread.class);
        }
        assertThat(device.objects()).isEqualTo(objects);
        // Threads of other tests may still be closing theirs; a leak is of one or more each time.
        assertThat(descriptors()).isLessThan(descriptors + TRIES / 2);
        adapter.createCompletionQueue(8, status -> {}).close();
        adapter.close();
        assertThat(device.objects()).isZero();
        device.dispose();
    }
}
