package dev.verbena.internal.queue;

import dev.verbena.internal.runtime.AdapterEvents;
import dev.verbena.internal.verbs.DeviceControl;
import dev.verbena.internal.verbs.Provider;
import dev.verbena.internal.verbs.VerbsContext;

/** The parts of an opened device that its queues use. */
public record QueueDevice(
        String name,
        DeviceControl control,
        Provider provider,
        VerbsContext context,
        AdapterEvents events,
        SharedQueues sharedQueues) {}
