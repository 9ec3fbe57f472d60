/**
 * What NDK promises and verbs does not, kept by the layer itself: which request a completion
 * belongs to, credit, signals for silent requests, deferral, completions that the device will never
 * tell, and which windows are bound.
 *
 * <p>Knows nothing of the public API, and calls native code only through {@code internal.verbs}.
 */
@NullMarked
package dev.verbena.internal.queue;

import org.jspecify.annotations.NullMarked;
