package dev.verbena.internal.verbs;

import dev.verbena.bindings.Verbs;

/**
 * Linux errno values: those that verbs and librdmacm answer, with their names and what they mean.
 */
public final class Errno {
    /** Operation not permitted. */
    public static final int EPERM = Verbs.EPERM;

    /** No such file or directory. */
    public static final int ENOENT = 2;

    /** The device is gone. */
    public static final int ENXIO = 6;

    /** I/O error. */
    public static final int EIO = Verbs.EIO;

    /** Try again. */
    public static final int EAGAIN = Verbs.EAGAIN;

    /** Out of memory. */
    public static final int ENOMEM = Verbs.ENOMEM;

    /** Permission denied. */
    public static final int EACCES = Verbs.EACCES;

    /** Bad address. */
    public static final int EFAULT = 14;

    /** In use. */
    public static final int EBUSY = Verbs.EBUSY;

    /** No such device. */
    public static final int ENODEV = Verbs.ENODEV;

    /** Invalid argument. */
    public static final int EINVAL = Verbs.EINVAL;

    /** Too many open files on this machine. */
    public static final int ENFILE = 23;

    /** Too many open files in this process. */
    public static final int EMFILE = 24;

    /** Not implemented. */
    public static final int ENOSYS = Verbs.ENOSYS;

    /** Not supported. */
    public static final int EOPNOTSUPP = Verbs.EOPNOTSUPP;

    /** Timed out. */
    public static final int ETIMEDOUT = Verbs.ETIMEDOUT;

    /** The address is in use. */
    public static final int EADDRINUSE = Verbs.EADDRINUSE;

    /** Not an address of this machine, or no port is left. */
    public static final int EADDRNOTAVAIL = Verbs.EADDRNOTAVAIL;

    /** The network cannot be reached. */
    public static final int ENETUNREACH = 101;

    /** The host cannot be reached. */
    public static final int EHOSTUNREACH = 113;

    /** The peer refused. */
    public static final int ECONNREFUSED = Verbs.ECONNREFUSED;

    private Errno() {}

    /**
     * Says an errno in words.
     *
     * @param errno a positive errno
     * @return as in "out of memory (ENOMEM, errno 12)"
     */
    public static String describe(int errno) {
        return switch (errno) {
            case EPERM -> words("operation not permitted", "EPERM", errno);
            case ENOENT -> words("no such file or device", "ENOENT", errno);
            case ENXIO -> words("the device is gone", "ENXIO", errno);
            case EIO -> words("input/output error", "EIO", errno);
            case EAGAIN -> words("not now, try again", "EAGAIN", errno);
            case ENOMEM -> words("out of memory", "ENOMEM", errno);
            case EACCES -> words("permission denied", "EACCES", errno);
            case EFAULT -> words("bad address", "EFAULT", errno);
            case EBUSY -> words("still in use", "EBUSY", errno);
            case ENODEV -> words("no such device", "ENODEV", errno);
            case EINVAL -> words("invalid argument", "EINVAL", errno);
            case ENFILE -> words("too many open files on this machine", "ENFILE", errno);
            case EMFILE -> words("too many open files in this process", "EMFILE", errno);
            case ENOSYS -> words("not implemented", "ENOSYS", errno);
            case EOPNOTSUPP -> words("not supported", "EOPNOTSUPP", errno);
            case ETIMEDOUT -> words("timed out", "ETIMEDOUT", errno);
            case ENETUNREACH -> words("network unreachable", "ENETUNREACH", errno);
            case EHOSTUNREACH -> words("no route to host", "EHOSTUNREACH", errno);
            case EADDRINUSE -> words("address in use", "EADDRINUSE", errno);
            case EADDRNOTAVAIL -> words("address not available", "EADDRNOTAVAIL", errno);
            case ECONNREFUSED -> words("connection refused", "ECONNREFUSED", errno);
            case Verbs.EINTR -> words("interrupted", "EINTR", errno);
            default -> "errno " + errno;
        };
    }

    /**
     * Says which call failed, why, and what to do about it. What is wrong with some errnos does not
     * depend on the call, and neither does the advice then.
     *
     * @param call the C function
     * @param errno a positive errno
     * @param advice what to do otherwise; may be empty
     * @return one or two sentences
     */
    public static String sentence(String call, int errno, String advice) {
        String better =
                switch (errno) {
                    case EMFILE ->
                            "Raise its limit (ulimit -n; systemd LimitNOFILE=; in a container --ulimit nofile=), or look what it keeps open (ls -l /proc/PID/fd)";
                    case ENFILE -> "Raise its limit (sysctl fs.file-max)";
                    default -> advice;
                };
        return "%s failed: %s. %s".formatted(call, describe(errno), better).strip();
    }

    private static String words(String text, String name, int errno) {
        return "%s (%s, errno %d)".formatted(text, name, errno);
    }
}
