package dev.verbena.examples.nvme;

import java.lang.foreign.MemorySegment;

/**
 * Fabrics commands: Connect makes a connection a queue of a controller; Property Get and Set read
 * and write the controller's registers.
 */
final class FabricsCommands {
    static final int CONNECT_DATA_BYTES = 1024;
    static final int ANY_CONTROLLER = 0xffff;

    // In the data of Connect.
    static final int CONTROLLER_ID = 16;
    static final int SUBSYSTEM_NAME = 256;
    static final int HOST_NAME = 512;
    static final int NAME_BYTES = 256;

    // In the command.
    static final int CONNECT_FORMAT = 40;
    static final int CONNECT_QUEUE = 42;
    static final int CONNECT_SIZE = 44;
    static final int CONNECT_KEEP_ALIVE = 48;
    static final int PROPERTY_ATTRIBUTES = 40;
    static final int PROPERTY_OFFSET = 44;

    /** Set beside a wrong parameter's offset when it is one in the data, not in the command. */
    private static final int IN_DATA = 1 << 16;

    /** The connection that a command has come from. */
    interface Connection extends Controller.Queue {
        /** What the host asked for when it connected. */
        QueueRequest request();

        /** The controller that it is a queue of; null before Connect. */
        Controller controller();

        /** Connect has made it a queue of this controller, for so many commands at a time. */
        void belongTo(Controller controller, int commands);
    }

    private final Subsystems subsystems;
    private final Limits limits;

    FabricsCommands(Subsystems subsystems, Limits limits) {
        this.subsystems = subsystems;
        this.limits = limits;
    }

    void execute(Connection connection, Exchange exchange, long now) {
        Command command = exchange.command();
        switch (command.fabricsType()) {
            case Opcode.CONNECT -> connect(connection, exchange, now);
            case Opcode.PROPERTY_GET -> getProperty(connection, exchange);
            case Opcode.PROPERTY_SET -> setProperty(connection, exchange);
            default -> exchange.fail(NvmeStatus.INVALID_OPCODE);
        }
    }

    private void connect(Connection connection, Exchange exchange, long now) {
        Command command = exchange.command();
        QueueRequest request = connection.request();
        if (connection.controller() != null) {
            exchange.fail(NvmeStatus.COMMAND_SEQUENCE_ERROR);
        } else if (command.get16(CONNECT_FORMAT) != 0) {
            exchange.fail(NvmeStatus.CONNECT_INCOMPATIBLE_FORMAT);
        } else if (command.get16(CONNECT_QUEUE) != request.id()) {
            exchange.fail(NvmeStatus.CONNECT_INVALID_PARAMETERS, CONNECT_QUEUE);
        } else if (command.get16(CONNECT_SIZE) + 1 > request.size()
                || command.get16(CONNECT_SIZE) == 0) {
            exchange.fail(NvmeStatus.CONNECT_INVALID_PARAMETERS, CONNECT_SIZE);
        } else {
            exchange.fetchPage(CONNECT_DATA_BYTES, it -> connected(connection, it, now));
        }
    }

    private void connected(Connection connection, Exchange exchange, long now) {
        MemorySegment data = exchange.page();
        String hostName = Wire.text(data, HOST_NAME, NAME_BYTES);
        int id = Wire.get16(data, CONTROLLER_ID);
        Subsystem subsystem = subsystems.named(Wire.text(data, SUBSYSTEM_NAME, NAME_BYTES));
        int number = connection.request().id();
        if (connection.controller() != null) {
            exchange.fail(NvmeStatus.COMMAND_SEQUENCE_ERROR); // two Connects at a time
            return;
        } else if (subsystem == null) {
            exchange.fail(NvmeStatus.CONNECT_INVALID_PARAMETERS, IN_DATA | SUBSYSTEM_NAME);
            return;
        } else if (hostName.isEmpty()) {
            exchange.fail(NvmeStatus.CONNECT_INVALID_PARAMETERS, IN_DATA | HOST_NAME);
            return;
        }
        Controller controller;
        if (number == 0) {
            controller =
                    id == ANY_CONTROLLER
                            ? subsystem.add(
                                    hostName,
                                    limits,
                                    exchange.command().get32(CONNECT_KEEP_ALIVE),
                                    now)
                            : null; // the target chooses ids, not the host
        } else {
            controller = subsystem.controller(id);
        }
        if (controller == null || !controller.hostName().equals(hostName)) {
            exchange.fail(NvmeStatus.CONNECT_INVALID_PARAMETERS, IN_DATA | CONTROLLER_ID);
        } else if (number > 0 && (!controller.isEnabled() || subsystem.isDiscovery())) {
            exchange.fail(NvmeStatus.COMMAND_SEQUENCE_ERROR);
        } else if (!controller.add(number, connection)) {
            exchange.fail(NvmeStatus.COMMAND_SEQUENCE_ERROR); // it has a queue of this number
        } else {
            connection.belongTo(controller, exchange.command().get16(CONNECT_SIZE) + 1);
            exchange.succeed(controller.id());
        }
    }

    private static void getProperty(Connection connection, Exchange exchange) {
        Command command = exchange.command();
        Controller controller = connection.controller();
        if (controller == null || connection.request().id() != 0) {
            exchange.fail(NvmeStatus.COMMAND_SEQUENCE_ERROR);
            return;
        }
        long value =
                controller.property(
                        command.get32(PROPERTY_OFFSET),
                        (command.get8(PROPERTY_ATTRIBUTES) & 1) != 0);
        if (value == -1) {
            exchange.fail(NvmeStatus.INVALID_FIELD);
        } else {
            exchange.succeed(value);
        }
    }

    private static void setProperty(Connection connection, Exchange exchange) {
        Command command = exchange.command();
        Controller controller = connection.controller();
        if (controller == null || connection.request().id() != 0) {
            exchange.fail(NvmeStatus.COMMAND_SEQUENCE_ERROR);
        } else if (controller.setProperty(
                command.get32(PROPERTY_OFFSET),
                (command.get8(PROPERTY_ATTRIBUTES) & 1) != 0,
                command.qword(12))) {
            exchange.succeed(0);
        } else {
            exchange.fail(NvmeStatus.INVALID_FIELD);
        }
    }
}
