package dev.verbena.internal.events;

import jdk.jfr.Category;
import jdk.jfr.Description;
import jdk.jfr.Enabled;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.StackTrace;

/** What events of memory windows have in common: whose they are, and the token. */
@Category({"Verbena", "Memory"})
@Enabled(false)
@StackTrace(false)
abstract class WindowEvent extends Event {
    @Label("Device")
    String device = "";

    @Label("Queue Pair")
    @Description("The number of this side's queue pair (qp_num)")
    int queuePair;

    @Label("Token")
    @Description("The remote key (rkey)")
    int token;

    WindowEvent() {}
}
