package dev.verbena.messaging;

import jdk.jfr.Category;
import jdk.jfr.Description;
import jdk.jfr.Enabled;
import jdk.jfr.Event;
import jdk.jfr.FlightRecorder;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;
import jdk.jfr.Timespan;

/** Reports a slow round of a poller to the JDK's Flight Recorder, where that is in use. */
final class SlowRound {
    // Not in a runtime image without jdk.jfr, nor where nothing has this module resolved.
    private static final boolean RECORDER_IS_PRESENT = recorderIsPresent();

    private SlowRound() {}

    private static boolean recorderIsPresent() {
        Module module = ModuleLayer.boot().findModule("jdk.jfr").orElse(null);
        return module != null && SlowRound.class.getModule().canRead(module);
    }

    /** Loads the class of the event only where something is or was recorded: that takes long. */
    static void record(String device, int completions, long nanoseconds) {
        if (RECORDER_IS_PRESENT && FlightRecorder.isInitialized()) {
            SlowRoundEvent.record(device, completions, nanoseconds);
        }
    }

    @Name("dev.verbena.SlowRound")
    @Label("Slow Round")
    @Category({"Verbena", "Channels"})
    @Description(
            "Handlers and callbacks of a poller took more than 10 ms, and all its channels waited")
    @Enabled(false)
    @StackTrace(false)
    @SuppressWarnings("UnusedVariable") // the Flight Recorder reads them
    private static final class SlowRoundEvent extends Event {
        @Label("Device")
        String device = "";

        @Label("Completions")
        @Description("How many were dispatched in this round")
        int completions;

        @Label("Time")
        @Timespan(Timespan.NANOSECONDS)
        long time;

        static void record(String device, int completions, long nanoseconds) {
            SlowRoundEvent event = new SlowRoundEvent();
            if (event.shouldCommit()) {
                event.device = device;
                event.completions = completions;
                event.time = nanoseconds;
                event.commit();
            }
        }
    }
}
