package dev.verbena;

/**
 * Whether memory that {@link ProtectionDomain#allocate} makes is in huge pages (2 MiB on most
 * machines). A device finds a page of registered memory by a table: with huge pages the table is
 * smaller, so more of it is in the device's cache, and registering takes less time.
 */
public enum HugePages {
    /** As the system does without being asked ({@code transparent_hugepage/enabled}). */
    DEFAULT,

    /**
     * Transparent huge pages, where the kernel finds any ({@code MADV_HUGEPAGE}). The memory starts
     * at a huge page's start if it is as long as one.
     */
    TRANSPARENT,

    /**
     * Huge pages that the administrator has reserved ({@code sysctl vm.nr_hugepages}). Where too
     * few are free, transparent ones; a message of the {@link System.Logger} {@code dev.verbena}
     * then says so, and {@link MemoryRegion#pageBytes} returns the size of an ordinary page.
     */
    PREFERRED,

    /**
     * Huge pages that the administrator has reserved, or an exception. The length is rounded up to
     * whole huge pages, which nothing else can use.
     */
    REQUIRED
}
