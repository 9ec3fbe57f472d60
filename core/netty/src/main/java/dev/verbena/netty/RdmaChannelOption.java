package dev.verbena.netty;

import io.netty.channel.ChannelOption;

/**
 * Options of RDMA channels, in addition to those of Netty.
 *
 * @param <T> the type of the value
 */
public final class RdmaChannelOption<T> extends ChannelOption<T> {
    /**
     * The traffic class of the connection's packets, 0 to 255: on RoCE the byte of the IP header
     * with DSCP and ECN. Set it before the channel connects; that of an accepted channel is set on
     * the server channel.
     */
    public static final ChannelOption<Integer> TRAFFIC_CLASS =
            valueOf(RdmaChannelOption.class, "TRAFFIC_CLASS");

    @SuppressWarnings("deprecation") // no other constructor is open to subclasses
    private RdmaChannelOption() {
        super(null);
    }
}
