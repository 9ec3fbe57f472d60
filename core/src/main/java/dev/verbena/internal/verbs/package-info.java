/**
 * The only package that calls native code and sees generated classes. Other packages see only
 * {@code long} addresses and Java types.
 *
 * <p>Control calls return an address or zero, or a negative errno, whichever of three conventions
 * the C function follows (NULL with errno, -1 with errno, or the error as the result). Data-path
 * calls go through the function pointers in {@code ibv_context.ops}, with addresses as {@code
 * long}: for a segment argument, each downcall keeps the arena open, which takes about 25 ns for a
 * shared arena.
 */
@NullMarked
package dev.verbena.internal.verbs;

import org.jspecify.annotations.NullMarked;
