package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.internal.verbs.Errno;

import org.junit.jupiter.api.Test;

import java.net.InetSocketAddress;
import java.util.concurrent.CompletableFuture;

/** Connections that share an endpoint. */
class SharedEndpointTest extends ConnectorRig {
    @Test
    void connectorsHaveTheSameAddressAndOtherPeers() throws Exception {
        SharedEndpoint endpoint =
                keep(adapter.createSharedEndpoint(new InetSocketAddress(HERE, 0)));
        assertThat(network.calls).contains("shareAddress"); // else nobody connects from there
        InetSocketAddress one = listener().localAddress();
        InetSocketAddress two = listener().localAddress();
        Connector first = connector();
        CompletableFuture<Void> connecting =
                first.connectAsync(near, one, DEFAULTS.withSharedEndpoint(endpoint));
        Connector request = request();
        assertThat(request.peerAddress()).isEqualTo(endpoint.localAddress());
        CompletableFuture<Void> accepting = request.acceptAsync(far, DEFAULTS);
        get(connecting);
        first.completeConnect();
        get(accepting);
        QueuePair third = keep(queuePair());
        assertThat(
                        failure(
                                        () ->
                                                connector()
                                                        .connect(
                                                                third,
                                                                one,
                                                                DEFAULTS.withSharedEndpoint(
                                                                        endpoint)))
                                .status())
                .isEqualTo(Status.ADDRESS_ALREADY_EXISTS);
        Connector second = connector();
        second.connectAsync(third, two, DEFAULTS.withSharedEndpoint(endpoint));
        assertThat(request().peerAddress()).isEqualTo(endpoint.localAddress());
        assertThat(endpoint.toString()).contains("10.0.0.1");
    }

    @Test
    void aPeerThatHasRefusedMayBeAskedAgain() throws Exception {
        SharedEndpoint endpoint =
                keep(adapter.createSharedEndpoint(new InetSocketAddress(HERE, 0)));
        InetSocketAddress there = listener().localAddress();
        for (int i = 0; i < 2; i++) {
            CompletableFuture<Void> connecting =
                    connector().connectAsync(near, there, DEFAULTS.withSharedEndpoint(endpoint));
            request().close();
            assertThat(failure(connecting).status()).isEqualTo(Status.CONNECTION_REFUSED);
        }
    }

    @Test
    void itsClosePendsOnItsConnections() throws Exception {
        SharedEndpoint endpoint = adapter.createSharedEndpoint(new InetSocketAddress(HERE, 0));
        Connector connector = connector();
        CompletableFuture<Void> connecting =
                connector.connectAsync(
                        near, listener().localAddress(), DEFAULTS.withSharedEndpoint(endpoint));
        request();
        endpoint.close();
        assertThat(failure(() -> adapter.createSharedEndpoint(endpoint.localAddress())).status())
                .isEqualTo(Status.SHARING_VIOLATION);
        connector.close();
        assertThat(failure(connecting).status()).isEqualTo(Status.CANCELLED);
    }

    @Test
    void anAddressThatCannotBeSharedIsGivenBack() {
        network.errors.put("shareAddress", Errno.EINVAL);
        assertThat(
                        failure(() -> adapter.createSharedEndpoint(new InetSocketAddress(HERE, 0)))
                                .status())
                .isEqualTo(Status.INVALID_PARAMETER);
        assertThat(network.identifiers()).isZero();
    }
}
