package dev.verbena.internal.events;

import jdk.jfr.Category;
import jdk.jfr.Description;
import jdk.jfr.Enabled;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;

/** A device reported an asynchronous event. */
@Name("dev.verbena.Device")
@Label("Device Event")
@Category({"Verbena", "Devices"})
@Description("A device reported an asynchronous event, such as a link that went down")
@Enabled(false)
@StackTrace(false)
public final class DeviceEvent extends Event {
    @Label("Device")
    String device = "";

    @Label("Port")
    @Description("The number of the port, from 1; 0 where the event concerns none")
    int port;

    @Label("Type")
    @Description("A type of AdapterEvent: PORT_DOWN, PORT_UP, GIDS_CHANGED, DEVICE_FAILED, ...")
    String type = "";

    @Label("Object")
    @Description("The queue pair, completion queue or shared receive queue that it concerns")
    String object = "";

    private DeviceEvent() {}

    /**
     * Records it.
     *
     * @param port its number, or 0
     * @param object what it concerns, or ""
     */
    public static void record(String device, int port, String type, String object) {
        DeviceEvent event = new DeviceEvent();
        if (event.shouldCommit()) {
            event.device = device;
            event.port = port;
            event.type = type;
            event.object = object;
            event.commit();
        }
    }
}
