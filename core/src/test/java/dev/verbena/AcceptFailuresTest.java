package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.internal.verbs.ConnectionEvent;
import dev.verbena.internal.verbs.Errno;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** What goes wrong while a side accepts. */
class AcceptFailuresTest extends ConnectorRig {
    private Connector asked() throws InterruptedException {
        Connector connector = connector();
        connector.connectAsync(near, listener().localAddress(), DEFAULTS);
        return request();
    }

    @ParameterizedTest
    @CsvSource({
        "UNREACHABLE, -110, IO_TIMEOUT, did not establish the connection",
        "REJECTED, 28, CONNECTION_ABORTED, refused after it had been accepted (reason 28)",
        "REJECTED, 4, CONNECTION_ABORTED, gave up waiting",
        "CONNECT_ERROR, 0, CONNECTION_ABORTED, broke off",
        "DISCONNECTED, 0, CONNECTION_ABORTED, broke off",
        "DEVICE_REMOVED, 0, DEVICE_REMOVED, gone"
    })
    void eachEventEndsItWithAStatusAndASentence(
            ConnectionEvent.Kind kind, int code, Status status, String part) throws Exception {
        network.silent.add("accept");
        CompletableFuture<Void> accepting = asked().acceptAsync(far, DEFAULTS);
        assertThat(network.emit("ACCEPTED", kind, code)).isEqualTo(1);
        VerbenaException e = failure(accepting);
        assertThat(e.status()).isEqualTo(status);
        assertThat(e).hasMessageContaining(part);
        assertThat(far.connected()).isFalse();
        assertThat(device.inError(far.handle().address())).isTrue();
    }

    /** The caller has its queue pair back, and the connector touches it no more. */
    @Test
    void anErrorLetsGoOfTheQueuePair() throws Exception {
        Connector request = asked();
        QueuePair mine = queuePair();
        OutOfMemoryError error = new OutOfMemoryError("Java heap space");
        network.accepting.set(error);
        assertThatThrownBy(() -> request.accept(mine)).isSameAs(error);
        mine.close();
        mine.awaitClosed(Duration.ZERO);
        assertThat(failure(() -> request.accept(far)).status())
                .isEqualTo(Status.CONNECTION_INVALID);
        request.close();
    }

    @Test
    void thePeerRefusesLate() throws Exception {
        Accepted half = accepted();
        Connector connector = half.connector;
        Connector request = half.request;
        connector.reject(HELLO);
        assertThat(failure(half.accepting).status()).isEqualTo(Status.CONNECTION_ABORTED);
        assertThat(request.connectionData().privateData()).isEqualTo(HELLO);
        // Nothing was done to the queue pair of the side that refused.
        assertThat(failure(() -> connector.connect(near, new InetSocketAddress(HERE, 7))))
                .hasMessageContaining("nobody listens");
        assertThat(failure(() -> request.accept(far)).status())
                .isEqualTo(Status.CONNECTION_INVALID);
    }

    @Test
    void aPeerThatGaveUpCostsNoQueuePair() throws Exception {
        Connector request = asked();
        network.errors.put("fillIn 1", Errno.EINVAL); // how the kernel says so
        VerbenaException e = failure(() -> request.accept(far));
        assertThat(e.status()).isEqualTo(Status.CONNECTION_ABORTED);
        assertThat(e).hasMessageContaining("gave up meanwhile");
        assertThat(e).as("its message has the cause's already").hasNoCause();
        assertThat(device.inError(far.handle().address())).isFalse();
        CompletableFuture<Void> connecting =
                connector().connectAsync(far, lastListener.localAddress(), DEFAULTS);
        assertThat(connecting).isNotCompletedExceptionally();
        request();
    }

    @Test
    void aDeviceThatIsGoneIsReportedAsSuch() throws Exception {
        Connector request = asked();
        network.errors.put("fillIn 1", Errno.ENXIO);
        assertThat(failure(() -> request.accept(far)).status()).isEqualTo(Status.DEVICE_REMOVED);
    }

    @Test
    void aQueuePairThatWasClosedMeanwhileIsNotConnected() throws Exception {
        Accepted half = accepted();
        near.close();
        VerbenaException e = failure(() -> half.connector.completeConnect());
        assertThat(e.status()).isEqualTo(Status.CONNECTION_INVALID);
        assertThat(e).hasMessageContaining("closed or flushed");
        assertThat(failure(half.accepting).status()).isEqualTo(Status.CONNECTION_ABORTED);
    }

    /** A connection that its accepting side has no word of yet. */
    private record Accepted(
            Connector connector, Connector request, CompletableFuture<Void> accepting) {}

    private Accepted accepted() throws Exception {
        Connector connector = connector();
        CompletableFuture<Void> connecting = connecting(connector);
        Connector request = request();
        CompletableFuture<Void> accepting = request.acceptAsync(far, DEFAULTS);
        get(connecting);
        return new Accepted(connector, request, accepting);
    }

    /** The peer may send before this side has word that the connection is established. */
    @Test
    void aRequestThatFailsBeforeTheConnectionIsEstablishedEndsIt() throws Exception {
        far.receive(7, new BufferList(1)).orThrow();
        Accepted half = accepted();
        BlockingQueue<Status> ends = new LinkedBlockingQueue<>();
        half.request.onDisconnect(ends::add);
        device.failReceive(far.address().queuePairNumber(), 1); // IBV_WC_LOC_LEN_ERR
        assertThat(queue.poll(new Completions(4))).isOne();
        assertThat(ends).isEmpty();
        half.connector.completeConnect();
        get(half.accepting);
        assertThat(ends.poll(30, TimeUnit.SECONDS)).isEqualTo(Status.CONNECTION_ABORTED);
        assertThat(far.state()).isEqualTo(QueuePairState.FAILED);
    }

    @Test
    void aFlushBeforeTheConnectionIsEstablishedEndsIt() throws Exception {
        far.receive(7, new BufferList(1)).orThrow();
        Accepted half = accepted();
        far.flush();
        assertThat(queue.poll(new Completions(4))).isOne();
        BlockingQueue<Status> peers = new LinkedBlockingQueue<>();
        half.connector.completeConnect();
        half.connector.onDisconnect(peers::add);
        get(half.accepting);
        assertThat(peers.poll(30, TimeUnit.SECONDS)).isEqualTo(Status.CONNECTION_INVALID);
        assertThat(far.state()).isEqualTo(QueuePairState.FLUSHED);
    }

    @Test
    void thePeerGaveUpBefore() throws Exception {
        Connector request = asked();
        network.emit("REQUESTED", ConnectionEvent.Kind.REJECTED, 4);
        Until.holds(() -> request.toString().contains("gave up"));
        VerbenaException e = failure(() -> request.accept(far));
        assertThat(e.status()).isEqualTo(Status.CONNECTION_ABORTED);
        assertThat(e).hasMessageContaining("gave up");
        assertThat(failure(() -> request.reject(HELLO)).status())
                .isEqualTo(Status.CONNECTION_ABORTED);
    }

    @Test
    void theServerGaveUpBeforeTheConnectionWasCompleted() throws Exception {
        Connector connector = connector();
        CompletableFuture<Void> connecting = connecting(connector);
        CompletableFuture<Void> accepting = request().acceptAsync(far, SOON.withPrivateData(HELLO));
        assertThat(failure(accepting).status()).isEqualTo(Status.IO_TIMEOUT);
        get(connecting);
        Until.holds(() -> connector.toString().contains("accepted, and gave up"));
        // The kernel's rejection has bytes that are nobody's.
        assertThat(connector.connectionData().privateData()).startsWith(HELLO);
        assertThat(failure(() -> connector.completeConnect()).status())
                .isEqualTo(Status.CONNECTION_ABORTED);
        // The queue pair was not touched.
        assertThat(failure(() -> connector.connect(near, new InetSocketAddress(HERE, 7))))
                .hasMessageContaining("nobody listens");
    }

    @Test
    void theServerGaveUpBeforeTheConnectionWasRefused() throws Exception {
        Connector connector = connector();
        CompletableFuture<Void> connecting = connecting(connector);
        assertThat(failure(request().acceptAsync(far, SOON)).status()).isEqualTo(Status.IO_TIMEOUT);
        get(connecting);
        Until.holds(() -> connector.toString().contains("accepted, and gave up"));
        assertThat(failure(() -> connector.reject(HELLO)).status())
                .isEqualTo(Status.CONNECTION_ABORTED);
        assertThat(failure(() -> connector.connect(near, new InetSocketAddress(HERE, 7))))
                .hasMessageContaining("nobody listens");
    }

    @ParameterizedTest
    @ValueSource(strings = {"fillIn 2", "fillIn 3", "accept", "change"})
    void eachCallMayFail(String call) throws Exception {
        Connector request = asked();
        if (call.equals("change")) {
            device.changeError = Errno.EINVAL;
        } else {
            network.errors.put(call, Errno.EINVAL);
        }
        assertThat(failure(request.acceptAsync(far, DEFAULTS)).status())
                .isEqualTo(Status.CONNECTION_ABORTED);
        assertThat(device.inError(far.handle().address())).isTrue();
    }

    /** The peer has nothing to do with it. */
    @ParameterizedTest
    @CsvSource({"5, CONNECTION_ABORTED", "19, CONNECTION_ABORTED", "12, INSUFFICIENT_RESOURCES"})
    void aFailureOfThisMachineIsNotBlamedOnThePeer(int errno, Status status) throws Exception {
        network.errors.put("accept", errno);
        VerbenaException e = failure(asked().acceptAsync(far, DEFAULTS));
        assertThat(e.status()).isEqualTo(status);
        assertThat(e).hasMessageNotContaining("gave up");
    }

    @ParameterizedTest
    @ValueSource(strings = {"fillIn 1", "fillIn 3", "establish"})
    void eachCallMayFailWhileCompleting(String call) throws Exception {
        Connector connector = connector();
        CompletableFuture<Void> connecting = connecting(connector);
        CompletableFuture<Void> accepting = request().acceptAsync(far, DEFAULTS);
        get(connecting);
        network.errors.put(call, Errno.EINVAL);
        assertThat(failure(() -> connector.completeConnect()).status())
                .isEqualTo(Status.CONNECTION_ABORTED);
        assertThat(failure(accepting).status()).isEqualTo(Status.CONNECTION_ABORTED);
    }

    @Test
    void theDeadlineComes() throws Exception {
        Connector request = asked();
        network.silent.add("accept");
        assertThat(failure(() -> request.accept(far, SOON)).status()).isEqualTo(Status.IO_TIMEOUT);
    }

    @Test
    void tooMuchPrivateDataLeavesTheRequestAsItIs() throws Exception {
        Connector request = asked();
        ConnectionOptions much = DEFAULTS.withPrivateData(new byte[185]);
        assertThat(failure(() -> request.accept(far, much)).status())
                .isEqualTo(Status.INVALID_BUFFER_SIZE);
        assertThat(failure(() -> request.reject(new byte[137])).status())
                .isEqualTo(Status.INVALID_BUFFER_SIZE);
        request.acceptAsync(far, DEFAULTS);
    }
}
