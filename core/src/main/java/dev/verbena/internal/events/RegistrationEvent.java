package dev.verbena.internal.events;

import jdk.jfr.Category;
import jdk.jfr.DataAmount;
import jdk.jfr.Description;
import jdk.jfr.Enabled;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;

/** Memory was registered, or could not be. */
@Name("dev.verbena.Registration")
@Label("Registration")
@Category({"Verbena", "Memory"})
@Description("Memory was registered (ibv_reg_mr, ibv_reg_dmabuf_mr), or could not be")
@Enabled(false)
public final class RegistrationEvent extends Event {
    @Label("Device")
    String device = "";

    @Label("Bytes")
    @DataAmount
    long bytes;

    @Label("Rights")
    @Description("enum ibv_access_flags")
    int rights;

    @Label("Registered")
    @Description("Whether it was registered")
    boolean registered;

    private RegistrationEvent() {}

    /** Begins to measure. */
    public static RegistrationEvent start() {
        RegistrationEvent event = new RegistrationEvent();
        event.begin();
        return event;
    }

    /** Ends it. */
    public void end(String device, long bytes, int rights, boolean registered) {
        if (shouldCommit()) {
            this.device = device;
            this.bytes = bytes;
            this.rights = rights;
            this.registered = registered;
            commit();
        }
    }
}
