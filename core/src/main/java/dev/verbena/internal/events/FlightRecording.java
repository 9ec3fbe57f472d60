package dev.verbena.internal.events;

import jdk.jfr.FlightRecorder;

/** Whether the JDK's Flight Recorder is there, and has recorded anything in this process. */
public final class FlightRecording {
    private static final boolean PRESENT = present();

    private FlightRecording() {}

    /** Not in a runtime image without jdk.jfr, nor where nothing has this module resolved. */
    private static boolean present() {
        Module module = ModuleLayer.boot().findModule("jdk.jfr").orElse(null);
        return module != null && FlightRecording.class.getModule().canRead(module);
    }

    /**
     * Whether an event may be wanted. Reads one field, and loads no class of an event.
     *
     * @return false in a process that never used the Flight Recorder
     */
    public static boolean on() {
        return PRESENT && FlightRecorder.isInitialized();
    }
}
