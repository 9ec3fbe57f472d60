package dev.verbena;

import dev.verbena.internal.verbs.DeviceAttributes;
import dev.verbena.internal.verbs.ExtendedAttributes;
import dev.verbena.internal.verbs.Provider;

import java.util.List;

/**
 * What an {@link AdapterInfo} is made from: the attributes of a device, the result of its probe,
 * and what follows from its provider and ports.
 *
 * @param name the device's name
 * @param device {@code ibv_query_device}
 * @param providerName the name of its provider
 * @param maxWindowBytes the largest window, 0 without windows
 * @param technology what carries the operations
 * @param maxTransferBytes the longest message of any port
 * @param found what was found by creating objects
 * @param extended {@code ibv_query_device_ex}, or {@link ExtendedAttributes#NONE}
 */
record AdapterFacts(
        String name,
        DeviceAttributes device,
        String providerName,
        long maxWindowBytes,
        AdapterInfo.Technology technology,
        long maxTransferBytes,
        AdapterProbe.Found found,
        ExtendedAttributes extended) {

    static AdapterFacts of(
            String name,
            DeviceAttributes device,
            Provider provider,
            List<Port> ports,
            AdapterProbe.Found found) {
        return new AdapterFacts(
                name,
                device,
                provider.name(),
                found.windows() ? Math.min(device.maxRegistration(), provider.maxWindowBytes()) : 0,
                technology(device, ports),
                longestMessage(ports),
                found,
                ExtendedAttributes.NONE);
    }

    /** The same, with what only {@code ibv_query_device_ex} reports. */
    AdapterFacts with(ExtendedAttributes attributes) {
        return new AdapterFacts(
                name,
                device,
                providerName,
                maxWindowBytes,
                technology,
                maxTransferBytes,
                found,
                attributes);
    }

    private static AdapterInfo.Technology technology(DeviceAttributes device, List<Port> ports) {
        if (device.iwarp()) {
            return AdapterInfo.Technology.IWARP;
        }
        if (!device.infiniband()) {
            return AdapterInfo.Technology.OTHER;
        }
        // A device may have ports of both kinds: use the port that queue pairs get by default.
        Port.LinkLayer first = null;
        for (Port port : ports) {
            if (port.active()) {
                first = port.linkLayer();
                break;
            }
            first = first == null ? port.linkLayer() : first;
        }
        return first == Port.LinkLayer.ETHERNET
                ? AdapterInfo.Technology.ROCE
                : AdapterInfo.Technology.INFINIBAND;
    }

    private static long longestMessage(List<Port> ports) {
        long longest = 0;
        for (Port port : ports) {
            longest = Math.max(longest, port.maxMessageBytes());
        }
        return longest;
    }
}
