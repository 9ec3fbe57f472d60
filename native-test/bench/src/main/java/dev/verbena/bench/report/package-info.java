/**
 * From what benchmarks printed to a table with verdicts and two plots: what {@code ci/roce bench}
 * runs last.
 */
package dev.verbena.bench.report;
