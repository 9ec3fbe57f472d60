package dev.verbena.internal.verbs;

import org.jspecify.annotations.Nullable;

import java.net.InetSocketAddress;

/**
 * What an {@code rdma_cm_id} knows of itself.
 *
 * @param device the device it is bound to, or "" when none yet
 * @param port the device's port, from 1; 0 when it has none yet
 * @param local its own address, or null when it has none yet
 * @param peer the other side's, or null
 */
public record IdentifierInfo(
        String device,
        int port,
        @Nullable InetSocketAddress local,
        @Nullable InetSocketAddress peer) {}
