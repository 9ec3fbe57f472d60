package dev.verbena.internal.verbs;

import static org.assertj.core.api.Assertions.assertThat;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.verbena.bindings.ibv_context;
import dev.verbena.bindings.verbs_context;

import org.junit.jupiter.api.Test;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/** Functions that a device's context has, and those that it has not. */
class ExtendedContextTest {
    private static final long FUNCTION = 0x1234_5678L;

    private final MemorySegment all = Arena.ofAuto().allocate(verbs_context.layout());
    private final MemorySegment context =
            all.asSlice(verbs_context.context$offset(), ibv_context.sizeof());

    private long find(long offset) {
        return DeviceControl.extended(context.address(), offset).address().address();
    }

    private void extended(long size) {
        ibv_context.abi_compat(context, MemorySegment.ofAddress(-1)); // __VERBS_ABI_IS_EXTENDED
        all.set(JAVA_LONG, verbs_context.sz$offset(), size);
    }

    @Test
    void aFunctionThatIsThereIsFound() {
        extended(verbs_context.sizeof());
        all.set(JAVA_LONG, verbs_context.query_port$offset(), FUNCTION);
        assertThat(find(verbs_context.query_port$offset())).isEqualTo(FUNCTION);
        assertThat(find(verbs_context.modify_cq$offset())).as("not set").isZero();
    }

    /** Nothing is read in front of it: that memory is not the device's. */
    @Test
    void aPlainContextHasNone() {
        all.set(JAVA_LONG, verbs_context.sz$offset(), verbs_context.sizeof());
        all.set(JAVA_LONG, verbs_context.query_port$offset(), FUNCTION);
        assertThat(find(verbs_context.query_port$offset())).isZero();
    }

    /** The struct grows in front: an older library has made less of it. */
    @Test
    void anOlderLibraryLacksWhatIsFurtherInFront() {
        long first = verbs_context.query_device_ex$offset();
        long before = verbs_context.modify_cq$offset();
        assertThat(before).isLessThan(first);
        extended(verbs_context.sizeof() - first);
        all.set(JAVA_LONG, first, FUNCTION);
        all.set(JAVA_LONG, before, FUNCTION);
        assertThat(find(first)).isEqualTo(FUNCTION);
        assertThat(find(before)).isZero();
    }
}
