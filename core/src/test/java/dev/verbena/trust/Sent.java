package dev.verbena.trust;

import dev.verbena.Completions;

/** A message as it has to arrive; the token is one that it invalidates, or {@link #NONE}. */
record Sent(long context, Kind kind, int bytes, long token, int immediate) {
    static final long NONE = -1;

    /** Whether it has arrived as this completion says. */
    boolean is(Completions completions, int i, boolean immediates) {
        return completions.type(i) == kind.arrives
                && completions.bytes(i) == bytes
                && (!kind.hasImmediate() || !immediates || completions.immediate(i) == immediate)
                && (token == NONE || completions.invalidatedToken(i) == (int) token);
    }
}
