package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Until;
import dev.verbena.trust.Footprint;
import dev.verbena.trust.Trust;

import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * What is registered, connected and opened leaves nothing behind: neither in this process nor in
 * the kernel. Core's tests do more of that, without a device.
 */
@NeedsDevices
@Tag("trust")
@Timeout(7200)
class LeaksTest {
    private static final int REGISTRATIONS = Trust.size(500, 100_000);
    private static final int QUEUE_PAIRS = Trust.size(40, 10_000);
    private static final int CHANNELS = Trust.size(8, 2_000);
    private static final int MESSAGES = 100; // of each channel

    /**
     * The JVM itself grows meanwhile, by more than all regions of the part of each CI run take; the
     * 100,000 regions of the whole suite would be 400,000.
     */
    private static final long MOST_KIBIBYTES = 100_000;

    @Test
    void memoryDescriptorsThreadsAndTheKernelsObjectsReturnToWhereTheyWere() throws Exception {
        Trust.Row row = Trust.row("leaks, devices");
        try (Churn churn = new Churn()) {
            churn.register(REGISTRATIONS / 4); // classes, code and pools are there after that
            churn.queuePairs(QUEUE_PAIRS / 4);
            churn.channels(CHANNELS / 4, MESSAGES);
            Churn.Held before = Churn.held();
            churn.register(REGISTRATIONS);
            churn.queuePairs(QUEUE_PAIRS);
            long lost = churn.channels(CHANNELS, MESSAGES);
            // A thread of callbacks goes after some idle seconds.
            Until.holds(() -> Footprint.liveThreads() <= before.process().threads());
            Churn.Held after = Churn.held();
            int leaks =
                    Trust.WHOLE
                            ? after.process()
                                    .leaks(before.process(), MOST_KIBIBYTES, MOST_KIBIBYTES)
                            : after.process().leaks(before.process());
            leaks += after.kernel().equals(before.kernel()) ? 0 : 1;
            row.requests(QUEUE_PAIRS).messages((long) CHANNELS * MESSAGES).losses(lost);
            row.leaks(leaks).write();
            System.out.printf("before: %s%nafter: %s%n", before, after);
            assertThat(after.kernel()).isEqualTo(before.kernel());
            assertThat(leaks).as("before: %s, after: %s", before, after).isZero();
            assertThat(lost).isZero();
        }
    }
}
