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

/**
 * Opens a device, a completion channel and pollers in a process that has no descriptors left, then
 * one, two, and so on, until they suffice: each failure names the reason, and leaves nothing.
 * {@link StandInTest} starts it.
 */
final class DescriptorsOnStandIn {
    private static final int MOST_KIBIBYTES = 8_000;
    private static final int RLIMIT_NOFILE = 7;
    private static final long LIMIT = 256;

    private DescriptorsOnStandIn() {}

    public static void main(String[] arguments) throws Throwable {
        limitDescriptors();
        Trust.Row row = Trust.row("descriptors run out, stand-in");
        serve(); // loads classes, for which there will be no descriptors
        refused("no device of this name");
        Footprint before = Footprint.now();
        List<String> wrong = new ArrayList<>();
        int failures = 0;
        Deque<FileInputStream> taken = takeAll();
        for (boolean serves = false; !serves; taken.pop().close()) {
            try {
                serve();
                serves = true;
            } catch (VerbenaException e) {
                failures++;
                if (!e.getMessage().contains("too many open files")) {
                    wrong.add("with %d taken: %s".formatted(taken.size(), e));
                }
            }
        }
        while (!taken.isEmpty()) {
            taken.pop().close();
        }
        Footprint after = Footprint.now();
        int leaks = after.leaks(before, MOST_KIBIBYTES);
        row.faults(failures).leaks(leaks).write();
        if (failures < 3) {
            wrong.add("%d failures, of several steps".formatted(failures));
        }
        wrong.forEach(System.out::println);
        System.out.printf("before: %s, after: %s%n", before, after);
        System.exit(leaks == 0 && wrong.isEmpty() ? 0 : 1);
    }

    /** So that it does not take a million of them where the system allows as many. */
    @SuppressWarnings("restricted")
    private static void limitDescriptors() throws Throwable {
        MethodHandle setrlimit =
                Linker.nativeLinker()
                        .downcallHandle(
                                Linker.nativeLinker().defaultLookup().findOrThrow("setrlimit"),
                                FunctionDescriptor.of(JAVA_INT, JAVA_INT, ADDRESS));
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment limit = arena.allocateFrom(JAVA_LONG, LIMIT, LIMIT);
            if ((int) setrlimit.invokeExact(RLIMIT_NOFILE, limit) != 0) {
                throw new IllegalStateException("setrlimit failed");
            }
        }
    }

    private static void refused(String name) {
        try (Adapter adapter = Adapter.open(name)) {
            throw new IllegalStateException(adapter + " is open");
        } catch (VerbenaException expected) {
            // its classes are loaded
        }
    }

    private static Deque<FileInputStream> takeAll() {
        Deque<FileInputStream> taken = new ArrayDeque<>();
        while (true) {
            try {
                taken.push(new FileInputStream("/dev/null"));
            } catch (IOException e) {
                return taken;
            }
        }
    }

    private static void serve() {
        try (Adapter adapter = Adapter.open("copy0");
                CompletionChannel channel = adapter.createCompletionChannel();
                Poller woken = Poller.start(adapter, IdleStrategy.events());
                Poller polled = Poller.onThisThread(adapter, IdleStrategy.busySpin())) {
            if (woken == polled || polled.poll() != 0) {
                throw new IllegalStateException(channel + ": something completed");
            }
        }
    }
}
