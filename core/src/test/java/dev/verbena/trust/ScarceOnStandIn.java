package dev.verbena.trust;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.verbena.Adapter;
import dev.verbena.CompletionChannel;
import dev.verbena.Until;
import dev.verbena.VerbenaException;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.Poller;

import org.jspecify.annotations.Nullable;

import java.io.FileInputStream;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.CountDownLatch;

/**
 * Opens a device, a completion channel and pollers in a process that can have no more of a
 * resource, then one more, two, and so on, until they suffice: each failure names the reason, and
 * leaves nothing. {@link StandInTest} starts it.
 */
final class ScarceOnStandIn {
    private static final int MOST_KIBIBYTES = 8_000;

    private ScarceOnStandIn() {}

    /** What there is too little of. */
    private abstract static class Resource {
        final int steps; // that need one
        private final Deque<AutoCloseable> taken = new ArrayDeque<>();

        Resource(int steps) {
            this.steps = steps;
        }

        abstract void limit() throws Throwable;

        void limitNoMore() throws Throwable {}

        /** Takes one until it is closed; null if there is none left. */
        abstract @Nullable AutoCloseable take();

        /** Whether this is what a program should hear. */
        abstract boolean explains(Throwable thrown);

        final void takeAll() throws Throwable {
            limit();
            for (AutoCloseable one = take(); one != null; one = take()) {
                taken.push(one);
            }
        }

        final void leaveOneMore() throws Exception {
            if (taken.isEmpty()) {
                throw new IllegalStateException("All do not suffice: some were left behind");
            }
            taken.pop().close();
        }

        final void leaveEnough() throws Throwable {
            limitNoMore();
            while (!taken.isEmpty()) {
                taken.pop().close();
            }
        }

        @SuppressWarnings("restricted")
        static void limit(int resource, long soft, long hard) throws Throwable {
            MethodHandle setrlimit =
                    Linker.nativeLinker()
                            .downcallHandle(
                                    Linker.nativeLinker().defaultLookup().findOrThrow("setrlimit"),
                                    FunctionDescriptor.of(JAVA_INT, JAVA_INT, ADDRESS));
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment limits = arena.allocateFrom(JAVA_LONG, soft, hard);
                if ((int) setrlimit.invokeExact(resource, limits) != 0) {
                    throw new IllegalStateException("setrlimit failed");
                }
            }
        }
    }

    private static final class Descriptors extends Resource {
        private static final int RLIMIT_NOFILE = 7;
        private static final long LIMIT = 256; // or it would take a million of them

        Descriptors() {
            super(3);
        }

        @Override
        void limit() throws Throwable {
            limit(RLIMIT_NOFILE, LIMIT, LIMIT);
        }

        @Override
        @Nullable AutoCloseable take() {
            try {
                return new FileInputStream("/dev/null");
            } catch (IOException e) {
                return null;
            }
        }

        @Override
        boolean explains(Throwable thrown) {
            return thrown instanceof VerbenaException
                    && thrown.getMessage().contains("too many open files");
        }
    }

    /**
     * Their stacks are so large ({@code -Xss}) that there are addresses for a few only. All are
     * taken, because the stacks of threads that have ended are kept for new ones.
     */
    private static final class Threads extends Resource {
        private static final int RLIMIT_AS = 9;
        private static final long FREE = 7L << 29; // three stacks and a half

        Threads() {
            super(2);
        }

        @Override
        void limit() throws Throwable {
            limit(RLIMIT_AS, (Footprint.kibibytes("VmSize:") << 10) + FREE, -1);
        }

        @Override
        void limitNoMore() throws Throwable {
            limit(RLIMIT_AS, -1, -1);
        }

        @Override
        @Nullable AutoCloseable take() {
            CountDownLatch closed = new CountDownLatch(1);
            Thread thread;
            try {
                thread = Thread.ofPlatform().start(() -> Until.reached(closed));
            } catch (OutOfMemoryError e) {
                return null;
            }
            return () -> {
                closed.countDown();
                thread.join();
            };
        }

        @Override
        boolean explains(Throwable thrown) {
            return thrown instanceof OutOfMemoryError
                    && thrown.getMessage().contains("unable to create native thread");
        }
    }

    /** Argument: descriptors or threads. */
    public static void main(String[] arguments) throws Throwable {
        Trust.Row row = Trust.row(arguments[0] + " run out, stand-in");
        serve(); // loads classes, for which there will be no descriptors
        refused("no device of this name");
        Resource scarce = arguments[0].equals("threads") ? new Threads() : new Descriptors();
        Footprint before = Footprint.now();
        List<String> wrong = new ArrayList<>();
        int failures = 0;
        scarce.takeAll();
        for (boolean serves = false; !serves; ) {
            try {
                serve();
                serves = true;
            } catch (VerbenaException | OutOfMemoryError e) {
                if (!scarce.explains(e)) {
                    wrong.add("with %d left: %s".formatted(failures, e));
                }
                failures++;
                scarce.leaveOneMore();
            }
        }
        scarce.leaveEnough();
        Footprint after = Footprint.now();
        int leaks = after.leaks(before, MOST_KIBIBYTES, MOST_KIBIBYTES);
        row.faults(failures).leaks(leaks).write();
        if (failures < scarce.steps) {
            wrong.add("%d failures, of %d steps".formatted(failures, scarce.steps));
        }
        wrong.forEach(System.out::println);
        System.out.printf("before: %s, after: %s%n", before, after);
        System.exit(leaks == 0 && wrong.isEmpty() ? 0 : 1);
    }

    private static void refused(String name) {
        try (Adapter adapter = Adapter.open(name)) {
            throw new IllegalStateException(adapter + " is open");
        } catch (VerbenaException expected) {
            // its classes are loaded
        }
    }

    private static void serve() {
        try (Adapter adapter = Adapter.open("copy0");
                CompletionChannel channel = adapter.createCompletionChannel();
                Poller woken = Poller.start(adapter, IdleStrategy.events());
                Poller another = Poller.start(adapter, IdleStrategy.events());
                Poller polled = Poller.onThisThread(adapter, IdleStrategy.busySpin())) {
            if (woken == another || polled.poll() != 0) {
                throw new IllegalStateException(channel + ": something completed");
            }
        }
    }
}
