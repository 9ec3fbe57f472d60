package dev.verbena.bench;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.MemoryRegion;
import dev.verbena.ProtectionDomain;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * Registering and deregistering memory, as {@code c/register.c} does it. One line per size and
 * round, the median of the round.
 */
public final class Registering {
    private static final long SMALL = 4096;
    private static final long LARGE = 1L << 30;

    private final ProtectionDomain domain;
    private long[] registering;
    private long[] deregistering;

    private Registering(ProtectionDomain domain) {
        this.domain = domain;
    }

    /**
     * Measures.
     *
     * @param arguments the device's name, then options
     */
    public static void main(String[] arguments) {
        Options options =
                new Options(
                        "Registering DEVICE [--count N] [--large-count N] [--warmup N] [--rounds N]",
                        1,
                        arguments,
                        "--count",
                        "--large-count",
                        "--warmup",
                        "--rounds");
        int count = options.number("--count", 1000);
        int largeCount = options.number("--large-count", 5);
        int rounds = options.number("--rounds", 5);
        try (Adapter adapter = Adapter.open(options.argument(0));
                ProtectionDomain domain = adapter.createProtectionDomain();
                Arena arena = Arena.ofShared()) {
            Registering program = new Registering(domain);
            MemorySegment small = arena.allocate(SMALL, SMALL).fill((byte) 1);
            MemorySegment large = arena.allocate(LARGE, SMALL).fill((byte) 1);
            program.measure(small, options.number("--warmup", 30_000));
            program.measure(large, 1);
            for (int i = 0; i < rounds; i++) {
                program.round(small, count);
                program.round(large, largeCount);
            }
        }
    }

    private void measure(MemorySegment memory, int count) {
        registering = new long[count];
        deregistering = new long[count];
        for (int i = 0; i < count; i++) {
            long start = System.nanoTime();
            MemoryRegion region = domain.register(memory, Access.LOCAL_WRITE);
            long middle = System.nanoTime();
            region.close();
            registering[i] = middle - start;
            deregistering[i] = System.nanoTime() - middle;
        }
    }

    private void round(MemorySegment memory, int count) {
        measure(memory, count);
        String bytes = "bytes=" + memory.byteSize();
        Results.print(
                "register-deregister",
                bytes,
                Results.medianMicros(Results.sums(registering, deregistering)),
                "us");
        Results.print("register", bytes, Results.medianMicros(registering), "us");
        Results.print("deregister", bytes, Results.medianMicros(deregistering), "us");
    }
}
