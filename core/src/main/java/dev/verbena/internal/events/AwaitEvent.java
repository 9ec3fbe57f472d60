package dev.verbena.internal.events;

import jdk.jfr.Category;
import jdk.jfr.Description;
import jdk.jfr.Enabled;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;

/** A thread waited for completions. */
@Name("dev.verbena.Await")
@Label("Await")
@Category({"Verbena", "Completions"})
@Description("A thread waited for a completion queue, or for the queues of a completion channel")
@Enabled(false)
public final class AwaitEvent extends Event {
    @Label("Device")
    String device = "";

    @Label("Fired")
    @Description("Whether a queue fired, before the time was over")
    boolean fired;

    private AwaitEvent() {}

    /** Begins to measure. */
    public static AwaitEvent start() {
        AwaitEvent event = new AwaitEvent();
        event.begin();
        return event;
    }

    /** Ends it. */
    public void end(String device, boolean fired) {
        if (shouldCommit()) {
            this.device = device;
            this.fired = fired;
            commit();
        }
    }
}
