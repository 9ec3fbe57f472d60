package dev.verbena.tools;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/**
 * The threads that compile this program while it runs. What they have not finished before a
 * measurement is measured with it: in the interpreter, and short of the processors that they take.
 * There is no event for their having nothing to do, but the kernel knows who of them sleeps.
 */
final class PerfCompilers {
    private static final Path THREADS = Path.of("/proc/self/task");
    private static final long LOOK_EVERY_MILLIS = 5;
    private static final int LOOKS = 4; // idle in so many looks in a row

    private PerfCompilers() {}

    /**
     * Waits until they have nothing to do.
     *
     * @param seconds how long at most
     * @return whether they are idle
     */
    static boolean awaitIdle(int seconds) {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        try {
            List<Path> threads;
            try (Stream<Path> all = Files.list(THREADS)) {
                threads = all.filter(PerfCompilers::compiles).toList();
            }
            for (int idle = 0; idle < LOOKS; ) {
                idle = threads.stream().allMatch(PerfCompilers::sleeps) ? idle + 1 : 0;
                if (System.nanoTime() - end > 0) {
                    return false;
                }
                Thread.sleep(LOOK_EVERY_MILLIS);
            }
            return true;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return false;
        }
    }

    private static boolean compiles(Path thread) {
        return read(thread.resolve("comm")).contains("Compiler");
    }

    private static boolean sleeps(Path thread) {
        // "number (name) state …"; compilers come and go
        String stat = read(thread.resolve("stat"));
        int name = stat.lastIndexOf(')');
        return name < 0 || stat.startsWith(" S", name + 1);
    }

    private static String read(Path file) {
        try {
            return Files.readString(file);
        } catch (IOException e) {
            return ""; // the thread has ended
        }
    }
}
