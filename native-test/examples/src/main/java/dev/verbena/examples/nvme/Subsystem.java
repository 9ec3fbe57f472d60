package dev.verbena.examples.nvme;

import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * What a host connects to by name (NQN): a set of disks, and a controller for each host that uses
 * them. The discovery subsystem has no disks; hosts ask it which other subsystems there are.
 */
final class Subsystem {
    static final String DISCOVERY_NAME = "nqn.2014-08.org.nvmexpress.discovery";
    static final int ALL_NAMESPACES = -1;
    static final int MOST_CONTROLLERS = 0xffef; // higher numbers have a meaning

    private final String name;
    private final List<Namespace> namespaces;
    private final Map<Integer, Controller> controllers = new HashMap<>();
    private final IoCommands io = new IoCommands(this);
    private int nextId = 1;

    Subsystem(String name, List<Namespace> namespaces) {
        this.name = name;
        this.namespaces = List.copyOf(namespaces);
    }

    String name() {
        return name;
    }

    boolean isDiscovery() {
        return name.equals(DISCOVERY_NAME);
    }

    IoCommands io() {
        return io;
    }

    List<Namespace> namespaces() {
        return namespaces;
    }

    /** Whether what is written may be lost until it is flushed. */
    boolean hasCache() {
        return namespaces.stream().anyMatch(Namespace::isVolatile);
    }

    /** By the number that commands carry, from 1 on; null when there is none. */
    Namespace namespace(int number) {
        return number >= 1 && number <= namespaces.size() ? namespaces.get(number - 1) : null;
    }

    // ---- controllers; by the polling thread

    /** A controller for a host; null when there is no number left. */
    Controller add(String hostName, Limits limits, int keepAliveMillis, long now) {
        for (int tries = 0; tries < MOST_CONTROLLERS; tries++) {
            int id = nextId;
            nextId = nextId == MOST_CONTROLLERS ? 1 : nextId + 1;
            if (!controllers.containsKey(id)) {
                Controller made = new Controller(this, id, hostName, limits, keepAliveMillis, now);
                controllers.put(id, made);
                return made;
            }
        }
        return null;
    }

    Controller controller(int id) {
        return controllers.get(id);
    }

    void remove(Controller controller) {
        controllers.remove(controller.id(), controller);
    }

    /** A controller whose host has been silent for too long; null when there is none. */
    Controller expired(long now) {
        if (controllers.isEmpty()) {
            return null;
        }
        for (Controller controller : controllers.values()) {
            if (controller.isExpired(now)) {
                return controller;
            }
        }
        return null;
    }

    int controllerCount() {
        return controllers.size();
    }
}
