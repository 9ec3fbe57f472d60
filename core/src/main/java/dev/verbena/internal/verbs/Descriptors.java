package dev.verbena.internal.verbs;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;

/**
 * The few functions of the C library that are needed to wait for events: {@code poll(2)}, {@code
 * eventfd(2)}, {@code epoll(7)}, {@code read}, {@code write}, {@code fcntl} and {@code close}.
 * Their signatures and constants are the same on every Linux this module runs on.
 */
public final class Descriptors {
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

    private static final NativeFunction POLL = Libraries.c("poll");
    private static final NativeFunction EVENTFD = Libraries.c("eventfd");
    private static final NativeFunction READ = Libraries.c("read");
    private static final NativeFunction WRITE = Libraries.c("write");
    private static final NativeFunction CLOSE = Libraries.c("close");
    private static final NativeFunction FCNTL = Libraries.c("fcntl");
    private static final NativeFunction EPOLL_CREATE = Libraries.c("epoll_create1");
    private static final NativeFunction EPOLL_CTL = Libraries.c("epoll_ctl");

    // Read and write are used for eventfds only, so their errors can be ignored: a write fails only
    // when the counter is at its maximum, and then it is readable; a read fails only when it is 0.
    private static final long ONE = Arena.global().allocateFrom(JAVA_LONG, 1).address();
    private static final long ANYTHING = Arena.global().allocate(JAVA_LONG).address();

    private Descriptors() {}

    /** Fills in a struct pollfd, all of it, that waits until a descriptor is readable. */
    static void putPollIn(long pollfd, int descriptor) {
        Native.putInt(pollfd, 0, descriptor);
        Native.putInt(pollfd, EVENTS, POLLIN); // and revents, the upper half, to 0
    }

    /** Whether {@code poll(2)} found the descriptor of a struct pollfd readable, or failed. */
    static boolean readable(long pollfd) {
        return Native.getShort(pollfd, REVENTS) != 0;
    }

    /** Sets O_NONBLOCK: a read then fails with EAGAIN when there is nothing to read. */
    public static void nonBlocking(int descriptor) {
        int flags = FCNTL.count(descriptor, F_GETFL, 0);
        int set = FCNTL.count(descriptor, F_SETFL, flags | EFD_NONBLOCK);
        if (flags < 0 || set < 0) {
            throw new IllegalStateException(
                    "fcntl(%d): %s".formatted(descriptor, Errno.describe(-Math.min(flags, set))));
        }
    }

    /**
     * {@code eventfd(2)}: a descriptor by which one thread wakes another that waits in {@link
     * #await}.
     */
    public static int newEventFd() {
        return EVENTFD.count(0, EFD_CLOEXEC | EFD_NONBLOCK);
    }

    /** Makes an eventfd readable, which wakes the thread that waits for it. */
    public static void setReadable(int eventFd) {
        WRITE.callWithoutErrno(eventFd, ONE, Long.BYTES);
    }

    /** Resets an eventfd, so that it is not readable any more. */
    public static boolean drain(int eventFd) {
        return READ.callWithoutErrno(eventFd, ANYTHING, Long.BYTES) > 0;
    }

    /** {@code close(2)}. */
    public static void close(int descriptor) {
        CLOSE.value(descriptor);
    }

    /** Makes one descriptor that is readable when either of two is: {@code epoll(7)}. */
    public static int join(int first, int second) {
        try (Scratch scratch = Scratch.borrow()) {
            int joined = EPOLL_CREATE.count(EFD_CLOEXEC);
            // struct epoll_event begins with the events. The offset of its data depends on the
            // architecture; they stay 0.
            long event = scratch.allocate(EPOLL_EVENT);
            Native.putInt(event, 0, EPOLLIN);
            for (int descriptor : new int[] {first, second}) {
                int error =
                        joined < 0 ? 0 : EPOLL_CTL.value(joined, EPOLL_CTL_ADD, descriptor, event);
                if (error != 0) {
                    close(joined);
                    return error;
                }
            }
            return joined;
        }
    }

    /**
     * Calls {@code poll(2)} without allocating, and returns the number of {@code struct pollfd}
     * that are ready. After a signal or an error it polls again, without waiting, to learn errno.
     */
    static int poll(long pollfds, int count, int milliseconds) {
        int ready = POLL.callWithoutErrno(pollfds, count, milliseconds);
        return ready >= 0 ? ready : POLL.count(pollfds, count, 0);
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
            long all = scratch.reserve(descriptors.length * POLLFD);
            for (int i = 0; i < descriptors.length; i++) {
                putPollIn(all + i * POLLFD, descriptors[i]);
            }
            int ready = poll(all, descriptors.length, milliseconds);
            if (ready < 0) {
                return ready == -EINTR ? 0 : ready;
            }
            int bits = 0;
            for (int i = 0; i < descriptors.length; i++) {
                bits |= readable(all + i * POLLFD) ? 1 << i : 0;
            }
            return bits;
        }
    }
}
