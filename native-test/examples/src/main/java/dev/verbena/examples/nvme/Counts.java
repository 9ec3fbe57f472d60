package dev.verbena.examples.nvme;

/**
 * What a target has done since it began.
 *
 * @param commands all
 * @param keyed those with data under a key that is to be invalidated
 * @param invalidating answers that invalidated a key
 * @param failed answers on I/O queues with another status than success; on the admin queue hosts
 *     also try what a target need not have
 */
record Counts(long commands, long keyed, long invalidating, long failed) {}
