/**
 * NVMe over RDMA, both ends: a service whose peer is not this library but the Linux kernel. It is a
 * tutorial of what RDMA services are made of, on {@link dev.verbena.messaging.RawConnection}.
 *
 * <p>A host (initiator) sends commands of 64 bytes. With each that has data comes a key for memory
 * of the host's. The target reads from or writes to that memory, and sends an answer of 16 bytes
 * that invalidates the key: the host needs no further step until it can use the memory again, and a
 * target that errs cannot reach it any more. The kernel checks that each answer brings back the key
 * of its own command.
 *
 * <p>{@link dev.verbena.examples.nvme.NvmeTarget} says in which order to read the target, {@link
 * dev.verbena.examples.nvme.NvmeHost} is where the initiator begins. What NVMe wants stands apart
 * from what RDMA wants: {@link dev.verbena.examples.nvme.Exchange} is between them.
 */
package dev.verbena.examples.nvme;
