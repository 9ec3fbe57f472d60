package dev.verbena.internal.verbs;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/**
 * The few calls of the C library that waiting for an event takes: {@code poll(2)}, {@code
 * eventfd(2)} and what goes with them. Their signatures and constants are the same on every Linux
 * this module runs on.
 */
@SuppressWarnings("restricted") // making downcalls is what this module asks native access for
public final class Descriptors {
    private static final Linker LINKER = Linker.nativeLinker();

    // struct pollfd { int fd; short events; short revents; }
    static final long POLLFD = 8;
    static final long EVENTS = 4;
    static final long REVENTS = 6;
    static final short POLLIN = 1;
    static final int EINTR = 4;
    private static final int EFD_CLOEXEC = 0x80000; // O_CLOEXEC and O_NONBLOCK, asm-generic
    private static final int EFD_NONBLOCK = 0x800;
    private static final int EPOLL_CTL_ADD = 1;
    private static final int EPOLLIN = 1;
    private static final long EPOLL_EVENT = 16; // 12 on x86-64, where it is packed
    private static final int F_GETFL = 3;
    private static final int F_SETFL = 4;

    static final MethodHandle POLL =
            call("poll", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, JAVA_INT));

    /** For who sleeps until a completion comes; linked when the first one does. */
    static final class Plain {
        /** Without its errno, and the object that takes; see {@link Calls#plain}. */
        static final MethodHandle POLL =
                LINKER.downcallHandle(
                        LINKER.defaultLookup().findOrThrow("poll"),
                        FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, JAVA_INT));

        private Plain() {}
    }

    private static final MethodHandle EVENTFD =
            call("eventfd", FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_INT));
    // Of alarms only, whose errors say nothing: a counter that is at its maximum is readable, and
    // one
    // that is 0 has nothing to read.
    private static final FunctionDescriptor TRANSFER =
            FunctionDescriptor.of(JAVA_LONG, JAVA_INT, ADDRESS, JAVA_LONG);
    private static final MethodHandle READ =
            LINKER.downcallHandle(LINKER.defaultLookup().findOrThrow("read"), TRANSFER);
    private static final MethodHandle WRITE =
            LINKER.downcallHandle(LINKER.defaultLookup().findOrThrow("write"), TRANSFER);
    private static final MemorySegment ONE = Arena.global().allocateFrom(JAVA_LONG, 1);
    private static final MemorySegment ANYTHING = Arena.global().allocate(JAVA_LONG);

    private static final MethodHandle CLOSE =
            call("close", FunctionDescriptor.of(JAVA_INT, JAVA_INT));
    private static final MethodHandle FCNTL =
            LINKER.downcallHandle(
                    LINKER.defaultLookup().findOrThrow("fcntl"),
                    FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_INT, JAVA_INT),
                    Linker.Option.firstVariadicArg(2),
                    Linker.Option.captureCallState("errno"));

    /** For loops of a consumer's own; linked when the first one asks. */
    private static final class Epoll {
        static final MethodHandle CREATE =
                call("epoll_create1", FunctionDescriptor.of(JAVA_INT, JAVA_INT));
        static final MethodHandle CTL =
                call(
                        "epoll_ctl",
                        FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_INT, JAVA_INT, ADDRESS));

        private Epoll() {}
    }

    private Descriptors() {}

    private static MethodHandle call(String name, FunctionDescriptor descriptor) {
        return LINKER.downcallHandle(
                LINKER.defaultLookup().findOrThrow(name),
                descriptor,
                Linker.Option.captureCallState("errno"));
    }

    /**
     * Makes reading a descriptor answer EAGAIN where there is nothing to read.
     *
     * @param descriptor an open one
     */
    public static void nonBlocking(int descriptor) {
        try (Scratch scratch = Scratch.borrow()) {
            int flags = (int) FCNTL.invokeExact(scratch.state, descriptor, F_GETFL, 0);
            int set =
                    (int)
                            FCNTL.invokeExact(
                                    scratch.state, descriptor, F_SETFL, flags | EFD_NONBLOCK);
            if (flags < 0 || set < 0) {
                throw new IllegalStateException(
                        "fcntl(%d): %s".formatted(descriptor, Errno.describe(scratch.errno())));
            }
        } catch (Throwable t) {
            throw Calls.mistake(t);
        }
    }

    /**
     * A descriptor by which one thread wakes another up.
     *
     * @return its number, or a negative errno
     */
    public static int newAlarm() {
        try (Scratch scratch = Scratch.borrow()) {
            int descriptor =
                    (int) EVENTFD.invokeExact(scratch.state, 0, EFD_CLOEXEC | EFD_NONBLOCK);
            return descriptor >= 0 ? descriptor : -scratch.errno();
        } catch (Throwable t) {
            throw Calls.mistake(t);
        }
    }

    /**
     * Makes an alarm readable.
     *
     * @param alarm what {@link #newAlarm} gave
     */
    public static void raise(int alarm) {
        try {
            long ignored = (long) WRITE.invokeExact(alarm, ONE, ONE.byteSize());
        } catch (Throwable t) {
            throw Calls.mistake(t);
        }
    }

    /**
     * Makes an alarm unreadable again.
     *
     * @param alarm what {@link #newAlarm} gave
     * @return whether it was readable
     */
    public static boolean silence(int alarm) {
        try {
            return (long) READ.invokeExact(alarm, ANYTHING, ANYTHING.byteSize()) > 0;
        } catch (Throwable t) {
            throw Calls.mistake(t);
        }
    }

    /**
     * {@code close(2)}.
     *
     * @param descriptor an open one
     */
    public static void close(int descriptor) {
        try (Scratch scratch = Scratch.borrow()) {
            int ignored = (int) CLOSE.invokeExact(scratch.state, descriptor);
        } catch (Throwable t) {
            throw Calls.mistake(t);
        }
    }

    /**
     * One descriptor that is readable when one of two is: {@code epoll(7)}.
     *
     * @param first a descriptor
     * @param second another
     * @return its number, or a negative errno
     */
    public static int join(int first, int second) {
        try (Scratch scratch = Scratch.borrow()) {
            int joined = (int) Epoll.CREATE.invokeExact(scratch.state, EFD_CLOEXEC);
            if (joined < 0) {
                return -scratch.errno();
            }
            // struct epoll_event begins with the events; where its data lie differs, and they are
            // 0.
            MemorySegment event = scratch.allocate(EPOLL_EVENT, Long.BYTES);
            event.set(JAVA_INT, 0, EPOLLIN);
            for (int descriptor : new int[] {first, second}) {
                if ((int)
                                Epoll.CTL.invokeExact(
                                        scratch.state, joined, EPOLL_CTL_ADD, descriptor, event)
                        != 0) {
                    int errno = scratch.errno();
                    close(joined);
                    return -errno;
                }
            }
            return joined;
        } catch (Throwable t) {
            throw Calls.mistake(t);
        }
    }

    /**
     * Waits until one of some descriptors is readable: {@code poll(2)}. Holds its carrier thread
     * when called on a virtual one.
     *
     * @param milliseconds how long at most; negative is for ever
     * @param descriptors at most 32; negative ones are passed over
     * @return a bit for each that is readable, from bit 0 for the first; 0 when the time ran out or
     *     a signal came; or a negative errno
     */
    public static int await(int milliseconds, int... descriptors) {
        try (Scratch scratch = Scratch.borrow()) {
            MemorySegment all = scratch.allocate(descriptors.length * POLLFD, Integer.BYTES);
            for (int i = 0; i < descriptors.length; i++) {
                all.set(JAVA_INT, i * POLLFD, descriptors[i]);
                all.set(JAVA_SHORT, i * POLLFD + EVENTS, POLLIN);
            }
            int ready =
                    (int)
                            POLL.invokeExact(
                                    scratch.state, all, (long) descriptors.length, milliseconds);
            if (ready < 0) {
                int errno = scratch.errno();
                return errno == EINTR ? 0 : -errno;
            }
            int bits = 0;
            for (int i = 0; i < descriptors.length; i++) {
                bits |= all.get(JAVA_SHORT, i * POLLFD + REVENTS) != 0 ? 1 << i : 0;
            }
            return bits;
        } catch (Throwable t) {
            throw Calls.mistake(t);
        }
    }
}
