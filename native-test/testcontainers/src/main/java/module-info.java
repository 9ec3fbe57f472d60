/** Containers that can use RDMA, for tests with Testcontainers. */
// Testcontainers and docker-java are automatic modules.
@SuppressWarnings({"requires-automatic", "requires-transitive-automatic"})
module dev.verbena.testcontainers {
    // Users choose their version: nothing is brought along.
    requires static transitive testcontainers;
    requires static transitive com.github.dockerjava.api;

    exports dev.verbena.testcontainers;
}
