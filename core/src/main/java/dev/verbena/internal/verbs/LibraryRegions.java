package dev.verbena.internal.verbs;

import dev.verbena.bindings.Verbs;
import dev.verbena.bindings.ibv_sge;
import dev.verbena.bindings.verbs_context;

import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/**
 * The calls of {@link LibraryControl} that concern memory regions. {@code ibv_advise_mr} is one of
 * the functions of the {@link ExtendedContext}.
 */
final class LibraryRegions {
    private final ExtendedContext extended;

    LibraryRegions(ExtendedContext extended) {
        this.extended = extended;
    }

    /** In a class of its own, as few programs page on demand: linking takes some milliseconds. */
    @SuppressWarnings("restricted") // making downcalls is what this module asks native access for
    private static final class Extended {
        static final MethodHandle ADVISE_MR =
                Linker.nativeLinker()
                        .downcallHandle(
                                verbs_context.advise_mr.descriptor(),
                                Linker.Option.captureCallState("errno"));

        private Extended() {}
    }

    long register(long pd, MemorySegment memory, int access) {
        try (Scratch scratch = Scratch.borrow()) {
            MemorySegment domain = MemorySegment.ofAddress(pd);
            long bytes = memory.byteSize();
            // As the macro ibv_reg_mr does: only the second function drops optional rights where
            // the kernel knows none.
            return scratch.pointer(
                    (access & Rights.OPTIONAL) == 0
                            ? (MemorySegment)
                                    Calls.Regions.REG_MR.invokeExact(
                                            scratch.state, domain, memory, bytes, access)
                            : (MemorySegment)
                                    Calls.OptionalRights.REG_MR_IOVA2.invokeExact(
                                            scratch.state,
                                            domain,
                                            memory,
                                            bytes,
                                            memory.address(),
                                            access));
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }

    long registerDmaBuf(long pd, int descriptor, long offset, long length, long iova, int access) {
        try (Scratch scratch = Scratch.borrow()) {
            return scratch.pointer(
                    (MemorySegment)
                            Calls.DmaBufs.REG_DMABUF_MR.invokeExact(
                                    scratch.state,
                                    MemorySegment.ofAddress(pd),
                                    offset,
                                    length,
                                    iova,
                                    descriptor,
                                    access));
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }

    int prefetch(long pd, int advice, long address, int length, int localKey) {
        MemorySegment function = extended.function(verbs_context.advise_mr$offset());
        if (function.address() == 0) {
            return -Errno.EOPNOTSUPP;
        }
        try (Scratch scratch = Scratch.borrow()) {
            MemorySegment sge = ibv_sge.allocate(scratch);
            ibv_sge.addr(sge, address);
            ibv_sge.length(sge, length);
            ibv_sge.lkey(sge, localKey);
            return scratch.value(
                    (int)
                            Extended.ADVISE_MR.invokeExact(
                                    function,
                                    scratch.state,
                                    MemorySegment.ofAddress(pd),
                                    advice,
                                    Verbs.IB_UVERBS_ADVISE_MR_FLAG_FLUSH,
                                    sge,
                                    1));
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }
}
