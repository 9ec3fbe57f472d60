package dev.verbena;

/**
 * Whether memory that {@link ProtectionDomain#allocate} makes is in huge pages (2 MiB on most
 * machines). A device finds a page of registered memory by a table: with huge pages the table is
 * smaller, so more of it is in the device's cache, and registering takes less time.
 */
public enum HugePages {
    /** The system's setting ({@code transparent_hugepage/enabled}) decides. */
    DEFAULT,

    /**
     * Transparent huge pages, if the kernel finds any ({@code MADV_HUGEPAGE}). Memory of at least
     * one huge page is aligned to one.
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
