/**
 * RDMA for Java with the semantics of the Network Direct Kernel interface (NDK), mapped onto real
 * work requests of {@code libibverbs}.
 *
 * <p>Start at {@link dev.verbena.Adapter}. The module calls native code: run with {@code
 * --enable-native-access=dev.verbena}.
 */
module dev.verbena {
    requires dev.verbena.bindings;
    requires static com.google.errorprone.annotations; // of the API; nobody needs them to run it
    requires static org.jspecify;
    requires static jdk.jfr; // events, where a program has the Flight Recorder

    exports dev.verbena;
    exports dev.verbena.channel;
}
