package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.internal.verbs.ConnectionEvent;
import dev.verbena.internal.verbs.Errno;

import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Test;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;

/** Listeners and their requests. */
class ConnectorListenerTest extends ConnectorRig {
    @Test
    void givesAnEphemeralPort() {
        assertThat(listener().localAddress().getPort()).isGreaterThanOrEqualTo(49152);
    }

    @Test
    void anAddressInUse() {
        InetSocketAddress taken = listener().localAddress();
        VerbenaException e = failure(() -> adapter.listen(taken, 0, c -> {}));
        assertThat(e.status()).isEqualTo(Status.SHARING_VIOLATION);
        assertThat(e).hasMessageContaining("10.0.0.1");
    }

    @Test
    void anotherProgramListens() {
        network.errors.put("listen", Errno.EADDRINUSE);
        assertThat(failure(this::listener).status()).isEqualTo(Status.SHARING_VIOLATION);
    }

    @Test
    void noPortIsLeftOrSomebodyHasItOnAllAddresses() {
        network.errors.put("bind", Errno.EADDRNOTAVAIL);
        assertThat(failure(this::listener).status()).isEqualTo(Status.TOO_MANY_ADDRESSES);
        network.errors.put("bind", Errno.EADDRNOTAVAIL);
        InetSocketAddress one = new InetSocketAddress(HERE, 7);
        assertThat(failure(() -> adapter.listen(one, 0, c -> {})).status())
                .isEqualTo(Status.SHARING_VIOLATION);
    }

    @Test
    void anAddressOfNobodyOrAnother() {
        InetAddress elsewhere = InetAddress.ofLiteral("192.0.2.1");
        for (int port : new int[] {0, 7}) {
            InetSocketAddress nobody = new InetSocketAddress(elsewhere, port);
            for (ThrowingCallable call :
                    List.<ThrowingCallable>of(
                            () -> adapter.listen(nobody, 0, c -> {}),
                            () -> adapter.createSharedEndpoint(nobody),
                            () ->
                                    connector()
                                            .connect(
                                                    near,
                                                    new InetSocketAddress(HERE, 7),
                                                    DEFAULTS.withLocalAddress(nobody)))) {
                VerbenaException e = failure(call);
                assertThat(e.status()).isEqualTo(Status.INVALID_ADDRESS);
                assertThat(e).hasMessageContaining("192.0.2.1 is not an address of this machine");
            }
        }
        assertThat(
                        failure(
                                () ->
                                        adapter.listen(
                                                new InetSocketAddress(OTHER_DEVICE, 0),
                                                0,
                                                c -> {})))
                .hasMessageContaining("fake1");
        assertThatThrownBy(() -> adapter.listen(new InetSocketAddress(HERE, 0), -1, c -> {}))
                .isInstanceOf(IllegalArgumentException.class);
        assertThat(network.identifiers()).isZero();
    }

    @Test
    void pausesAsIfNobodyListenedAndKeepsTheAddress() throws Exception {
        Listener listener = listener();
        InetSocketAddress address = listener.localAddress();
        assertThat(listener.toString()).doesNotContain("paused");
        listener.pause();
        listener.pause();
        assertThat(listener.toString()).contains("paused");
        assertThat(failure(() -> connector().connect(near, address)))
                .hasMessageContaining("nobody listens");
        assertThat(failure(() -> adapter.listen(address, 0, c -> {})).status())
                .isEqualTo(Status.SHARING_VIOLATION);
        listener.resume();
        listener.resume();
        CompletableFuture<Void> connecting = connector().connectAsync(near, address, DEFAULTS);
        request().acceptAsync(far, DEFAULTS);
        get(connecting);
    }

    /** Its address may be another's by now. */
    @Test
    void aPauseThatAnErrorHasEndedIsReportedByTheNextResume() {
        Listener listener = listener();
        Error error = new Error("no memory");
        network.creating.set(error);
        assertThatThrownBy(listener::pause).isSameAs(error);
        assertThat(failure(listener::resume)).hasCause(error);
    }

    @Test
    void itsCloseFreesTheAddressWhileConnectorsLive() throws Exception {
        Connector[] both = connected();
        InetSocketAddress address = both[1].localAddress();
        lastListener.close();
        keep(adapter.listen(address, 0, c -> {}));
        assertThat(both[1].localAddress()).isEqualTo(address);
        both[0].disconnect();
        both[1].close();
        assertThatThrownBy(lastListener::pause).isInstanceOf(IllegalStateException.class);
    }

    @Test
    void aHandlerThatThrowsRefuses() {
        Thread.UncaughtExceptionHandler usual = Thread.getDefaultUncaughtExceptionHandler();
        CountDownLatch reported = new CountDownLatch(1);
        Thread.setDefaultUncaughtExceptionHandler((thread, thrown) -> reported.countDown());
        try {
            Listener listener =
                    keep(
                            adapter.listen(
                                    new InetSocketAddress(HERE, 0),
                                    0,
                                    request -> {
                                        throw new IllegalArgumentException("no");
                                    }));
            assertThat(failure(() -> connector().connect(near, listener.localAddress())).status())
                    .isEqualTo(Status.CONNECTION_REFUSED);
            Until.reached(reported);
        } finally {
            Thread.setDefaultUncaughtExceptionHandler(usual);
        }
    }

    @Test
    void refusesBeyondItsBacklogUntilSomeAreAnswered() throws Exception {
        Listener listener = keep(adapter.listen(new InetSocketAddress(HERE, 0), 2, requests::add));
        for (int i = 0; i < 3; i++) {
            network.request(listener.localAddress(), new byte[56], 1);
        }
        Connector first = request();
        request();
        network.until(() -> network.calls.stream().filter("destroy"::equals).count() == 1);
        first.close();
        network.request(listener.localAddress(), new byte[56], 1);
        Connector third = request();
        network.silent.add("accept");
        third.acceptAsync(far, DEFAULTS); // answered, although the peer has not completed it
        network.request(listener.localAddress(), new byte[56], 1);
        request();
    }

    @Test
    void onAllAddressesGetsRequestsForItsOwnDeviceOnly() throws Exception {
        Listener all = keep(adapter.listen(new InetSocketAddress(0), 0, requests::add));
        network.devices.put(all.localAddress().getAddress(), "fake1");
        network.request(all.localAddress(), new byte[56], 1);
        network.until(() -> network.calls.contains("destroy"));
        network.devices.put(all.localAddress().getAddress(), "fake0");
        network.request(all.localAddress(), new byte[56], 1);
        request();
    }

    @Test
    void theDeviceGoes() {
        Listener listener = listener();
        network.emit("IDLE", ConnectionEvent.Kind.DEVICE_REMOVED, 0);
        network.until(() -> network.identifiers() == 0);
        assertThat(failure(listener::resume).status()).isEqualTo(Status.DEVICE_REMOVED);
        assertThat(listener.toString()).contains("closed");
    }
}
