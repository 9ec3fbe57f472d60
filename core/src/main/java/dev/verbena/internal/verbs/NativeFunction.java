package dev.verbena.internal.verbs;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.util.Arrays;

/**
 * A C function whose parameters are numbers and pointers.
 *
 * <p>All functions are called by the same method handle, as if each had six parameters of 64 bits:
 * linking a signature that is new to the JVM takes it 3 to 12 ms just after its start, and there
 * are 50 functions. The calling conventions of Linux on x86-64 and aarch64 allow that. Each pass
 * the first six numbers and pointers in a register of 64 bits, of which a function reads as many
 * bits as its parameter has, and ignores registers for which it has no parameter. A result of fewer
 * bits is in the lower ones: the caller casts to its type. {@code NativeFunctionTest} checks that
 * the functions in use have no other parameters.
 */
@SuppressWarnings("restricted") // making downcalls is what this module asks native access for
record NativeFunction(MemorySegment address) {
    private static final int MOST_ARGUMENTS = 6;

    private static final MethodHandle CALL =
            Linker.nativeLinker()
                    .downcallHandle(
                            FunctionDescriptor.of(
                                    JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG,
                                    JAVA_LONG, JAVA_LONG),
                            Linker.Option.captureCallState("errno"));

    /**
     * For calls that must not allocate: capturing errno allocates an object of 40 bytes per call
     * (JDK 25, SharedUtils.checkCaptureSegment).
     */
    private static final class WithoutErrno {
        static final MethodHandle CALL = link();

        private WithoutErrno() {}
    }

    private static final class Critical {
        static final MethodHandle CALL = link(Linker.Option.critical(false));

        private Critical() {}
    }

    /**
     * A handle for functions of up to four parameters that return an int, after the address of the
     * function. Each set of options is another one to link.
     */
    private static MethodHandle link(Linker.Option... options) {
        return Linker.nativeLinker()
                .downcallHandle(
                        FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG),
                        options);
    }

    /** Links what {@link #call} needs: later, near the end of a stack, that could fail for good. */
    static void prepare(boolean critical) {
        var _ = critical ? Critical.CALL : WithoutErrno.CALL;
    }

    /** The function at an address; 0 for one that must not be called. */
    static NativeFunction at(long address) {
        return new NativeFunction(MemorySegment.ofAddress(address));
    }

    /** Whether there is no function at this address, so that it must not be called. */
    boolean isNull() {
        return address.address() == 0;
    }

    /** Calls a function that returns NULL and sets errno: the address, or a negative errno. */
    long pointer(long... arguments) {
        try (Scratch scratch = Scratch.borrow()) {
            return scratch.pointer(call(scratch, arguments));
        }
    }

    /**
     * Calls a function that reports an error either as its value or as -1 with errno. Returns 0 or
     * a negative errno.
     */
    int value(long... arguments) {
        try (Scratch scratch = Scratch.borrow()) {
            return scratch.value(call(scratch, arguments));
        }
    }

    /**
     * Calls a function that returns a count or an identifier, or -1 with errno. Returns that
     * number, or a negative errno.
     */
    int count(long... arguments) {
        try (Scratch scratch = Scratch.borrow()) {
            return scratch.count(call(scratch, arguments));
        }
    }

    /**
     * Calls the function with at most six arguments; {@link Scratch#errno} then returns its errno.
     */
    long call(Scratch scratch, long... arguments) {
        long[] a = Arrays.copyOf(arguments, MOST_ARGUMENTS);
        try {
            return (long)
                    CALL.invokeExact(address, scratch.state, a[0], a[1], a[2], a[3], a[4], a[5]);
        } catch (Throwable t) {
            throw unexpected(t);
        }
    }

    int callWithoutErrno(long a, long b, long c) {
        return call(false, address, a, b, c);
    }

    /** Calls the function without an allocation; its errno is lost. */
    int callWithoutErrno(long a, long b, long c, long d) {
        try {
            return (int) WithoutErrno.CALL.invokeExact(address, a, b, c, d);
        } catch (Throwable t) {
            throw unexpected(t);
        }
    }

    /** As {@link #callWithoutErrno(long, long, long)}, as a critical call. */
    int callBriefly(long a, long b, long c) {
        return call(true, address, a, b, c);
    }

    /**
     * Calls a function without an allocation; its errno is lost.
     *
     * @param critical whether it returns in well under a microsecond, stays in user space and does
     *     not call Java. A safepoint has to wait for its end then; otherwise the thread is marked
     *     as being in native code, which costs about 7 ns
     */
    static int call(boolean critical, MemorySegment function, long a, long b, long c) {
        try {
            return critical
                    ? (int) Critical.CALL.invokeExact(function, a, b, c, 0L)
                    : (int) WithoutErrno.CALL.invokeExact(function, a, b, c, 0L);
        } catch (Throwable t) {
            throw unexpected(t);
        }
    }

    /**
     * Rethrows what a downcall threw. Unchecked exceptions reach the caller unchanged. A downcall
     * throws no checked exception, so any other throwable becomes the AssertionError that this
     * returns.
     */
    static AssertionError unexpected(Throwable t) {
        if (t instanceof RuntimeException e) {
            throw e;
        }
        if (t instanceof Error e) {
            throw e;
        }
        return new AssertionError("calling native code", t);
    }
}
