package dev.verbena.examples;

import dev.verbena.*;

import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.binder.MeterBinder;

import java.util.function.ToDoubleFunction;

/**
 * Meters of Micrometer for a queue pair. The registry refers to it weakly: the program keeps it.
 *
 * @param pair what is measured
 * @param peer a name of the peer, as the meters' tag
 */
public record QueueMeters(QueuePair pair, String peer) implements MeterBinder {
    // @start region="meters"
    @Override
    public void bindTo(MeterRegistry registry) {
        Gauge.builder("verbena.outstanding", pair, p -> p.counters().requests().outstanding())
                .tag("peer", peer)
                .register(registry);
        count(registry, "posted", c -> c.requests().posted());
        count(registry, "bytes.sent", c -> c.requests().bytes());
        count(registry, "bytes.received", c -> c.receives().bytes());
        count(registry, "failed", c -> c.requests().failed() + c.receives().failed());
        count(registry, "refused", c -> c.requests().refused() + c.receives().refused());
    }

    private void count(MeterRegistry to, String name, ToDoubleFunction<QueuePairCounters> count) {
        FunctionCounter.builder("verbena." + name, pair, p -> count.applyAsDouble(p.counters()))
                .tag("peer", peer)
                .register(to);
    }
    // @end
}
