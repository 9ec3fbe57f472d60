/**
 * Small programs that documentation quotes. Most have a {@code main} method; the tests on devices
 * run all of them.
 */
package dev.verbena.examples;
