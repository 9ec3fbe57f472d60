/** Small programs that documentation quotes. */
// Micrometer and gRPC are automatic modules.
@SuppressWarnings("requires-automatic")
module dev.verbena.examples {
    requires dev.verbena;
    requires static dev.verbena.netty; // of the services, as are the following
    requires static io.grpc;
    requires static io.grpc.netty;
    requires static io.grpc.stub;
    requires static io.vertx.core;
    requires static org.reactivestreams;
    requires static reactor.core;
    requires static reactor.netty.core;
    requires static micrometer.core; // of QueueMeters: who runs another example needs none
}
