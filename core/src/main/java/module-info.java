/**
 * RDMA for Java with the semantics of the Network Direct Kernel interface (NDK), mapped onto real
 * work requests of {@code libibverbs}.
 *
 * <p>Start with {@linkplain dev.verbena.messaging channels}, which carry messages between programs,
 * or with {@link dev.verbena.Adapter} and its queue pairs. Both packages begin with a whole
 * program.
 *
 * <p>The module calls native code: run with {@code --enable-native-access=dev.verbena} on the
 * module path, or {@code --enable-native-access=ALL-UNNAMED} on the class path.
 */
module dev.verbena {
    requires dev.verbena.bindings;
    requires static com.google.errorprone.annotations; // of the API; nobody needs them to run it
    requires static org.jspecify;
    requires static jdk.jfr; // events, where a program has the Flight Recorder

    exports dev.verbena;
    exports dev.verbena.messaging;
}
