package dev.verbena.examples.nvme;

/**
 * What a target has done since it was started.
 *
 * @param commands all commands that it has answered
 * @param keyed commands with data under a key that is to be invalidated
 * @param invalidating answers that invalidated a key
 * @param failed answers on I/O queues with another status than success; not those on the admin
 *     queue, where hosts also try what a target need not have
 */
record Counts(long commands, long keyed, long invalidating, long failed) {}
