package dev.verbena.internal.verbs;

/**
 * What {@code ibv_query_device} says, as far as it is used here.
 *
 * @param error 0, or a negative errno and nothing else is valid
 * @param firmware the firmware's version
 * @param nodeGuid the node GUID, in network order as a number
 * @param ports how many ports the device has
 * @param maxWorkRequests the deepest queue
 * @param maxSge the longest scatter-gather list
 * @param maxCompletions the deepest completion queue
 * @param maxRegistration the largest memory region
 */
public record DeviceAttributes(
        int error,
        String firmware,
        long nodeGuid,
        int ports,
        int maxWorkRequests,
        int maxSge,
        int maxCompletions,
        long maxRegistration) {}
