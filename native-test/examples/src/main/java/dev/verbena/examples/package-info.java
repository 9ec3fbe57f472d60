/**
 * Small programs that documentation quotes. Each has a {@code main} method, and each is run by the
 * tests on devices.
 */
package dev.verbena.examples;
