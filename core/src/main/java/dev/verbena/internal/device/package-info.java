/**
 * Opening a device, its ports and GIDs, its probed limits, and its events.
 *
 * <p>Open {@link dev.verbena.internal.device.Devices} first: it lists the devices of this machine
 * and opens one as a {@link dev.verbena.internal.device.Device}, on which an adapter is built.
 * {@link dev.verbena.internal.device.AddressLookup} finds the device of an IP address or of a
 * route. {@link dev.verbena.internal.device.Probe} finds limits that hold together by creating
 * objects.
 */
@NullMarked
package dev.verbena.internal.device;

import org.jspecify.annotations.NullMarked;
