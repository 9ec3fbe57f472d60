package dev.verbena.internal.verbs;

/**
 * What {@code ibv_query_device} says, as far as it is used here.
 *
 * @param error 0, or a negative errno and nothing else is valid
 * @param firmware the firmware's version
 * @param nodeGuid the node GUID, in network order as a number
 * @param ports how many ports the device has
 * @param vendorId who made it
 * @param vendorPartId which model it is
 * @param maxWorkRequests the deepest queue
 * @param maxSge the longest scatter-gather list
 * @param maxReadSge the longest one of a read, 0 when it does not say
 * @param maxCompletions the deepest completion queue
 * @param maxSharedReceives the deepest shared receive queue, 0 when it has none
 * @param maxSharedSge the longest scatter-gather list in one
 * @param maxRegistration the largest memory region
 * @param maxInboundReads how many reads of its peer a queue pair can serve at once
 * @param maxOutboundReads how many reads a queue pair can have under way
 * @param sendsWithInvalidate whether it has the memory management extensions
 * @param windows whether it has memory windows of type 2
 * @param atomics whether it has atomic operations
 * @param iwarp whether its transport is iWARP, by {@code ibv_device.transport_type}
 */
public record DeviceAttributes(
        int error,
        String firmware,
        long nodeGuid,
        int ports,
        int vendorId,
        int vendorPartId,
        int maxWorkRequests,
        int maxSge,
        int maxReadSge,
        int maxCompletions,
        int maxSharedReceives,
        int maxSharedSge,
        long maxRegistration,
        int maxInboundReads,
        int maxOutboundReads,
        boolean sendsWithInvalidate,
        boolean windows,
        boolean atomics,
        boolean iwarp) {}
