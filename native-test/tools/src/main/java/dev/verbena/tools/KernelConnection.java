package dev.verbena.tools;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * An {@code rdma_cm_id} of any process, as the kernel lists it.
 *
 * @param device the device's name, and its port or "-"
 * @param state the kernel's word for its state, in lower case
 * @param queuePair the number of its queue pair, or null
 * @param local its local address and port
 * @param remote the peer's address and port, or null
 * @param pid the process that created it, or null
 * @param program the name of that process or of the kernel's module, or null
 */
record KernelConnection(
        String device,
        String port,
        String state,
        Long queuePair,
        String local,
        String remote,
        Long pid,
        String program) {
    /** A line of {@code rdma resource show cm_id}; cm-idn stands elsewhere in older versions. */
    private static final Pattern LINE =
            Pattern.compile(
                    "link (?<device>\\S+)/(?<port>\\S+) (?:cm-idn \\d+ )?(?:lqpn (?<pair>\\d+) )?"
                            + "(?:qp-type \\S+ )?state (?<state>\\S+) ps \\S+ (?:pid (?<thread>\\d+) )?"
                            + "(?:comm (?<name>.*?) )?(?:cm-idn \\d+ )?(?:src-addr (?<local>\\S+) )?"
                            + "(?:dst-addr (?<remote>\\S+) )?");

    /**
     * Reads a line of the command {@code rdma}.
     *
     * @param proc the directory with the processes, {@code /proc}
     * @throws ToolFailure when it is not such a line
     */
    static KernelConnection of(String line, Path proc) {
        Matcher found = LINE.matcher(line.strip() + " ");
        if (!found.matches()) {
            throw new ToolFailure(
                    "This version of the command rdma prints lines that are not known here: \"%s\"",
                    line.strip());
        }
        String thread = found.group("thread");
        Long pid = thread == null ? null : processOf(thread, proc);
        return new KernelConnection(
                found.group("device"),
                found.group("port"),
                found.group("state").toLowerCase(Locale.ROOT),
                number(found.group("pair")),
                found.group("local"),
                found.group("remote"),
                pid,
                pid == null ? found.group("name") : read(proc.resolve(pid + "/comm")).strip());
    }

    private static Long number(String digits) {
        return digits == null ? null : Long.valueOf(digits);
    }

    /** The process of a thread: the kernel notes the thread that created the identifier. */
    private static Long processOf(String thread, Path proc) {
        return read(proc.resolve(thread + "/status"))
                .lines()
                .filter(line -> line.startsWith("Tgid:"))
                .map(line -> Long.valueOf(line.substring(5).strip()))
                .findFirst()
                .orElse(null);
    }

    private static String read(Path file) {
        try {
            return Files.readString(file);
        } catch (IOException e) {
            return ""; // the process has ended
        }
    }

    Map<String, Object> json() {
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("device", device);
        all.put("port", port.equals("-") ? null : Long.valueOf(port));
        all.put("state", state);
        put(all, "local", local);
        put(all, "remote", remote);
        all.put("queue_pair", queuePair);
        all.put("pid", pid);
        all.put("program", program);
        return all;
    }

    private static void put(Map<String, Object> all, String name, String address) {
        int colon = address == null ? -1 : address.lastIndexOf(':');
        all.put(name, colon < 0 ? null : address.substring(0, colon));
        all.put(name + "_port", colon < 0 ? null : Long.valueOf(address.substring(colon + 1)));
    }

    /** The columns of the table. */
    Object[] columns() {
        return new Object[] {
            device + "/" + port,
            state,
            text(local),
            text(remote),
            text(queuePair),
            text(pid),
            text(program)
        };
    }

    private static Object text(Object value) {
        return value == null ? "-" : value;
    }
}
