package dev.verbena;

import dev.verbena.internal.verbs.Pages;

/** A part of a dma-buf: memory of another device, such as a GPU's, that a driver exports. */
record DmaBuf(int descriptor, long offset, long length, long iova) {
    DmaBuf {
        if (descriptor < 0 || offset < 0 || length < 1 || iova < 0 || iova + length < 0) {
            throw new IllegalArgumentException(
                    "A dma-buf is registered by a file descriptor and an offset of 0 or more, at least 1 byte, and an address of 0 or more for its first byte, not by %d, %d, %d bytes, %d"
                            .formatted(descriptor, offset, length, iova));
        }
        if ((offset & Pages.SIZE - 1) != (iova & Pages.SIZE - 1)) {
            throw new IllegalArgumentException(
                    "Offset %d and address 0x%x of a dma-buf must have the same offset within a page (pages have %d bytes): use the offset as the address"
                            .formatted(offset, iova, Pages.SIZE));
        }
    }

    /** Returns the {@code ibv_mr}. */
    long register(ProtectionDomain domain, int access) {
        Adapter adapter = domain.adapter();
        long made =
                adapter.control()
                        .registerDmaBuf(domain.address(), descriptor, offset, length, iova, access);
        if (made < 0) {
            throw VerbenaException.of(
                    "ibv_reg_dmabuf_mr(descriptor %d, %,d bytes)".formatted(descriptor, length),
                    made,
                    RegistrationAdvice.forDmaBuf(adapter.provider(), (int) -made));
        }
        return made;
    }
}
