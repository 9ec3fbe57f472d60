package dev.verbena.examples.nvme;

import java.lang.foreign.MemorySegment;

/** Commands of the admin queue: Identify, log pages, features, keep-alive, abort. */
final class AdminCommands {
    private static final long NOT_ABORTED = 1;

    private final Subsystems subsystems;

    AdminCommands(Subsystems subsystems) {
        this.subsystems = subsystems;
    }

    void execute(Controller controller, Exchange exchange) {
        Command command = exchange.command();
        switch (command.opcode()) {
            case Opcode.IDENTIFY -> identify(controller, exchange);
            case Opcode.GET_LOG_PAGE -> logPage(controller, exchange);
            case Opcode.SET_FEATURES -> setFeature(controller, exchange);
            case Opcode.GET_FEATURES -> getFeature(controller, exchange);
            case Opcode.KEEP_ALIVE -> exchange.succeed(0); // the queue has noted the time
            case Opcode.ASYNC_EVENT_REQUEST -> {
                if (!controller.keep(exchange)) {
                    exchange.fail(NvmeStatus.ASYNC_EVENT_LIMIT);
                }
            }
            case Opcode.ABORT -> {
                // Only event requests wait for long; all other commands end soon by themselves.
                boolean ofAdminQueue = (command.dword(10) & 0xffff) == 0;
                boolean aborted = ofAdminQueue && controller.abort(command.dword(10) >>> 16);
                exchange.succeed(aborted ? 0 : NOT_ABORTED);
            }
            default -> exchange.fail(NvmeStatus.INVALID_OPCODE);
        }
    }

    private static void identify(Controller controller, Exchange exchange) {
        Subsystem subsystem = controller.subsystem();
        int number = exchange.command().namespace();
        Namespace disk = subsystem.namespace(number);
        MemorySegment page = exchange.page();
        switch (exchange.command().dword(10) & 0xff) {
            case Opcode.CONTROLLER -> Identify.controller(page, controller);
            case Opcode.NAMESPACE -> {
                if (disk != null) {
                    Identify.namespace(page, disk);
                } else if (number <= 0 && number != Subsystem.ALL_NAMESPACES) {
                    exchange.fail(NvmeStatus.INVALID_NAMESPACE);
                    return;
                } // else zeros: there is none of this number
            }
            case Opcode.NAMESPACE_LIST -> {
                if (number < 0 && number > -3) { // higher than any there can be
                    exchange.fail(NvmeStatus.INVALID_NAMESPACE);
                    return;
                }
                Identify.namespaceList(page, subsystem, number);
            }
            case Opcode.NAMESPACE_DESCRIPTORS -> {
                if (disk == null) {
                    exchange.fail(NvmeStatus.INVALID_NAMESPACE);
                    return;
                }
                Identify.descriptors(page, disk);
            }
            case Opcode.CONTROLLER_OF_COMMAND_SET -> {} // zeros: no limits of its own
            default -> {
                exchange.fail(NvmeStatus.INVALID_FIELD);
                return;
            }
        }
        exchange.sendPage(Exchange.PAGE_BYTES);
    }

    private void logPage(Controller controller, Exchange exchange) {
        int number = exchange.command().dword(10) & 0xff;
        long wanted = 4 * (1 + wordsLessOne(exchange.command()));
        long offset = exchange.command().qword(12);
        if (wanted > Exchange.PAGE_BYTES) {
            exchange.fail(NvmeStatus.INVALID_FIELD);
        } else if (number == Opcode.DISCOVERY_LOG) {
            if (!controller.subsystem().isDiscovery()) {
                exchange.fail(NvmeStatus.INVALID_LOG_PAGE);
            } else if (offset < 0 || (offset & 3) != 0) {
                exchange.fail(NvmeStatus.INVALID_FIELD);
            } else {
                DiscoveryLog.write(exchange.page(), offset, subsystems);
                exchange.sendPage((int) wanted);
            }
        } else if (number >= 1 && number <= 5) {
            exchange.sendPage(
                    (int) wanted); // errors, health, firmware, changes, effects: nothing to report
        } else {
            exchange.fail(NvmeStatus.INVALID_LOG_PAGE);
        }
    }

    /** How much of a log page is wanted (NUMD). */
    private static long wordsLessOne(Command command) {
        return command.dword(10) >>> 16 | (command.dword(11) & 0xffffL) << 16;
    }

    private static void setFeature(Controller controller, Exchange exchange) {
        Command command = exchange.command();
        switch (command.dword(10) & 0xff) {
            case Opcode.NUMBER_OF_QUEUES -> {
                int asked = Math.min(command.dword(11) & 0xffff, command.dword(11) >>> 16);
                if (asked == 0xffff) {
                    exchange.fail(NvmeStatus.INVALID_FIELD);
                    return;
                }
                int granted = Math.min(asked, controller.limits().queues() - 1);
                exchange.succeed(granted | (long) granted << 16);
            }
            case Opcode.ASYNC_EVENTS -> {
                controller.configureAsyncEvents(command.dword(11));
                exchange.succeed(0);
            }
            case Opcode.KEEP_ALIVE_TIMER -> {
                controller.keepAlive(command.dword(11));
                exchange.succeed(0);
            }
            case Opcode.VOLATILE_WRITE_CACHE -> {
                boolean enable = (command.dword(11) & 1) != 0;
                if (enable && controller.subsystem().hasCache()) {
                    exchange.succeed(0);
                } else {
                    exchange.fail(NvmeStatus.INVALID_FIELD); // the page cache cannot be turned off
                }
            }
            default -> exchange.fail(NvmeStatus.INVALID_FIELD);
        }
    }

    private static void getFeature(Controller controller, Exchange exchange) {
        switch (exchange.command().dword(10) & 0xff) {
            case Opcode.NUMBER_OF_QUEUES -> {
                int most = controller.limits().queues() - 1;
                exchange.succeed(most | (long) most << 16);
            }
            case Opcode.ASYNC_EVENTS -> exchange.succeed(controller.asyncEventConfiguration());
            case Opcode.KEEP_ALIVE_TIMER -> exchange.succeed(controller.keepAliveMillis());
            case Opcode.VOLATILE_WRITE_CACHE -> {
                if (controller.subsystem().hasCache()) {
                    exchange.succeed(1);
                } else {
                    exchange.fail(NvmeStatus.INVALID_FIELD);
                }
            }
            default -> exchange.fail(NvmeStatus.INVALID_FIELD);
        }
    }
}
