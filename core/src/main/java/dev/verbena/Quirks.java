package dev.verbena;

import dev.verbena.internal.verbs.Provider;

/**
 * What the completion queues of one adapter need because its provider raises fewer events than
 * verbs guarantees. Only software devices need anything; for all others this does nothing.
 */
class Quirks {
    private static final Quirks NONE = new Quirks();

    /** The quirks of an adapter's provider. */
    static Quirks of(Provider provider, Adapter adapter) {
        return switch (provider.name()) {
            case "rxe" -> new SoftRoceQuirks(adapter);
            case "siw" -> new SoftIwarpQuirks();
            default -> NONE;
        };
    }

    /** The type to arm a queue for, if the program asks for another. */
    NotifyType toArm(NotifyType type) {
        return type;
    }

    /** A completion queue was created. */
    void add(CompletionQueue queue) {}

    /** A completion queue is about to be destroyed. */
    void remove(CompletionQueue queue) {}

    /**
     * Soft-iWARP raises no event for a solicited message if the queue is armed for solicited
     * completions only: the kernel's {@code siw_rqe_complete} checks the flags of the receive, not
     * those of the message. So queues are armed for all completions.
     */
    private static final class SoftIwarpQuirks extends Quirks {
        @Override
        NotifyType toArm(NotifyType type) {
            return type == NotifyType.SOLICITED ? NotifyType.ANY : type;
        }
    }
}
