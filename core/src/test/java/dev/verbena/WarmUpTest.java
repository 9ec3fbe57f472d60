package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.internal.verbs.Errno;

import org.junit.jupiter.api.Test;

import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/** Connects a device to itself; {@link ConnectorRig} checks that nothing is left of it. */
class WarmUpTest extends ConnectorRig {
    private static final Duration LONG = Duration.ofSeconds(20);
    private static final Duration SHORT = Duration.ofSeconds(3);

    @Test
    void connectsByAddressSendsAndLeavesNothing() {
        int before = device.objects();
        assertThat(WarmUp.run(adapter, LONG)).isTrue();
        assertThat(network.calls).contains("listen", "connect", "accept", "establish");
        assertThat(device.sends).hasSizeGreaterThanOrEqualTo(1_000);
        device.until(() -> device.objects() == before);
        network.until(() -> network.identifiers() == 0);
    }

    @Test
    void withoutAnIpAddressItNeedsNoConnectionManager() {
        device.gids =
                List.of(
                        new Port.GidEntry(
                                1,
                                0,
                                new Gid(0xFE80L << 48, 7),
                                Port.GidType.INFINIBAND,
                                0)); // InfiniBand's
        assertThat(WarmUp.run(adapter, LONG)).isTrue();
        assertThat(network.calls).isEmpty();
        assertThat(device.sends).hasSizeGreaterThanOrEqualTo(1_000);
    }

    @Test
    void aStepThatFailsIsNoFailureOfTheProgram() {
        network.errors.put("connect", Errno.ENETUNREACH);
        assertThat(WarmUp.run(adapter, LONG)).isFalse();
        assertThat(device.sends).isEmpty();
    }

    @Test
    void endsInTimeWhereNoMessageArrives() {
        device.forgetful = true;
        long start = System.nanoTime();
        assertThat(WarmUp.run(adapter, SHORT)).isFalse();
        assertThat(Duration.ofNanos(System.nanoTime() - start)).isGreaterThanOrEqualTo(SHORT);
        assertThat(device.sends).hasSizeGreaterThanOrEqualTo(1);
    }

    @Test
    void othersAreRejectedMeanwhile() throws Exception {
        device.running = false;
        int port = listener().localAddress().getPort();
        CompletableFuture<Boolean> warming =
                CompletableFuture.supplyAsync(() -> WarmUp.run(adapter, LONG));
        device.until(() -> !device.sends.isEmpty());
        VerbenaException refused =
                failure(() -> connector().connect(near, new InetSocketAddress(HERE, port + 1)));
        assertThat(refused.status()).isEqualTo(Status.CONNECTION_REFUSED);
        device.running = true;
        device.run();
        assertThat(warming.get()).isTrue();
        assertThat(requests).isEmpty();
    }

    @Test
    void aLimitThatIsNotPositiveIsWrong() {
        assertThatThrownBy(() -> WarmUp.run(adapter, Duration.ZERO))
                .isInstanceOf(IllegalArgumentException.class);
    }
}
