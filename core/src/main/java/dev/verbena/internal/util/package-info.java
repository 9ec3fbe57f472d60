/**
 * Small helpers of every package: texts, arguments, options, the log. They use no other package.
 */
@NullMarked
package dev.verbena.internal.util;

import org.jspecify.annotations.NullMarked;
