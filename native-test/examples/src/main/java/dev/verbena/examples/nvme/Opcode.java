package dev.verbena.examples.nvme;

/** Numbers of commands, and of what Identify, features and log pages name. */
final class Opcode {
    // Fabrics commands, on any queue. Their type stands where others have the namespace.
    static final int FABRICS = 0x7f;
    static final int PROPERTY_SET = 0;
    static final int CONNECT = 1;
    static final int PROPERTY_GET = 4;

    // On the admin queue.
    static final int GET_LOG_PAGE = 0x02;
    static final int IDENTIFY = 0x06;
    static final int ABORT = 0x08;
    static final int SET_FEATURES = 0x09;
    static final int GET_FEATURES = 0x0a;
    static final int ASYNC_EVENT_REQUEST = 0x0c;
    static final int KEEP_ALIVE = 0x18;

    // On I/O queues.
    static final int FLUSH = 0;
    static final int WRITE = 1;
    static final int READ = 2;
    static final int WRITE_ZEROES = 8;
    static final int DATASET_MANAGEMENT = 9;

    // What Identify asks for (CNS).
    static final int NAMESPACE = 0;
    static final int CONTROLLER = 1;
    static final int NAMESPACE_LIST = 2;
    static final int NAMESPACE_DESCRIPTORS = 3;
    static final int CONTROLLER_OF_COMMAND_SET = 6;

    // Features.
    static final int VOLATILE_WRITE_CACHE = 0x06;
    static final int NUMBER_OF_QUEUES = 0x07;
    static final int ASYNC_EVENTS = 0x0b;
    static final int KEEP_ALIVE_TIMER = 0x0f;

    // Log pages.
    static final int DISCOVERY_LOG = 0x70;

    private Opcode() {}
}
