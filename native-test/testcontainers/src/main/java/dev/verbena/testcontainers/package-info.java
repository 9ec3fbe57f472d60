/**
 * Containers that can use RDMA, for tests with <a href="https://java.testcontainers.org">
 * Testcontainers</a>, which the user's project has to depend on.
 *
 * <p>A server on one host, a client on another:
 *
 * {@snippet :
 * try (Network network = Network.newNetwork()) {
 *     List<RdmaHost> hosts = RdmaHost.pair(network);
 *     try (RdmaHost there = hosts.get(0);
 *             RdmaHost here = hosts.get(1);
 *             RdmaContainer<?> server = new RdmaContainer<>(RdmaHost.IMAGE, there);
 *             RdmaContainer<?> client = new RdmaContainer<>(RdmaHost.IMAGE, here)) {
 *         String address = there.address().getHostAddress();
 *         server.withCommand("rping", "-s", "-a", address, "-C", "10")
 *                 .waitingFor(Wait.forSuccessfulCommand("rdma resource show cm_id | grep LISTEN"))
 *                 .start();
 *         client.withCommand("rping", "-c", "-a", address, "-I", here.address().getHostAddress(), "-C", "10")
 *                 .withStartupCheckStrategy(new OneShotStartupCheckStrategy())
 *                 .start(); // throws unless it ends with exit code 0
 *     }
 * }
 * }
 */
package dev.verbena.testcontainers;
