package dev.verbena.internal.queue;

import dev.verbena.OperationType;

/**
 * What a {@link RequestLedger} knows of one request, in an {@code int}: marks, the request's type,
 * and the {@code enum ibv_wc_status} of its end once that is known.
 *
 * <table>
 *   <caption>The states of a request</caption>
 *   <tr><th>state</th><th>marks</th><th>what happens</th><th>next state</th></tr>
 *   <tr><td>deferred or posted</td><td>neither SYNTHESIZED nor ENDED</td>
 *       <td>its completion is polled</td><td>retired; delivered unless it is silent and succeeded,
 *       or internal</td></tr>
 *   <tr><td></td><td></td><td>silent: a completion behind it is polled</td>
 *       <td>retired: it succeeded</td></tr>
 *   <tr><td></td><td></td><td>not silent: a completion behind it is polled</td>
 *       <td>retired; delivered with BUFFER_OVERFLOW: its own was lost</td></tr>
 *   <tr><td></td><td></td><td>the provider refuses it, and its post returns so</td>
 *       <td>taken back, or suppressed where the provider may have kept it</td></tr>
 *   <tr><td></td><td></td><td>the provider refuses it after its post has returned ACCEPTED; or the
 *       device does not end it in time</td><td>synthesized</td></tr>
 *   <tr><td>synthesized</td><td>SYNTHESIZED</td><td>all before it have ended</td>
 *       <td>retired and delivered, ENDED</td></tr>
 *   <tr><td></td><td></td><td>its completion is polled after all</td>
 *       <td>retired and delivered, ENDED</td></tr>
 *   <tr><td>suppressed</td><td>ENDED, not yet retired</td><td>all before it have ended</td>
 *       <td>retired; not delivered</td></tr>
 *   <tr><td>retired</td><td>its sequence number is before {@code retired}</td>
 *       <td>a completion that comes late finds ENDED</td><td>dropped</td></tr>
 * </table>
 */
final class RequestState {
    /** Success is not reported. */
    static final int SILENT = 1;

    /** The provider reports success. */
    static final int SIGNALED = 2;

    /** The device will not report it: this library synthesizes its completion. */
    static final int SYNTHESIZED = 4;

    /** Nothing more may be delivered for it. */
    static final int ENDED = 8;

    /** This library's own: never delivered. */
    static final int INTERNAL = 16;

    static final int WINDOW = 32;

    /** None of these: a success is delivered by copying. */
    static final int NOT_PLAIN = SILENT | SYNTHESIZED | ENDED | INTERNAL | WINDOW;

    private static final int TYPE_SHIFT = 8;
    private static final int STATUS_SHIFT = 16;
    private static final int BYTE = 0xFF;

    private RequestState() {}

    static int of(OperationType type) {
        return type.ordinal() << TYPE_SHIFT;
    }

    static int of(OperationType type, int status) {
        return of(type) | status(status);
    }

    static int status(int status) {
        return status << STATUS_SHIFT;
    }

    static int synthesized(int status) {
        return SYNTHESIZED | status(status);
    }

    static int statusIn(int state) {
        return state >>> STATUS_SHIFT & BYTE;
    }

    static int typeIn(int state) {
        return state >>> TYPE_SHIFT & BYTE;
    }
}
