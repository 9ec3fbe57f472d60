package dev.verbena.internal.verbs;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.function.LongSupplier;

/**
 * The time of the kernel's last timer interrupt ({@code CLOCK_MONOTONIC_COARSE}), which is 1 to 10
 * ms old. Reading it takes 4 ns, {@link System#nanoTime} 20: the processor's counter is not read.
 * Where a sandbox refuses that clock, it is {@code nanoTime}. For one thread.
 */
public final class CoarseClock implements LongSupplier {
    private static final int CLOCK_MONOTONIC_COARSE = 6;
    private static final long BILLION = 1_000_000_000;

    private static final NativeFunction GET_TIME = Libraries.c("clock_gettime");
    private static final NativeFunction GET_RESOLUTION = Libraries.c("clock_getres");

    private final int id;
    private final MemorySegment time = Arena.ofAuto().allocate(2 * Long.BYTES, Long.BYTES);

    /** The kernel's. */
    public CoarseClock() {
        this(CLOCK_MONOTONIC_COARSE);
    }

    CoarseClock(int id) {
        this.id = id;
    }

    /** Returns the time in nanoseconds, from an arbitrary origin. */
    @Override
    public long getAsLong() {
        return read(GET_TIME) ? nanoseconds() : System.nanoTime();
    }

    /** How old the time may be, in nanoseconds, unless the timer interrupt is late. */
    public long resolution() {
        return read(GET_RESOLUTION) ? nanoseconds() : 0;
    }

    private boolean read(NativeFunction function) {
        return function.callBriefly(id, time.address(), 0) == 0;
    }

    private long nanoseconds() {
        return time.get(ValueLayout.JAVA_LONG, 0) * BILLION
                + time.get(ValueLayout.JAVA_LONG, Long.BYTES);
    }
}
