/**
 * Containers that can use RDMA, for tests with <a href="https://java.testcontainers.org">
 * Testcontainers</a>, which whoever uses this brings along.
 *
 * <p>Two hosts on one network, a service on the one and a client on the other:
 *
 * {@snippet :
 * try (Network network = Network.newNetwork();
 *         SoftRoceHost a = new SoftRoceHost(network);
 *         SoftRoceHost b = new SoftRoceHost(network);
 *         RdmaContainer<?> server = new RdmaContainer<>(MY_IMAGE, a)) {
 *     a.start();
 *     server.withCommand("java", "-jar", "/service.jar", "--bind", a.address().getHostAddress())
 *             .waitingFor(Wait.forLogMessage(".*listening.*", 1))
 *             .start();
 *     // on b: a client that connects to a.address()
 * }
 * }
 */
package dev.verbena.testcontainers;
