/**
 * The only package that calls native code and sees generated classes. Above it there are {@code
 * long} addresses and Java types.
 *
 * <p>Control calls answer an address or zero, or a negative errno, whichever of its three habits
 * the C function has (NULL and errno, -1 and errno, or the error by value). Data-path calls go
 * through the function pointers in {@code ibv_context.ops}, with addresses as {@code long}: a
 * segment argument would hold its arena open for each call, about 25 ns for a shared one.
 */
@NullMarked
package dev.verbena.internal.verbs;

import org.jspecify.annotations.NullMarked;
