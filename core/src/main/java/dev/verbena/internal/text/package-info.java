/** How messages write numbers and name arguments. Every package may use it; it uses none. */
@NullMarked
package dev.verbena.internal.text;

import org.jspecify.annotations.NullMarked;
