package dev.verbena;

import dev.verbena.internal.verbs.ConnectionControl;
import dev.verbena.internal.verbs.DeviceList;
import dev.verbena.internal.verbs.LibraryConnections;
import dev.verbena.internal.verbs.LibraryControl;
import dev.verbena.internal.verbs.RdmaCore;
import dev.verbena.internal.verbs.VerbsContext;

import java.util.ArrayList;
import java.util.List;

/**
 * The RDMA devices of this machine, as libibverbs lists them: their names, and how one is opened.
 */
final class DeviceDirectory {
    private DeviceDirectory() {}

    /** The lookup of devices by addresses of this machine and its peers. */
    static AdapterLookup lookup() {
        return new AdapterLookup(
                new AdapterLookup.Devices() {
                    @Override
                    public List<String> names() {
                        return DeviceDirectory.names();
                    }

                    @Override
                    public Adapter open(String name) {
                        return DeviceDirectory.open(name);
                    }

                    @Override
                    public String whyNone() {
                        return DeviceDirectory.whyNone();
                    }
                },
                new LocalNetwork(),
                AdapterLookup.INTERFACES);
    }

    /** The names that {@code ibv_devices} prints. */
    static List<String> names() {
        try (DeviceList devices = devices()) {
            return names(devices);
        }
    }

    /** The names of those devices that have a port whose link is up. */
    static List<String> activeNames() {
        List<String> active = new ArrayList<>();
        for (String name : names()) {
            try (Adapter adapter = open(name)) {
                if (adapter.ports().stream().anyMatch(Port::active)) {
                    active.add(name);
                }
            }
        }
        return active;
    }

    static Adapter open(String name) {
        try (DeviceList devices = devices()) {
            int index = names(devices).indexOf(name);
            if (index < 0) {
                throw new VerbenaException(
                        Status.INVALID_PARAMETER,
                        "There is no RDMA device \"%s\" here; %s"
                                .formatted(name, inventory(devices)));
            }
            long opened =
                    VerbenaException.check(
                            devices.open(index),
                            "ibv_open_device(" + name + ")",
                            "The process needs read and write access to /dev/infiniband/uverbs*; in"
                                    + " a container, pass the device in (--device).");
            return new Adapter(
                    name,
                    new LibraryControl(opened),
                    provider ->
                            new VerbsContext(opened).withCriticalCalls(provider.throughKernel()),
                    DeviceDirectory::connectionControl);
        }
    }

    /** Why {@link #names} is empty; "" if it is not. */
    static String whyNone() {
        try (DeviceList devices = devices()) {
            return devices.size() == 0 ? "No RDMA device: " + WithoutDevices.reason() : "";
        }
    }

    /** The connection manager of rdma-core. */
    static ConnectionControl connectionControl() {
        VerbenaException.check(RdmaCore.exhausted(), "rdma_create_event_channel", "");
        String problem = RdmaCore.problemWithConnections();
        if (!problem.isEmpty()) {
            throw new VerbenaException(Status.NOT_SUPPORTED, problem);
        }
        return new LibraryConnections();
    }

    private static DeviceList devices() {
        VerbenaException.check(RdmaCore.exhausted(), "ibv_get_device_list", "");
        String problem = RdmaCore.problemWithVerbs();
        if (!problem.isEmpty()) {
            throw new VerbenaException(Status.NOT_SUPPORTED, problem);
        }
        DeviceList devices = DeviceList.get();
        VerbenaException.check(devices.error(), "ibv_get_device_list", "");
        return devices;
    }

    private static List<String> names(DeviceList devices) {
        List<String> names = new ArrayList<>();
        for (int i = 0; i < devices.size(); i++) {
            names.add(devices.name(i));
        }
        return names;
    }

    private static String inventory(DeviceList devices) {
        return devices.size() == 0
                ? WithoutDevices.reason()
                : "there are " + String.join(", ", names(devices));
    }
}
