package dev.verbena.messaging;

import dev.verbena.internal.util.IntMap;
import dev.verbena.internal.util.Text;

import org.jspecify.annotations.Nullable;

/**
 * The tokens of the memory that the peer exposes, and why the last few are not usable any more.
 * Guarded by the lock of the channel.
 */
final class PeerTokens {
    private static final int REMEMBERED = 16;

    // Of all that remember none; never written.
    private static final IntMap<Boolean> NONE = new IntMap<>(0);
    private static final int[] NO_TOKENS = {};
    private static final @Nullable String[] NO_REASONS = {};

    private static final String GIVEN_BACK = "this side gave that memory back with a message";
    private static final String ASKED_BACK =
            "the peer asked for that memory back: it revoked the exposure, or its time had run out";

    private final int most;
    private IntMap<Boolean> usable = NONE;
    private int[] ended = NO_TOKENS; // the last ones; empty until the first
    private @Nullable String[] reasons = NO_REASONS; // of each; null for none
    private int next;

    PeerTokens(int most) {
        this.most = most;
    }

    boolean contains(int token) {
        return usable.get(token) != null;
    }

    /** The peer exposes memory; false if it cannot do so with this token, or with one more. */
    @SuppressWarnings("ReferenceEquality") // it is about that map
    boolean exposed(int token) {
        if (usable.size() == most || contains(token)) {
            return false;
        }
        usable = usable == NONE ? new IntMap<>(0) : usable;
        usable.put(token, Boolean.TRUE);
        return true;
    }

    /** A message of this side invalidates it. */
    void givenBack(int token) {
        end(token, GIVEN_BACK);
    }

    /** The peer wants it back; nothing happens if this side's last message crossed that. */
    void askedBack(int token) {
        end(token, ASKED_BACK);
    }

    private void end(int token, String reason) {
        if (usable.remove(token) != null) {
            if (ended.length == 0) {
                ended = new int[REMEMBERED];
                reasons = new String[REMEMBERED];
            }
            ended[next] = token;
            reasons[next] = reason;
            next = (next + 1) % REMEMBERED;
        }
    }

    /** Why a token that it does not contain cannot be used. */
    String whyNot(int token) {
        for (int i = 0; i < reasons.length; i++) {
            if (ended[i] == token && reasons[i] != null) {
                return "the exposure with the token %s has ended, because %s"
                        .formatted(Text.key(token), reasons[i]);
            }
        }
        return "the peer exposes no memory with the token %s here: take the RemoteMemory from a message of this channel, and as long as its exposure lasts"
                .formatted(Text.key(token));
    }
}
