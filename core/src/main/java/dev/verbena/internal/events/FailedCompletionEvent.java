package dev.verbena.internal.events;

import jdk.jfr.Category;
import jdk.jfr.Description;
import jdk.jfr.Enabled;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;

import org.jspecify.annotations.Nullable;

/** A request ended with another status than SUCCESS and CANCELLED. */
@Name("dev.verbena.FailedCompletion")
@Label("Failed Completion")
@Category({"Verbena", "Requests"})
@Description("A request ended with another status than SUCCESS and CANCELLED")
@Enabled(false)
@StackTrace(false)
public final class FailedCompletionEvent extends Event {
    @Label("Device")
    String device = "";

    @Label("Queue Pair")
    @Description("The number of this side's queue pair (qp_num)")
    int queuePair;

    @Label("Peer")
    String peer = "";

    @Label("Operation")
    String operation = "";

    @Label("Context")
    @Description("What the request was posted with")
    long context;

    @Label("Status")
    String status = "";

    @Label("Provider Status")
    @Description("enum ibv_wc_status")
    int providerStatus;

    @Label("Vendor Error")
    @Description("The provider's own code (vendor_err)")
    int vendorError;

    private FailedCompletionEvent() {}

    /**
     * Records it.
     *
     * @param peer the peer's address, if it is known
     */
    public static void record(
            String device,
            int queuePair,
            @Nullable Object peer,
            String operation,
            long context,
            String status,
            int providerStatus,
            int vendorError) {
        FailedCompletionEvent event = new FailedCompletionEvent();
        if (event.shouldCommit()) {
            event.device = device;
            event.queuePair = queuePair;
            event.peer = peer == null ? "" : peer.toString();
            event.operation = operation;
            event.context = context;
            event.status = status;
            event.providerStatus = providerStatus;
            event.vendorError = vendorError;
            event.commit();
        }
    }
}
