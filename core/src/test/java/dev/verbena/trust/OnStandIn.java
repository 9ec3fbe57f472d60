package dev.verbena.trust;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.verbena.Adapter;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.util.List;
import java.util.function.Consumer;

/**
 * Random requests on the stand-in for libibverbs, whose provider only copies. A process of its own,
 * as the stand-in takes the place of libibverbs: {@link StandInTest} starts it.
 */
final class OnStandIn extends Place {
    private OnStandIn() {
        super(Adapter.open("copy0"));
    }

    /** Arguments: how the stand-in was compiled, and how many requests to post. */
    public static void main(String[] arguments) throws Exception {
        RequestLives lives =
                new RequestLives(
                        arguments[0], 100_000, seed -> new OnStandIn(), OnStandIn::remains);
        List<String> wrong = lives.run(Long.parseLong(arguments[1]));
        wrong.forEach(System.out::println);
        System.exit(wrong.isEmpty() ? 0 : 1);
    }

    /** The stand-in counts the memory of all that it has created. */
    @SuppressWarnings("restricted")
    private static int remains(Consumer<String> complain) {
        MethodHandle allocated =
                Linker.nativeLinker()
                        .downcallHandle(
                                SymbolLookup.libraryLookup("libibverbs.so.1", Arena.global())
                                        .findOrThrow("stand_in_allocated"),
                                FunctionDescriptor.of(JAVA_LONG));
        try {
            long bytes = (long) allocated.invokeExact();
            if (bytes > 0) {
                complain.accept("%,d bytes of native objects are left".formatted(bytes));
            }
            return bytes > 0 ? 1 : 0;
        } catch (Throwable t) {
            throw new IllegalStateException("The stand-in cannot be asked", t);
        }
    }

    @Override
    boolean deliversImmediates() {
        return false;
    }

    @Override
    boolean readsBytes() {
        return false;
    }

    @Override
    boolean checksTokens() {
        return false;
    }
}
