package dev.verbena.tools;

import dev.verbena.PathOptions;

import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;

/** What a client chooses for the packets of its connections; perftest has the same names. */
final class PacketOptions {
    private static final int MOST_TRAFFIC_CLASS = 255;
    private static final int MOST_SERVICE_LEVEL = 15;

    @Option(
            names = "--tclass",
            paramLabel = "N",
            description =
                    "The traffic class of all packets, both ways: 4 times the DSCP (default: what the"
                            + " connection manager chooses).")
    private Integer trafficClass;

    @Option(
            names = "--sl",
            paramLabel = "N",
            description =
                    "The service level of what this side sends, on RoCE the priority in a VLAN"
                            + " (default: what the connection manager chooses).")
    private Integer serviceLevel;

    /** Refuses numbers that are out of range. */
    void check(CommandSpec spec) {
        if (trafficClass != null) {
            PingOptions.within(spec, "--tclass", trafficClass, 0, MOST_TRAFFIC_CLASS);
        }
        if (serviceLevel != null) {
            PingOptions.within(spec, "--sl", serviceLevel, 0, MOST_SERVICE_LEVEL);
        }
    }

    /** Adds what was chosen. */
    PathOptions on(PathOptions path) {
        PathOptions chosen = path;
        if (trafficClass != null) {
            chosen = chosen.withTrafficClass(trafficClass);
        }
        if (serviceLevel != null) {
            chosen = chosen.withServiceLevel(serviceLevel);
        }
        return chosen;
    }

    /** For JSON; null where it was left to the connection manager. */
    Integer trafficClass() {
        return trafficClass;
    }

    /** Likewise. */
    Integer serviceLevel() {
        return serviceLevel;
    }
}
