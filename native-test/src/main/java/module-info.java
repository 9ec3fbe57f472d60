/**
 * Programs that a user of Verbena runs on a fabric of their own, and containers for their tests.
 */
// HdrHistogram and Testcontainers are automatic modules.
@SuppressWarnings({"requires-automatic", "requires-transitive-automatic"})
module dev.verbena.tools {
    requires dev.verbena;
    requires info.picocli;
    requires HdrHistogram;
    requires java.management;
    // Only for those who use dev.verbena.testcontainers, and have it for that.
    requires static transitive testcontainers;
    requires static transitive com.github.dockerjava.api;

    exports dev.verbena.testcontainers;
    exports dev.verbena.tools;

    opens dev.verbena.tools to
            info.picocli;
}
