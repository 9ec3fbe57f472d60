package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Adapter;
import dev.verbena.Listener;
import dev.verbena.examples.Echo;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.net.InetSocketAddress;
import java.util.List;

/** The programs that documentation quotes do what it says. */
@NeedsDevices
@Timeout(120)
class ExamplesTest {
    private static InetSocketAddress anyPort(Adapter adapter) {
        return new InetSocketAddress(adapter.gid().gid().gid().toInetAddress(), 0);
    }

    @Test
    void echoSendsBackWhatEachClientSent() {
        List<String> active = RdmaDevices.active();
        try (Adapter there = Adapter.open(active.getFirst());
                Adapter here = Adapter.open(active.getLast());
                Listener listener = Echo.serve(there, anyPort(there))) {
            InetSocketAddress server = listener.localAddress();
            for (String text : List.of("Hello, RDMA", "", "x".repeat(4096))) {
                assertThat(Echo.ask(here, server, text)).isEqualTo(text);
            }
        }
    }
}
