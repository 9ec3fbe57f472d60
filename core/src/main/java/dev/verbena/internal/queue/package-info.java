/**
 * What NDK promises and verbs does not, kept by the layer itself: which request a completion
 * belongs to, and credit.
 */
package dev.verbena.internal.queue;
