/** The events of the JDK's Flight Recorder. */
@NullMarked
package dev.verbena.internal.events;

import org.jspecify.annotations.NullMarked;
