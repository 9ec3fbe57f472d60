package dev.verbena.tools;

import dev.verbena.Adapter;
import dev.verbena.VerbenaException;

import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Callable;

/** Lists the RDMA devices of this machine. */
@Command(
        name = "devices",
        mixinStandardHelpOptions = true,
        versionProvider = Versions.class,
        description =
                "Lists the RDMA devices here: hardware, ports, network interfaces, links, MTU, rates, GIDs, and the GID that"
                        + " connections would use.")
final class Devices implements Callable<Integer> {
    @Spec private CommandSpec spec;

    @Option(names = "--json", description = "One JSON object instead of text.")
    private boolean json;

    @Override
    public Integer call() {
        List<DeviceFacts> devices = new ArrayList<>();
        for (String name : Adapter.names()) {
            devices.add(look(name));
        }
        PrintWriter out = spec.commandLine().getOut();
        if (json) {
            out.println(Json.of(json(devices)));
        } else {
            devices.forEach(device -> device.print(out));
        }
        if (devices.isEmpty()) {
            throw new ToolFailure("%s", Adapter.whyNone());
        }
        devices.stream()
                .map(DeviceFacts::problem)
                .filter(Objects::nonNull)
                .findFirst()
                .ifPresent(
                        problem -> {
                            throw new ToolFailure("%s", problem);
                        });
        return 0;
    }

    private static DeviceFacts look(String name) {
        try (Adapter adapter = Adapter.open(name)) {
            return DeviceFacts.of(adapter);
        } catch (VerbenaException e) {
            return DeviceFacts.unusable(name, e.getMessage());
        }
    }

    static Map<String, Object> json(List<DeviceFacts> devices) {
        return Map.of("devices", devices.stream().map(DeviceFacts::json).toList());
    }
}
