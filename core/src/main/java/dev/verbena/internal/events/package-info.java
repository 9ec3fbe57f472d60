/**
 * The events that this library gives to the JDK's Flight Recorder, {@code dev.verbena.*}. All are
 * off unless a recording's settings switch them on.
 *
 * <p>Ask {@link dev.verbena.internal.events.FlightRecording#on} before anything else here: loading
 * the first class of an event starts half of the Flight Recorder, which takes half a second, and
 * fails in a runtime image without it.
 */
@NullMarked
package dev.verbena.internal.events;

import org.jspecify.annotations.NullMarked;
