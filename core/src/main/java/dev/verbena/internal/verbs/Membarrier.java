package dev.verbena.internal.verbs;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.invoke.MethodHandle;

/**
 * {@code membarrier(2)}: a memory barrier on all processors that run threads of this process, for
 * which only who asks for it pays. It lets a thread that is hardly ever asked for something do
 * without a barrier of its own.
 *
 * <p>Linux has it from 4.14 on; a sandbox may forbid it. Then there is none, and whoever wanted it
 * does as if nobody had thought of it.
 */
public final class Membarrier {
    private static final int PRIVATE_EXPEDITED = 1 << 3;
    private static final int REGISTER_PRIVATE_EXPEDITED = 1 << 4;
    private static final int TRIES = 10;

    /** What the system call's number is: the C library has no function for it. */
    private static int number() {
        return switch (System.getProperty("os.arch")) {
            case "amd64" -> 324;
            case "aarch64", "riscv64", "loongarch64" -> 283; // asm-generic
            case "ppc64le" -> 365;
            case "s390x" -> 356;
            default -> -1; // no system call's
        };
    }

    @SuppressWarnings("restricted") // making downcalls is what this module asks native access for
    private static final class C {
        static final int NUMBER = number();

        /**
         * {@code long syscall(long number, long command, long flags)}. Declared as variadic in C,
         * but hands on the registers that functions of fixed arguments have them in, too. With the
         * signature of a post, which programs have linked anyway: a new one takes some 20 ms of a
         * JVM that has just started.
         */
        static final MethodHandle SYSCALL =
                Linker.nativeLinker()
                        .downcallHandle(
                                Linker.nativeLinker().defaultLookup().findOrThrow("syscall"),
                                FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG));

        private C() {}
    }

    private static volatile boolean ready;

    private Membarrier() {}

    /**
     * Registers this process, so that {@link #raise} works from then on where it can. May take some
     * milliseconds: the kernel waits for all its processors.
     */
    public static void prepare() {
        if (!ready) {
            ready = call(REGISTER_PRIVATE_EXPEDITED) == 0;
        }
    }

    /**
     * Whether {@link #raise} works.
     *
     * @return false before {@link #prepare}, after it where the kernel has no such call or a
     *     sandbox forbids it, and from a failure of {@link #raise} to the next {@link #prepare}
     */
    public static boolean ready() {
        return ready;
    }

    /**
     * Puts a full barrier between what each thread of this process has done before and what it does
     * after; one that does not run has had it when it stopped. Takes some microseconds. Only when
     * {@link #ready}.
     *
     * @throws IllegalStateException when the kernel refuses what it promised
     */
    public static void raise() {
        for (int tries = 1; call(PRIVATE_EXPEDITED) != 0; tries++) {
            if (tries == TRIES) {
                ready = false; // no new owners
                throw new IllegalStateException(
                        "membarrier(2) worked when it was registered, and was refused %d times now: is there a seccomp filter that came later, or has the kernel no memory left?"
                                .formatted(TRIES));
            }
            call(REGISTER_PRIVATE_EXPEDITED); // a process restored from an image has to, again
        }
    }

    private static int call(int command) {
        try {
            return (int) C.SYSCALL.invokeExact((long) C.NUMBER, (long) command, 0L);
        } catch (Throwable t) {
            throw Calls.mistake(t);
        }
    }
}
