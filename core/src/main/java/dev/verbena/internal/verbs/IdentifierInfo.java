package dev.verbena.internal.verbs;

import org.jspecify.annotations.Nullable;

import java.net.InetSocketAddress;

/**
 * The device, port and addresses of an {@code rdma_cm_id}.
 *
 * @param device the device it is bound to, or "" before it is bound
 * @param port the device's port, from 1; 0 before it is bound
 * @param local the local address, or null before it is bound
 * @param peer the peer's address, or null before it is known
 */
public record IdentifierInfo(
        String device,
        int port,
        @Nullable InetSocketAddress local,
        @Nullable InetSocketAddress peer) {}
