/**
 * The C surface that Verbena stands on, as jextract writes it: struct layouts, constants and
 * function descriptors of {@code infiniband/verbs.h} and {@code rdma/rdma_cma.h}.
 *
 * <p>Generated and never edited: {@code bindings/jextract/generate.sh} makes it anew. It is no API.
 * Only {@code dev.verbena} may read it, and there only the package {@code
 * dev.verbena.internal.verbs} does.
 */
// "module": dev.verbena is compiled after this module, so javac does not know it yet.
@SuppressWarnings("module")
module dev.verbena.bindings {
    exports dev.verbena.bindings to
            dev.verbena;
}
