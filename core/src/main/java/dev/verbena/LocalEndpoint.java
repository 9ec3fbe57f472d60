package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import java.net.InetSocketAddress;

/**
 * A local address that an adapter occupies for a {@link Listener} or a {@link SharedEndpoint}, as
 * it was when {@link Adapter#localEndpoints} was called (NDK: NDIS_NDK_LOCAL_ENDPOINT_ENTRY).
 *
 * @param address the address
 * @param use what it is used for
 * @param backlog of a listener: how many requests may be unanswered; 0 for a shared endpoint
 * @param unanswered how many requests are unanswered
 */
@CheckReturnValue
public record LocalEndpoint(InetSocketAddress address, Use use, int backlog, int unanswered) {
    /** What a local address is used for. */
    public enum Use {
        /** Peers may connect to it. */
        LISTENING,
        /** Its listener is paused. */
        PAUSED,
        /** Connectors connect from it. */
        SHARED
    }
}
