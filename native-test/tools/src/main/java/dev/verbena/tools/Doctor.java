package dev.verbena.tools;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.MemoryRegion;
import dev.verbena.ProtectionDomain;
import dev.verbena.VerbenaException;

import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;

/**
 * Checks whether a program of this library can use RDMA here, and says what is missing: devices,
 * links, the GID that connections would use, connections by IP address, lockable memory. Changes
 * nothing.
 */
@Command(
        name = "doctor",
        mixinStandardHelpOptions = true,
        versionProvider = Versions.class,
        description = {
            "Checks whether programs can use RDMA here: devices, links, connections by IP address and"
                    + " lockable memory. Changes nothing.",
            "Exit code 0 when they can; otherwise 1, and standard error says what is missing and"
                    + " what to do.",
        })
final class Doctor implements Callable<Integer> {
    @Spec private CommandSpec spec;

    @Option(names = "--json", description = "One JSON object instead of text.")
    private boolean json;

    private final List<DoctorReport.Device> devices = new ArrayList<>();

    @Override
    public Integer call() {
        DoctorReport report = examine();
        if (json) {
            spec.commandLine().getOut().println(Json.of(report.json()));
        } else {
            report.print(spec.commandLine().getOut());
        }
        if (!report.usable()) {
            throw new ToolFailure("%s", report.problems().getFirst());
        }
        return 0;
    }

    private DoctorReport examine() {
        String noDevices = null;
        try {
            for (String name : Adapter.names()) {
                devices.add(examine(name));
            }
            if (devices.isEmpty()) {
                noDevices = Adapter.whyNone();
            }
        } catch (VerbenaException e) {
            noDevices = e.getMessage();
        }
        return new DoctorReport(noDevices, devices, MemoryRegion.lockableBytes());
    }

    private static DoctorReport.Device examine(String name) {
        try (Adapter adapter = Adapter.open(name)) {
            DeviceFacts facts = DeviceFacts.of(adapter);
            return facts.active() && facts.problem() == null
                    ? new DoctorReport.Device(facts, tryConnector(adapter), tryRegistering(adapter))
                    : new DoctorReport.Device(facts, null, null);
        } catch (VerbenaException e) {
            return new DoctorReport.Device(DeviceFacts.unusable(name, e.getMessage()), null, null);
        }
    }

    private static String tryConnector(Adapter adapter) {
        try {
            adapter.createConnector().close();
            return "";
        } catch (VerbenaException e) {
            return e.getMessage();
        }
    }

    /** Registers as much memory as most programs need; many containers may lock less. */
    private static String tryRegistering(Adapter adapter) {
        try (ProtectionDomain domain = adapter.createProtectionDomain()) {
            domain.allocate(DoctorReport.TRIAL_BYTES, Access.LOCAL_WRITE).close();
            return "";
        } catch (VerbenaException e) {
            return e.getMessage();
        }
    }
}
