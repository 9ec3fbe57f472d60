package dev.verbena.nativetest;

import dev.verbena.Adapter;
import dev.verbena.VerbenaException;

import java.net.InetAddress;
import java.time.Duration;

/** The program of {@link LookupTest}: prints the device of each peer, or why there is none. */
public final class RouteLookups {
    private RouteLookups() {}

    /** Takes addresses of peers. */
    public static void main(String[] peers) {
        for (String peer : peers) {
            try (Adapter found =
                    Adapter.forPeer(InetAddress.ofLiteral(peer), Duration.ofSeconds(5))) {
                System.out.println(found.name());
            } catch (VerbenaException e) {
                System.out.println(e.status().name() + ": " + e.getMessage());
            }
        }
    }
}
