package dev.verbena.internal.queue;

import dev.verbena.NotifyType;
import dev.verbena.internal.runtime.AdapterEvents;
import dev.verbena.internal.verbs.Provider;

import java.util.function.Supplier;

/**
 * What the completion queues of one adapter need because its provider raises fewer events than
 * verbs guarantees. Only software devices need anything; for all others this does nothing.
 */
public class Quirks {
    private static final Quirks NONE = new Quirks();

    Quirks() {}

    /**
     * The quirks of an adapter's provider.
     *
     * @param events the adapter's event loop, which has a thread once it is asked for
     */
    public static Quirks of(Provider provider, Supplier<AdapterEvents> events) {
        return switch (provider.name()) {
            case "rxe" -> new SoftRoceQuirks(events);
            case "siw" -> new SoftIwarpQuirks();
            default -> NONE;
        };
    }

    /** The type to arm a queue for, if the program asks for another. */
    public NotifyType toArm(NotifyType type) {
        return type;
    }

    /** A completion queue was created. */
    public void add(CompletionArming queue) {}

    /** A completion queue is about to be destroyed. */
    public void remove(CompletionArming queue) {}

    /**
     * Soft-iWARP raises no event for a solicited message if the queue is armed for solicited
     * completions only: the kernel's {@code siw_rqe_complete} checks the flags of the receive, not
     * those of the message. So queues are armed for all completions.
     */
    private static final class SoftIwarpQuirks extends Quirks {
        @Override
        public NotifyType toArm(NotifyType type) {
            return type == NotifyType.SOLICITED ? NotifyType.ANY : type;
        }
    }
}
