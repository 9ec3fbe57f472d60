package dev.verbena.internal.events;

import jdk.jfr.DataAmount;
import jdk.jfr.Description;
import jdk.jfr.Label;
import jdk.jfr.MemoryAddress;
import jdk.jfr.Name;

/** A bind of a window was accepted. */
@Name("dev.verbena.WindowBound")
@Label("Window Bound")
@Description("A bind of a memory window was accepted: the peer may use the token from now on")
public final class WindowBoundEvent extends WindowEvent {
    private static final WindowBoundEvent SETTINGS = new WindowBoundEvent();

    @Label("Address")
    @MemoryAddress
    long address;

    @Label("Length")
    @DataAmount
    long length;

    private WindowBoundEvent() {}

    /** Whether a recording wants it. Allocates nothing. */
    public static boolean wanted() {
        return SETTINGS.isEnabled();
    }

    /** Records it. */
    public static void record(String device, int queuePair, int token, long address, long length) {
        WindowBoundEvent event = new WindowBoundEvent();
        event.device = device;
        event.queuePair = queuePair;
        event.token = token;
        event.address = address;
        event.length = length;
        event.commit();
    }
}
