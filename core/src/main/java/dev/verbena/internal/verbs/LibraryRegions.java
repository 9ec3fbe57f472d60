package dev.verbena.internal.verbs;

import dev.verbena.bindings.Verbs;

import java.lang.foreign.MemorySegment;
import java.lang.ref.Reference;

/**
 * The calls of {@link LibraryControl} that concern memory regions. {@code ibv_advise_mr} is one of
 * the functions of the {@link ExtendedContext}.
 */
final class LibraryRegions {
    private final ExtendedContext extended;

    LibraryRegions(ExtendedContext extended) {
        this.extended = extended;
    }

    long register(long pd, MemorySegment memory, int access) {
        try (Scratch scratch = Scratch.borrow()) {
            long address = memory.address();
            long bytes = memory.byteSize();
            // As the macro ibv_reg_mr does: only the second function drops optional rights where
            // the kernel knows none.
            return scratch.pointer(
                    (access & Rights.OPTIONAL) == 0
                            ? Calls.REG_MR.call(scratch, pd, address, bytes, access)
                            : Calls.OptionalRights.REG_MR_IOVA2.call(
                                    scratch, pd, address, bytes, address, access));
        } finally {
            Reference.reachabilityFence(memory);
        }
    }

    long registerDmaBuf(long pd, int descriptor, long offset, long length, long iova, int access) {
        try (Scratch scratch = Scratch.borrow()) {
            return scratch.pointer(
                    Calls.DmaBufs.REG_DMABUF_MR.call(
                            scratch, pd, offset, length, iova, descriptor, access));
        }
    }

    int prefetch(long pd, int advice, long address, int length, int localKey) {
        NativeFunction advise = extended.function(Structs.VerbsContext.ADVISE_MR);
        if (advise.isNull()) {
            return -Errno.EOPNOTSUPP;
        }
        try (Scratch scratch = Scratch.borrow()) {
            long sge = scratch.allocate(Structs.IbvSge.SIZE);
            Native.putLong(sge, Structs.IbvSge.ADDR, address);
            Native.putInt(sge, Structs.IbvSge.LENGTH, length);
            Native.putInt(sge, Structs.IbvSge.LKEY, localKey);
            return scratch.value(
                    advise.call(scratch, pd, advice, Verbs.IB_UVERBS_ADVISE_MR_FLAG_FLUSH, sge, 1));
        }
    }
}
