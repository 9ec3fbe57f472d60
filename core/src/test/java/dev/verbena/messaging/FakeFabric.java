package dev.verbena.messaging;

import dev.verbena.Adapter;
import dev.verbena.FakeAdapters;
import dev.verbena.internal.verbs.FakeConnections;
import dev.verbena.internal.verbs.FakeDevice;
import dev.verbena.internal.verbs.StateChange;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.function.Predicate;

/**
 * A device and a network that do not exist, which a thread keeps running. Also for tests of other
 * modules.
 */
public final class FakeFabric implements AutoCloseable {
    public static final InetAddress HERE = InetAddress.ofLiteral("10.0.0.1");

    private static final int EIO = 5;
    private static final int ENOMEM = 12;
    private static final int EBUSY = 16;

    /** By a queue pair: its queues, a completion channel and its domain. */
    private static final int MOST_KEPT = 4;

    private static final Set<String> CREATIONS =
            Set.of(
                    "allocatePd",
                    "registerMemory",
                    "allocateWindow",
                    "createChannel",
                    "createCq",
                    "createSrq",
                    "createQp");

    public final FakeDevice device = new FakeDevice();
    final FakeConnections network = new FakeConnections();
    final InjectedErrors errors = new InjectedErrors();
    public final Adapter adapter = FakeAdapters.open(device, network);
    private final Pump pump;
    private volatile int mostKept;

    public FakeFabric() {
        device.beforeStep = this::beforeStep;
        network.beforeStep = this::beforeStep;
        device.carriesBytes = true;
        network.devices.put(HERE, "fake0");
        pump = new Pump(device);
    }

    private void beforeStep(String step) {
        device.initError = 0; // what has failed fails once
        network.errors.keySet().removeIf(name -> name.startsWith("fillIn"));
        errors.before(step);
    }

    /** Makes the native call of this name that is about to run return an error. */
    void refuse(String step) {
        switch (step) {
            case "toInit" -> device.initError = ENOMEM;
            case "change" -> device.changeError = ENOMEM;
            case "fillIn" -> {
                for (int state = 0; state < 8; state++) {
                    network.errors.put("fillIn " + state, ENOMEM);
                }
            }
            default -> {
                if (CREATIONS.contains(step)) {
                    device.controlError = ENOMEM;
                } else {
                    network.errors.put(step, ENOMEM);
                }
            }
        }
    }

    /**
     * Makes one destroy, poll or arm return an error.
     *
     * @param verbs which of them count
     * @param step which of those fails
     */
    void refuseOther(Predicate<String> verbs, int step) {
        errors.at(
                step,
                verb -> {
                    if (verb.endsWith("_cq") && !verb.startsWith("ibv_destroy")) {
                        device.queueError = EIO;
                    } else {
                        device.destroyErrors.put(verb, EBUSY);
                        mostKept = MOST_KEPT;
                    }
                });
        device.beforeStep = name -> {};
        network.beforeStep = name -> {};
        device.beforeOther =
                verb -> {
                    device.destroyErrors.clear();
                    if (verbs.test(verb)) {
                        errors.before(verb);
                    }
                };
    }

    /** No native call returns an error from now on. */
    void refuseNothing() {
        errors.none();
        device.initError = 0;
        device.changeError = 0;
        device.controlError = 0;
        network.errors.clear();
        device.queueError = 0;
        device.destroyErrors.clear();
    }

    /** From now on, no peer answers; or they do again. */
    public void stall(boolean stalls) {
        synchronized (device) {
            device.running = !stalls;
            device.notifyAll();
        }
    }

    /** How many identifiers of connections and listeners there are. */
    public int identifiers() {
        return network.identifiers();
    }

    /** What an attribute of each queue pair was set to in a step of its connection. */
    public List<Integer> changed(int toState, StateChange.Attribute attribute) {
        synchronized (device) {
            return device.changes.stream()
                    .filter(change -> change.state() == toState)
                    .map(change -> change.get(attribute))
                    .toList();
        }
    }

    /** Forgets what it noted of connections, for tests to look at: with each, that grows. */
    void forgetNotes() {
        synchronized (device) {
            device.changes.forEach(StateChange::close);
            device.changes.clear();
        }
        network.calls.clear();
    }

    public static InetSocketAddress port(int port) {
        return new InetSocketAddress(HERE, port);
    }

    /** Except for what a test had the device refuse to destroy, and what that depends on. */
    private boolean nothingIsLeft() {
        device.forgetRefused();
        return device.objects() <= mostKept;
    }

    @Override
    public void close() {
        // What is closed pends until the peer has answered.
        adapter.close();
        device.until(this::nothingIsLeft);
        network.until(() -> network.identifiers() == 0);
        if (mostKept == 0) {
            adapter.awaitClosed(Duration.ofSeconds(30)); // a connector left would keep it
        }
        pump.close();
        if (!device.panics.isEmpty() || device.overruns != 0) {
            throw new AssertionError("%d overruns; %s".formatted(device.overruns, device.panics));
        }
        device.dispose();
    }
}
