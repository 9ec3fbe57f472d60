package dev.verbena.internal.verbs;

import dev.verbena.VerbenaException;
import dev.verbena.bindings.Verbs;

/** The Linux errno values that verbs and librdmacm return, with their names and meanings. */
public final class Errno {
    public static final int EPERM = Verbs.EPERM;
    public static final int ENOENT = 2;
    public static final int ENXIO = 6; // the device was removed
    public static final int EIO = Verbs.EIO;
    public static final int EAGAIN = Verbs.EAGAIN;
    public static final int ENOMEM = Verbs.ENOMEM;
    public static final int EACCES = Verbs.EACCES;
    public static final int EBADF = 9;
    public static final int EFAULT = 14;
    public static final int EBUSY = Verbs.EBUSY;
    public static final int ENODEV = Verbs.ENODEV;
    public static final int EINVAL = Verbs.EINVAL;
    public static final int ENFILE = 23;
    public static final int EMFILE = 24;
    public static final int ENOSYS = Verbs.ENOSYS;
    public static final int EOPNOTSUPP = Verbs.EOPNOTSUPP;
    public static final int ETIMEDOUT = Verbs.ETIMEDOUT;
    public static final int EADDRINUSE = Verbs.EADDRINUSE;
    public static final int EADDRNOTAVAIL = Verbs.EADDRNOTAVAIL;
    public static final int ENETUNREACH = 101;
    public static final int EHOSTUNREACH = 113;
    public static final int ECONNREFUSED = Verbs.ECONNREFUSED;

    /** The greatest errno of Linux. */
    public static final int MOST = 133;

    private Errno() {}

    /** Describes an errno in words, for example "out of memory (ENOMEM, errno 12)". */
    public static String describe(int errno) {
        return switch (errno) {
            case EPERM -> named("operation not permitted", "EPERM", errno);
            case ENOENT -> named("no such file or device", "ENOENT", errno);
            case ENXIO -> named("the device is gone", "ENXIO", errno);
            case EIO -> named("input/output error", "EIO", errno);
            case EAGAIN -> named("not now, try again", "EAGAIN", errno);
            case ENOMEM -> named("out of memory", "ENOMEM", errno);
            case EACCES -> named("permission denied", "EACCES", errno);
            case EFAULT -> named("bad address", "EFAULT", errno);
            case EBUSY -> named("still in use", "EBUSY", errno);
            case EBADF -> named("bad file descriptor", "EBADF", errno);
            case ENODEV -> named("no such device", "ENODEV", errno);
            case EINVAL -> named("invalid argument", "EINVAL", errno);
            case ENFILE -> named("too many open files on this machine", "ENFILE", errno);
            case EMFILE -> named("too many open files in this process", "EMFILE", errno);
            case ENOSYS -> named("not implemented", "ENOSYS", errno);
            case EOPNOTSUPP -> named("not supported", "EOPNOTSUPP", errno);
            case ETIMEDOUT -> named("timed out", "ETIMEDOUT", errno);
            case ENETUNREACH -> named("network unreachable", "ENETUNREACH", errno);
            case EHOSTUNREACH -> named("no route to host", "EHOSTUNREACH", errno);
            case EADDRINUSE -> named("address in use", "EADDRINUSE", errno);
            case EADDRNOTAVAIL -> named("address not available", "EADDRNOTAVAIL", errno);
            case ECONNREFUSED -> named("connection refused", "ECONNREFUSED", errno);
            case Verbs.EINTR -> named("interrupted", "EINTR", errno);
            default -> "errno " + errno;
        };
    }

    /**
     * Returns the result of a call: an address, a number, or 0.
     *
     * @throws VerbenaException if the result is a negative errno
     */
    public static long check(long answer, String call, String advice) {
        if (answer < 0) {
            throw new VerbenaException(call, (int) -answer, advice);
        }
        return answer;
    }

    /**
     * Builds an error message: which call failed, why, and what to do about it. For EMFILE and
     * ENFILE the advice does not depend on the call and replaces the given one, which may be empty.
     */
    public static String sentence(String call, int errno, String advice) {
        String better =
                switch (errno) {
                    case EMFILE ->
                            "Raise its limit (ulimit -n; systemd LimitNOFILE=; in a container --ulimit nofile=), or check which files it keeps open (ls -l /proc/PID/fd)";
                    case ENFILE -> "Raise its limit (sysctl fs.file-max)";
                    default -> advice;
                };
        return "%s failed: %s. %s".formatted(call, describe(errno), better).strip();
    }

    private static String named(String text, String name, int errno) {
        return "%s (%s, errno %d)".formatted(text, name, errno);
    }
}
