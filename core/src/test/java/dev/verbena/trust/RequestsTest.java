package dev.verbena.trust;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.FakeAdapters;
import dev.verbena.internal.verbs.FakeConnections;
import dev.verbena.internal.verbs.FakeDevice;

import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.net.InetAddress;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/** Random requests on a device that does not exist, which refuses and fails at random. */
@Tag("trust")
@Timeout(3600)
class RequestsTest {
    private static final InetAddress HERE = InetAddress.ofLiteral("10.0.0.1");
    private static final int[] VENDORS = {FakeDevice.PLAIN, FakeDevice.RXE, FakeDevice.MELLANOX};

    @Test
    void eachCompletesOnceAtItsOwner() throws Exception {
        RequestLives lives =
                new RequestLives("fake device", 10_000, OnFakeDevice::of, complain -> 0);
        assertThat(lives.run(Trust.size(300_000, 10_000_000))).isEmpty();
    }

    private static final class OnFakeDevice extends Place {
        private final FakeDevice device;
        private final FakeConnections network;
        private final boolean keepsRefused;

        private OnFakeDevice(FakeDevice device, FakeConnections network, boolean keepsRefused) {
            super(FakeAdapters.open(device, network));
            this.device = device;
            this.network = network;
            this.keepsRefused = keepsRefused;
            device.refusesLast = !keepsRefused;
        }

        static OnFakeDevice of(long seed) {
            FakeDevice device = new FakeDevice();
            Random random = new Random(seed);
            device.vendorId = VENDORS[random.nextInt(VENDORS.length)];
            device.carriesBytes = true;
            device.pollsToFlush = random.nextBoolean() ? 0 : random.nextInt(100);
            device.flusher =
                    CompletableFuture.delayedExecutor(random.nextInt(20), TimeUnit.MILLISECONDS);
            FakeConnections network = new FakeConnections();
            network.devices.put(HERE, "fake0");
            return new OnFakeDevice(device, network, random.nextInt(8) == 0);
        }

        @Override
        InetAddress address() {
            return HERE;
        }

        @Override
        boolean disturb(Random random) {
            if (random.nextInt(10) == 0) {
                return network.disconnectAny(random);
            }
            synchronized (device) {
                if (random.nextInt(50) == 0) {
                    device.failAt = random.nextInt(10);
                    device.failStatus = 10;
                } else {
                    device.answer = random.nextBoolean() ? 22 : 12; // EINVAL or ENOMEM
                    device.keepsRefused = keepsRefused && random.nextBoolean();
                    boolean anyIndex = random.nextInt(4) == 0;
                    device.refused = anyIndex ? random.nextInt(8) : random.nextInt(2) - 1;
                }
            }
            return true;
        }

        @Override
        boolean keepsRefused() {
            return keepsRefused;
        }

        /** The device remembers each request, which tests look at. */
        @Override
        void tidy() {
            synchronized (device) {
                device.sends.clear();
                device.receives.clear();
                device.chains.clear();
            }
        }

        @Override
        int leaks(Consumer<String> complain) {
            device.panics.forEach(complain);
            if (device.overruns > 0) {
                complain.accept(device.overruns + " overruns");
            }
            try {
                device.until(() -> device.objects() == 0);
                network.until(() -> network.identifiers() == 0);
                device.dispose();
            } catch (AssertionError notInTime) {
                complain.accept(device.objects() + " native objects are left");
            }
            return device.objects();
        }
    }
}
