/**
 * Connections: what stands between NDK's connectors and librdmacm's events.
 *
 * <p>{@link dev.verbena.internal.cm.ConnectionEvents} passes events on to what they are about and
 * watches deadlines; {@link dev.verbena.internal.cm.Dialogue} is one connection's life, from either
 * side; {@link dev.verbena.internal.cm.Announcement} is what this layer puts before the caller's
 * private data.
 */
package dev.verbena.internal.cm;
