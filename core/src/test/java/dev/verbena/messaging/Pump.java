package dev.verbena.messaging;

import dev.verbena.internal.verbs.FakeDevice;

/** A thread that carries out what is posted to a device that does not exist, and forgets it. */
final class Pump implements AutoCloseable {
    private final FakeDevice device;
    private final Thread thread;
    private boolean ended; // guarded by the device

    Pump(FakeDevice device) {
        this.device = device;
        thread = Thread.ofPlatform().daemon().start(this::run);
    }

    private void run() {
        synchronized (device) {
            while (!ended) {
                step(device);
                try {
                    device.wait(); // for a post, a poll or a change of state
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                }
            }
        }
    }

    /** Carries out what was posted, and forgets it. */
    static void step(FakeDevice device) {
        synchronized (device) {
            device.run();
            device.sends.clear();
            device.receives.clear();
            device.chains.clear();
            device.arms.clear();
        }
    }

    @Override
    public void close() {
        synchronized (device) {
            ended = true;
            device.notifyAll();
        }
        try {
            thread.join();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
