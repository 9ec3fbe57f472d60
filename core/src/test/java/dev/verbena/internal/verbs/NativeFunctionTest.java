package dev.verbena.internal.verbs;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.bindings.LibIbverbs;
import dev.verbena.bindings.LibRdmacm;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.lang.foreign.MemorySegment;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.List;

/** One signature for all functions. */
class NativeFunctionTest {
    /** As the generated declarations say. Their methods have the functions' names, without a $. */
    @ParameterizedTest
    @ValueSource(classes = {LibIbverbs.class, LibRdmacm.class})
    void everyFunctionHasAtMostSixNumbersAndPointers(Class<?> library) {
        List<Method> functions =
                Arrays.stream(library.getDeclaredMethods())
                        .filter(method -> method.getName().matches("_?(ibv|rdma)_[a-z0-9_]+"))
                        .toList();
        assertThat(functions).hasSizeGreaterThan(15);
        assertThat(functions)
                .allSatisfy(
                        function -> {
                            assertThat(function.getParameterCount()).isLessThanOrEqualTo(6);
                            assertThat(function.getParameterTypes())
                                    .isSubsetOf(
                                            MemorySegment.class, long.class, int.class, byte.class);
                            assertThat(function.getReturnType())
                                    .isIn(MemorySegment.class, long.class, int.class, void.class);
                        });
    }

    @Test
    void aNegativeIntArrivesAndReturns() {
        try (Scratch scratch = Scratch.borrow()) {
            assertThat((int) Libraries.c("abs").call(scratch, -5)).isEqualTo(5);
            assertThat((int) Libraries.c("toupper").call(scratch, -1)).isEqualTo(-1); // EOF
        }
    }

    @Test
    void aNumberOf64BitsArrivesAndReturns() {
        try (Scratch scratch = Scratch.borrow()) {
            assertThat(Libraries.c("labs").call(scratch, -5L << 40)).isEqualTo(5L << 40);
        }
    }

    @Test
    void aFailureHasItsErrno() {
        try (Scratch scratch = Scratch.borrow()) {
            long answer = Libraries.c("close").call(scratch, -1);
            assertThat(scratch.value(answer)).isEqualTo(-Errno.EBADF);
        }
    }

    @Test
    void withoutErrnoTheResultIsTheSame() {
        assertThat(Libraries.c("abs").callWithoutErrno(-5, 0, 0)).isEqualTo(5);
        assertThat(Libraries.c("close").callWithoutErrno(-1, 0, 0)).isEqualTo(-1);
    }

    @Test
    void aFunctionThatIsNotThereIsNotCalled() {
        NativeFunction none = NativeFunction.at(0);
        assertThat(none.isNull()).isTrue();
        try (Scratch scratch = Scratch.borrow()) {
            assertThatThrownBy(() -> none.call(scratch))
                    .isInstanceOf(IllegalArgumentException.class);
        }
    }
}
