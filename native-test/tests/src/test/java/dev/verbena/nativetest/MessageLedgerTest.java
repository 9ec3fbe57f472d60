package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Adapter;
import dev.verbena.Status;
import dev.verbena.messaging.MessageLedger;

import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.net.InetSocketAddress;
import java.util.List;

/** Every message is accounted for, on devices: {@link MessageLedger}. */
@NeedsDevices
@Tag("trust")
@Timeout(7200)
class MessageLedgerTest {
    @Test
    void everyMessageIsAccountedFor() throws Exception {
        MessageLedger ledger =
                MessageLedger.ofChannels(
                        "devices", 4000, 200_000, 2000, 1 << 20, seed -> new OnDevices());
        assertThat(ledger.run()).isEmpty();
    }

    @Test
    void everyMessageOfRawConnectionsIsAccountedFor() throws Exception {
        MessageLedger ledger =
                MessageLedger.ofRawConnections(
                        "devices", 2000, 200_000, 2000, seed -> new OnDevices());
        assertThat(ledger.run()).isEmpty();
    }

    @Test
    void everyCallIsAccountedFor() throws Exception {
        MessageLedger ledger =
                MessageLedger.ofCalls(
                        "devices", 1000, 50_000, 500, 1 << 16, seed -> new OnDevices());
        assertThat(ledger.run()).isEmpty();
    }

    private static final class OnDevices extends MessageLedger.Place {
        private OnDevices(Adapter here, Adapter there) {
            super(here, there, new InetSocketAddress(there.gid().gid().gid().toInetAddress(), 0));
        }

        OnDevices() {
            List<String> active = RdmaDevices.active();
            this(Adapter.open(active.getFirst()), Adapter.open(active.getLast()));
        }

        /** Because of the other end, which has a reason of its own, or as the machine is busy. */
        @Override
        protected boolean mayEndWith(Status status) {
            return status == Status.CONNECTION_ABORTED
                    || status == Status.CONNECTION_INVALID
                    || status == Status.IO_TIMEOUT;
        }
    }
}
