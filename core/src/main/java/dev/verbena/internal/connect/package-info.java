/**
 * Connections: what stands between NDK's connectors and librdmacm's events.
 *
 * <p>{@link dev.verbena.internal.connect.ConnectionEvents} passes events on to what they are about
 * and watches deadlines; {@link dev.verbena.internal.connect.Dialogue} is one connection's life,
 * from either side; {@link dev.verbena.internal.connect.Announcement} is what this layer puts
 * before the caller's private data.
 */
package dev.verbena.internal.connect;
