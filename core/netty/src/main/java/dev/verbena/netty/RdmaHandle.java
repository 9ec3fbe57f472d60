package dev.verbena.netty;

import io.netty.channel.IoEvent;
import io.netty.channel.IoHandle;
import io.netty.channel.IoRegistration;

/** A channel, for its event loop. */
interface RdmaHandle extends IoHandle {
    /** Its events come by callbacks of its poller. */
    @Override
    default void handle(IoRegistration registration, IoEvent event) {
        throw new UnsupportedOperationException();
    }

    @Override
    void close();
}
