package dev.verbena.trust;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.verbena.Adapter;
import dev.verbena.CompletionChannel;
import dev.verbena.VerbenaException;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.Poller;

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

        Resource(int steps) {
            this.steps = steps;
        }

        /** There are so many left. */
        abstract void leave(int count) throws Throwable;

        /** There are enough again. */
        abstract void leaveEnough() throws Throwable;

        /** Whether this is what a program should hear. */
        abstract boolean explains(Throwable thrown);

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

        private final Deque<FileInputStream> taken = new ArrayDeque<>();

        Descriptors() {
            super(3);
        }

        @Override
        void leave(int count) throws Throwable {
            if (count == 0) {
                limit(RLIMIT_NOFILE, LIMIT, LIMIT);
                takeAll();
            } else {
                taken.pop().close();
            }
        }

        private void takeAll() {
            while (true) {
                try {
                    taken.push(new FileInputStream("/dev/null"));
                } catch (IOException e) {
                    return;
                }
            }
        }

        @Override
        void leaveEnough() throws Throwable {
            while (!taken.isEmpty()) {
                taken.pop().close();
            }
        }

        @Override
        boolean explains(Throwable thrown) {
            return thrown instanceof VerbenaException
                    && thrown.getMessage().contains("too many open files");
        }
    }

    /** Their stacks are so large ({@code -Xss}) that there are addresses for a few only. */
    private static final class Threads extends Resource {
        private static final int RLIMIT_AS = 9;
        private static final long FREE = 7L << 29; // three stacks and a half

        private final Deque<Thread> taken = new ArrayDeque<>(); // parked

        Threads() {
            super(2);
        }

        @Override
        void leave(int count) throws Throwable {
            if (count == 0) {
                limit(RLIMIT_AS, (Footprint.kibibytes("VmSize:") << 10) + FREE, -1);
                takeAll();
            } else {
                giveOneBack();
            }
        }

        /** Also the stacks of threads that have ended, which are kept for new ones. */
        private void takeAll() {
            while (true) {
                try {
                    taken.push(Thread.ofPlatform().start(Threads::await));
                } catch (OutOfMemoryError e) {
                    return;
                }
            }
        }

        private static void await() {
            try {
                new CountDownLatch(1).await();
            } catch (InterruptedException e) {
                return; // given back
            }
        }

        private void giveOneBack() throws InterruptedException {
            Thread last = taken.pop();
            last.interrupt();
            last.join();
        }

        @Override
        void leaveEnough() throws Throwable {
            limit(RLIMIT_AS, -1, -1);
            while (!taken.isEmpty()) {
                giveOneBack();
            }
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
        for (boolean serves = false; !serves; ) {
            scarce.leave(failures);
            try {
                serve();
                serves = true;
            } catch (VerbenaException | OutOfMemoryError e) {
                if (!scarce.explains(e)) {
                    wrong.add("with %d left: %s".formatted(failures, e));
                }
                failures++;
            }
        }
        scarce.leaveEnough();
        Footprint after = Footprint.now();
        int leaks = after.leaks(before, MOST_KIBIBYTES);
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
