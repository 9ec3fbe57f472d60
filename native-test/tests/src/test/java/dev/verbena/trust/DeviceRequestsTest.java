package dev.verbena.trust;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Adapter;
import dev.verbena.QueuePair;
import dev.verbena.Status;
import dev.verbena.nativetest.Churn;
import dev.verbena.nativetest.NeedsDevices;

import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.net.InetAddress;
import java.time.Duration;
import java.util.List;
import java.util.function.Consumer;

/** Random requests between two devices. */
@NeedsDevices
@Tag("trust")
@Timeout(7200)
class DeviceRequestsTest {
    @Test
    void eachCompletesOnceAtItsOwner() throws Exception {
        try (Churn churn = new Churn()) {
            churn.channels(1, 1); // librdmacm keeps what it then creates for each device
        }
        String before = Churn.kernel();
        RequestLives lives =
                new RequestLives(
                        "devices",
                        5_000,
                        seed -> new OnDevices(),
                        complain -> remains(before, complain));
        assertThat(lives.run(Trust.size(100_000, 1_000_000))).isEmpty();
    }

    private static int remains(String before, Consumer<String> complain) throws Exception {
        boolean noMore = Churn.noMore(before);
        if (!noMore) {
            complain.accept(
                    "the kernel has%n%sand had before%n%s".formatted(Churn.kernel(), before));
        }
        return noMore ? 0 : 1;
    }

    private static final class OnDevices extends Place {
        private static final List<String> NAMES = Adapter.activeNames();

        OnDevices() {
            super(Adapter.open(NAMES.getFirst()), Adapter.open(NAMES.getLast()));
        }

        @Override
        InetAddress address() {
            return there.gid().gid().gid().toInetAddress();
        }

        /** What is outstanding at a peer that has ended is cancelled, or not answered. */
        @Override
        boolean mayEndWith(Status status) {
            return status.isSuccess() || status == Status.CANCELLED || status == Status.IO_TIMEOUT;
        }

        /** So that threads that wait leave the processor to Soft-RoCE. */
        @Override
        long pauseNanos() {
            return 500_000;
        }

        /** Soft-RoCE of old kernels may stop without a completion. */
        @Override
        void watch(QueuePair pair) {
            pair.failIfStalled(Duration.ofSeconds(20));
        }
    }
}
