package dev.verbena.messaging;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.QueuePair;

import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.util.Random;

/**
 * Every message is accounted for, on a device that does not exist, whose requests fail and hang,
 * and a network that loses connections: none is lost, none comes twice, out of order, or to the
 * wrong channel.
 */
@Tag("trust")
@Timeout(7200)
class LedgerTest {
    @Test
    void everyMessageIsAccountedFor() throws Exception {
        MessageLedger ledger =
                MessageLedger.ofChannels(
                        "fake device", 20_000, 10_000_000, 4000, 4 << 20, OnFabric::of);
        assertThat(ledger.run()).isEmpty();
    }

    @Test
    void everyMessageOfRawConnectionsIsAccountedFor() throws Exception {
        MessageLedger ledger =
                MessageLedger.ofRawConnections(
                        "fake device", 20_000, 10_000_000, 4000, OnFabric::of);
        assertThat(ledger.run()).isEmpty();
    }

    @Test
    void everyCallIsAccountedFor() throws Exception {
        MessageLedger ledger =
                MessageLedger.ofCalls(
                        "fake device", 10_000, 1_000_000, 4000, 1 << 20, OnFabric::of);
        assertThat(ledger.run()).isEmpty();
    }

    private static final class OnFabric extends MessageLedger.Place {
        private static final int REMOTE_ACCESS_ERROR = 10;

        private final FakeFabric fabric;

        private OnFabric(FakeFabric fabric) {
            super(fabric.adapter, fabric.adapter, FakeFabric.port(7471));
            this.fabric = fabric;
        }

        static OnFabric of(long seed) {
            return new OnFabric(new FakeFabric());
        }

        @Override
        protected void disturb(Random random) throws InterruptedException {
            switch (random.nextInt(3)) {
                case 0 -> {
                    fabric.stall(true); // for everybody
                    Thread.sleep(random.nextInt(20));
                    fabric.stall(false);
                }
                case 1 -> {
                    synchronized (fabric.device) {
                        fabric.device.failStatus = REMOTE_ACCESS_ERROR;
                        fabric.device.failAt = random.nextInt(10);
                    }
                }
                default -> fabric.network.disconnectAny(random);
            }
        }

        @Override
        protected boolean hasCut(QueuePair pair) {
            return fabric.network.cut.contains(pair.toString().replace(", closed", ""));
        }

        @Override
        public void close() {
            fabric.close();
        }
    }
}
