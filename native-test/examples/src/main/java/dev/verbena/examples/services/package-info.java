/**
 * Services that were written for TCP, over RDMA by the transport {@link dev.verbena.netty}. They
 * need their own libraries, which the documentation names.
 */
package dev.verbena.examples.services;
