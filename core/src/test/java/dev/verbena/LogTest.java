package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.internal.runtime.AdapterEvents;
import dev.verbena.internal.util.Uncaught;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.FakeDevice;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;

/** What no call can report is logged; the list is in production.md. */
@Timeout(60)
class LogTest {
    @RegisterExtension final UncaughtReports uncaught = new UncaughtReports();
    private final BlockingQueue<Throwable> reported = uncaught.reports();

    private void awaitReport() {
        try {
            assertThat(reported.poll(30, TimeUnit.SECONDS)).as("a report").isNotNull();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    @Test
    void theEndOfAnEventThread() {
        FakeDevice device = new FakeDevice();
        device.loopWaits.add(() -> -Errno.EINVAL);
        List<String> logged =
                LoggedMessages.of(
                        () -> {
                            AdapterEvents events = new AdapterEvents("fake7", device);
                            awaitReport();
                            events.stop();
                        });
        device.dispose();
        assertThat(logged)
                .singleElement()
                .asString()
                .startsWith("The event thread of fake7 has ended");
    }

    @Test
    void aDeviceThatVanishesOnce() {
        List<String> logged =
                LoggedMessages.of(
                        () -> {
                            try (Rig rig = new Rig(QueuePairLimits.depths(4, 4))) {
                                rig.queue.arm(NotifyType.ANY);
                                rig.device.raise(AdapterEvent.Type.DEVICE_FAILED);
                                assertThat(rig.queue.await(Duration.ofSeconds(30)))
                                        .isEqualTo(Status.INTERNAL_ERROR);
                                rig.device.raise(AdapterEvent.Type.DEVICE_REMOVED);
                            }
                        });
        assertThat(logged).singleElement().asString().startsWith("fake0 has failed or was removed");
    }

    @Test
    void aCallbackThatThrewAndItsHandlerGetsItToo() {
        List<String> logged =
                LoggedMessages.of(
                        () -> {
                            FakeDevice device = new FakeDevice();
                            try (Adapter adapter = FakeAdapters.open(device);
                                    CompletionQueue queue =
                                            adapter.createCompletionQueue(
                                                    4,
                                                    status -> {
                                                        throw new IllegalStateException("mine");
                                                    })) {
                                queue.arm(NotifyType.ANY);
                                device.raise(AdapterEvent.Type.COMPLETION_QUEUE_FAILED);
                                awaitReport();
                            }
                            device.dispose();
                        });
        assertThat(logged)
                .singleElement()
                .asString()
                .startsWith("A callback or a task of Verbena failed");
    }

    /** What is in the log is not printed by the JVM as well. */
    @Test
    void whereTheProgramHasNoHandlerTheLogIsAll() {
        Thread.setDefaultUncaughtExceptionHandler(null);
        PrintStream standard = System.err;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        System.setErr(new PrintStream(printed, true));
        try {
            List<String> logged =
                    LoggedMessages.of(() -> Uncaught.report(new IllegalStateException("mine")));
            assertThat(logged).hasSize(1);
        } finally {
            System.setErr(standard);
        }
        assertThat(printed.toString()).isEmpty();
    }
}
