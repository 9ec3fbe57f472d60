/**
 * Makes a table and plots from the outputs of the benchmarks: the last step of {@code ci/roce
 * bench}.
 */
package dev.verbena.bench.report;
