package dev.verbena.internal.events;

import jdk.jfr.Category;
import jdk.jfr.Description;
import jdk.jfr.Enabled;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;

/** A post returned another status than SUCCESS. */
@Name("dev.verbena.RefusedPost")
@Label("Refused Post")
@Category({"Verbena", "Requests"})
@Description("A post returned another status than SUCCESS, and had no effect")
@Enabled(false)
public final class RefusedPostEvent extends Event {
    private static final RefusedPostEvent SETTINGS = new RefusedPostEvent();

    @Label("Device")
    String device = "";

    @Label("Queue Pair")
    @Description("The number of this side's queue pair (qp_num)")
    int queuePair;

    @Label("Operation")
    String operation = "";

    @Label("Status")
    String status = "";

    @Label("Reason")
    String reason = "";

    private RefusedPostEvent() {}

    /** Whether a recording wants it. Allocates nothing. */
    public static boolean wanted() {
        return SETTINGS.isEnabled();
    }

    /** Records it. */
    public static void record(
            String device, int queuePair, String operation, String status, String reason) {
        RefusedPostEvent event = new RefusedPostEvent();
        event.device = device;
        event.queuePair = queuePair;
        event.operation = operation;
        event.status = status;
        event.reason = reason;
        event.commit();
    }
}
