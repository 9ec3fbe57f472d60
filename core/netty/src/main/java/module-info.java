/** A transport for Netty over RDMA: see {@link dev.verbena.netty}. */
module dev.verbena.netty {
    requires transitive dev.verbena;
    requires transitive io.netty.buffer;
    requires transitive io.netty.common;
    requires transitive io.netty.transport;
    requires static com.google.errorprone.annotations;
    requires static org.jspecify;

    exports dev.verbena.netty;
}
