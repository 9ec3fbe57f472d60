package dev.verbena.tools;

import java.io.IOException;
import java.io.PrintWriter;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/**
 * Prints how far a measurement is: on a terminal once a second, in one line that is overwritten;
 * elsewhere every ten seconds. All that it costs the measuring thread is to store a number.
 */
final class PerfProgress implements AutoCloseable {
    private static final int PLAIN_EVERY = 10;
    private static final Path STANDARD_ERROR = Path.of("/proc/self/fd/2");
    private static final VarHandle DONE;

    static {
        try {
            DONE = MethodHandles.lookup().findVarHandle(PerfProgress.class, "done", long.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private final PrintWriter err;
    private final boolean terminal;
    private final ScheduledExecutorService timer; // or null
    private long done;
    private volatile String what;
    private volatile long total;
    private int seconds; // of the timer's thread
    private boolean shown; // under the lock

    /** Prints to a writer, or nowhere when that is null. */
    PerfProgress(PrintWriter err) {
        this.err = err;
        this.terminal = onTerminal();
        if (err == null) {
            timer = null;
        } else {
            timer =
                    Executors.newSingleThreadScheduledExecutor(
                            Thread.ofPlatform().name("perf-progress").daemon().factory());
            var _ = timer.scheduleAtFixedRate(this::print, 1, 1, TimeUnit.SECONDS);
        }
    }

    private static boolean onTerminal() {
        try {
            String file = Files.readSymbolicLink(STANDARD_ERROR).toString();
            return file.startsWith("/dev/pts/") || file.startsWith("/dev/tty");
        } catch (IOException e) {
            return false;
        }
    }

    /** Something begins; the number of iterations is 0 where it is not known. */
    void begin(String name, long iterations) {
        reached(0);
        total = iterations;
        what = name;
    }

    /** So much of it is done. */
    void reached(long iterations) {
        DONE.setOpaque(this, iterations);
    }

    private synchronized void print() {
        String name = what;
        seconds++;
        if (name == null || (!terminal && seconds % PLAIN_EVERY != 0)) {
            return;
        }
        String words = "%s: %,d".formatted(name, (long) DONE.getOpaque(this));
        if (total > 0) {
            words += " of %,d".formatted(total);
        }
        if (terminal) {
            err.print("\r\033[K" + words);
            err.flush();
            shown = true;
        } else {
            err.println(words);
        }
    }

    /** It is over; standard error and output are free for others. */
    synchronized void end() {
        what = null;
        if (shown) {
            err.print("\r\033[K");
            err.flush();
            shown = false;
        }
    }

    @Override
    public void close() {
        if (timer != null) {
            timer.shutdownNow();
        }
        end();
    }
}
