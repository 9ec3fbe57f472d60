package dev.verbena.internal.verbs;

import dev.verbena.bindings.Verbs;
import dev.verbena.bindings.ibv_context;
import dev.verbena.bindings.ibv_device_attr_ex;
import dev.verbena.bindings.ibv_odp_caps;
import dev.verbena.bindings.ibv_sge;
import dev.verbena.bindings.verbs_context;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/**
 * The calls of {@link LibraryControl} that concern memory regions. {@code ibv_query_device_ex} and
 * {@code ibv_advise_mr} are inline functions of verbs.h, which call through the device's {@code
 * verbs_context}: the struct that ends with the {@code ibv_context}, and grows in front.
 */
final class LibraryRegions {
    private static final long EXTENDED = -1; // __VERBS_ABI_IS_EXTENDED

    private final MemorySegment context;

    LibraryRegions(MemorySegment context) {
        this.context = context;
    }

    /** In a class of its own, as few programs page on demand: linking takes some milliseconds. */
    @SuppressWarnings("restricted") // making downcalls is what this module asks native access for
    private static final class Extended {
        static final MethodHandle QUERY_DEVICE_EX =
                call(verbs_context.query_device_ex.descriptor());
        static final MethodHandle ADVISE_MR = call(verbs_context.advise_mr.descriptor());

        private Extended() {}

        private static MethodHandle call(FunctionDescriptor descriptor) {
            return Linker.nativeLinker()
                    .downcallHandle(descriptor, Linker.Option.captureCallState("errno"));
        }
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

    PagingAttributes paging() {
        MemorySegment function = function(verbs_context.query_device_ex$offset());
        if (function.address() == 0) {
            return PagingAttributes.NONE;
        }
        try (Scratch scratch = Scratch.borrow();
                Arena arena = Arena.ofConfined()) { // too large for Scratch
            MemorySegment attributes = ibv_device_attr_ex.allocate(arena);
            int error =
                    scratch.value(
                            (int)
                                    Extended.QUERY_DEVICE_EX.invokeExact(
                                            function,
                                            scratch.state,
                                            context,
                                            MemorySegment.NULL,
                                            attributes,
                                            ibv_device_attr_ex.sizeof()));
            if (error != 0) {
                return PagingAttributes.NONE; // an old provider has none
            }
            MemorySegment odp = ibv_device_attr_ex.odp_caps(attributes);
            return new PagingAttributes(
                    ibv_odp_caps.general_caps(odp),
                    ibv_odp_caps.per_transport_caps.rc_odp_caps(
                            ibv_odp_caps.per_transport_caps(odp)));
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }

    int prefetch(long pd, int advice, long address, int length, int localKey) {
        MemorySegment function = function(verbs_context.advise_mr$offset());
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

    /**
     * A function of the {@code verbs_context}, as {@code verbs_get_ctx_op} finds it.
     *
     * @return NULL where the library or the provider does not have it
     */
    private MemorySegment function(long offset) {
        if (ibv_context.abi_compat(context).address() != EXTENDED) {
            return MemorySegment.NULL;
        }
        long start = context.address() - verbs_context.context$offset();
        long size = Native.getLong(start, verbs_context.sz$offset());
        return MemorySegment.ofAddress(
                size >= verbs_context.sizeof() - offset ? Native.getLong(start, offset) : 0);
    }
}
