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
 * The few functions of the C library that are needed to wait for events: {@code poll(2)}, {@code
 * eventfd(2)}, {@code epoll(7)}, {@code read}, {@code write}, {@code fcntl} and {@code close}.
 * Their signatures and constants are the same on every Linux this module runs on.
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

    /** In a holder class: linked when a thread first waits for a completion. */
    static final class WithoutErrno {
        /** Does not capture errno, so that it allocates nothing; see {@link Calls#withoutErrno}. */
        static final MethodHandle POLL =
                LINKER.downcallHandle(
                        LINKER.defaultLookup().findOrThrow("poll"),
                        FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, JAVA_INT));

        private WithoutErrno() {}
    }

    private static final MethodHandle EVENTFD =
            call("eventfd", FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_INT));
    // Used for eventfds only, so their errors can be ignored: a write fails only when the counter
    // is at its maximum, and then it is readable; a read fails only when it is 0.
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

    /** For consumers that run their own event loop; linked on first use. */
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
     * Sets O_NONBLOCK: a read then fails with EAGAIN when there is nothing to read.
     *
     * @param descriptor an open file descriptor
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
            throw Calls.unexpected(t);
        }
    }

    /**
     * {@code eventfd(2)}: a descriptor by which one thread wakes another that waits in {@link
     * #await}.
     *
     * @return its number, or a negative errno
     */
    public static int newEventFd() {
        try (Scratch scratch = Scratch.borrow()) {
            int descriptor =
                    (int) EVENTFD.invokeExact(scratch.state, 0, EFD_CLOEXEC | EFD_NONBLOCK);
            return descriptor >= 0 ? descriptor : -scratch.errno();
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }

    /**
     * Makes an eventfd readable, which wakes the thread that waits for it.
     *
     * @param eventFd a descriptor from {@link #newEventFd}
     */
    public static void setReadable(int eventFd) {
        try {
            long ignored = (long) WRITE.invokeExact(eventFd, ONE, ONE.byteSize());
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }

    /**
     * Resets an eventfd, so that it is not readable any more.
     *
     * @param eventFd a descriptor from {@link #newEventFd}
     * @return whether it was readable
     */
    public static boolean drain(int eventFd) {
        try {
            return (long) READ.invokeExact(eventFd, ANYTHING, ANYTHING.byteSize()) > 0;
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }

    /**
     * {@code close(2)}.
     *
     * @param descriptor an open file descriptor
     */
    public static void close(int descriptor) {
        try (Scratch scratch = Scratch.borrow()) {
            int ignored = (int) CLOSE.invokeExact(scratch.state, descriptor);
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }

    /**
     * Makes one descriptor that is readable when either of two is: {@code epoll(7)}.
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
            // struct epoll_event begins with the events. The offset of its data depends on the
            // architecture; they stay 0.
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
            throw Calls.unexpected(t);
        }
    }

    /**
     * Waits until at least one of some descriptors is readable: {@code poll(2)}. A virtual thread
     * that calls this keeps its carrier thread.
     *
     * @param milliseconds the timeout; negative means none
     * @param descriptors at most 32; negative ones are ignored
     * @return a bit for each that is readable, from bit 0 for the first; 0 after the timeout or a
     *     signal; or a negative errno
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
            throw Calls.unexpected(t);
        }
    }
}
