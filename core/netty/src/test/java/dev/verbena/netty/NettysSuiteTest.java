package dev.verbena.netty;

/** Netty's tests of sockets, on a simulated network. */
class NettysSuiteTest extends NettysSuite {}
