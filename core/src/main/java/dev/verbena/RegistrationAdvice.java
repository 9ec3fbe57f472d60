package dev.verbena;

import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.Provider;
import dev.verbena.internal.verbs.Rights;

/** What to do about a registration that failed, for the message of its exception. */
final class RegistrationAdvice {
    // ib_umem_get of the kernel: ib_access_writable includes MW_BIND; before Linux 6.2
    // (b40656aa7d55) all memory was pinned with FOLL_WRITE, read-only by FOLL_FORCE, which shared
    // mappings do not allow.
    private static final String READ_ONLY_PAGES =
            "Is it mapped, and may it be written to? What is mapped read-only (a read-only mapping of a file, PROT_READ) can be registered for reading only: as a segment that says so, asReadOnly(), with no right or REMOTE_READ, without WINDOWS. Linux before 6.2 registers no read-only mapping of a file: map it with MapMode.PRIVATE there. ";

    static final String NO_PAGING =
            "Memory cannot be registered ON_DEMAND with %s: the device, or its driver in this kernel, has no on-demand paging (AdapterInfo.onDemandPaging; Soft-RoCE has it from Linux 6.15 on). Register it without ON_DEMAND";

    private RegistrationAdvice() {}

    static String forMemory(Provider provider, int errno, int access, long bytes) {
        String large = errno == Errno.ENOMEM ? provider.adviceForLargeRegion(bytes) : null;
        if (large != null) {
            return large;
        }
        if ((access & Rights.ON_DEMAND) != 0) {
            return "The memory was to be paged on demand: ordinary memory can be in most cases, huge pages and the memory of devices cannot everywhere. Without ON_DEMAND it is pinned instead.";
        }
        long lockable = MemoryRegion.lockableBytes();
        return "%sRegistered memory is locked memory, of which this process may have %s (ulimit -l; systemd LimitMEMLOCK=infinity; in a container --ulimit memlock=-1)."
                .formatted(
                        errno == Errno.EFAULT ? READ_ONLY_PAGES : "",
                        lockable == Long.MAX_VALUE
                                ? "any amount"
                                : "%,d bytes in all".formatted(lockable));
    }

    static String forDmaBuf(Provider provider, int errno) {
        return switch (errno) {
            case Errno.EOPNOTSUPP, Errno.ENOSYS ->
                    "The provider %s, or its driver in this kernel, cannot register dma-bufs: copy through memory of ProtectionDomain.allocate instead."
                            .formatted(provider.name());
            case Errno.EBADF -> "The file descriptor is not open.";
            case Errno.EINVAL ->
                    "Is the file descriptor a dma-buf's, and are offset and length within it?";
            default ->
                    "The exporter of the dma-buf may not let this device have it: see its driver's messages (dmesg).";
        };
    }
}
