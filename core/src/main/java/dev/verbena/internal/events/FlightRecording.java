package dev.verbena.internal.events;

import dev.verbena.Peer;
import dev.verbena.PostResult;
import dev.verbena.internal.util.Text;

import jdk.jfr.Category;
import jdk.jfr.DataAmount;
import jdk.jfr.Description;
import jdk.jfr.Enabled;
import jdk.jfr.Event;
import jdk.jfr.FlightRecorder;
import jdk.jfr.Label;
import jdk.jfr.MemoryAddress;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;

import org.jspecify.annotations.Nullable;

import java.util.concurrent.CompletableFuture;

/**
 * The events that this library gives to the JDK's Flight Recorder, {@code dev.verbena.*}. All are
 * off unless a recording's settings switch them on.
 *
 * <p>Check {@link #on} before you use the class of an event: loading the first of them starts half
 * of the Flight Recorder, which takes half a second, and fails in a runtime image without it.
 */
public final class FlightRecording {
    private static final boolean PRESENT = present();

    private FlightRecording() {}

    /** False in a runtime image without jdk.jfr, and where nothing has this module resolved. */
    private static boolean present() {
        Module module = ModuleLayer.boot().findModule("jdk.jfr").orElse(null);
        return module != null && FlightRecording.class.getModule().canRead(module);
    }

    /**
     * Whether an event may be wanted. Reads one field, and loads no class of an event; false in a
     * process that never used the Flight Recorder.
     */
    public static boolean on() {
        return PRESENT && FlightRecorder.isInitialized();
    }

    // ---- what happens to a queue pair, named by its device and its number

    /** Begins to measure an attempt to connect; null when nothing is recorded. */
    public static @Nullable ConnectEvent connecting(
            String device, int queuePair, String side, @Nullable Object peer) {
        return on() ? ConnectEvent.start(side, device, queuePair, peer) : null;
    }

    public static void disconnected(
            String device, int queuePair, @Nullable Peer peer, String reason) {
        if (on()) {
            DisconnectEvent event = new DisconnectEvent();
            event.device = device;
            event.queuePair = queuePair;
            event.peer = OfQueuePair.text(peer);
            event.reason = reason;
            event.commit();
        }
    }

    public static void refused(String device, int queuePair, String operation, PostResult result) {
        if (on() && RefusedPostEvent.wanted()) {
            RefusedPostEvent event = new RefusedPostEvent();
            event.device = device;
            event.queuePair = queuePair;
            event.operation = operation;
            event.status = result.status().name();
            event.reason = result.reason();
            event.commit();
        }
    }

    public static void failed(
            String device,
            int queuePair,
            @Nullable Peer peer,
            String operation,
            long context,
            String status,
            int providerStatus,
            int vendorError) {
        if (on()) {
            FailedCompletionEvent event = new FailedCompletionEvent();
            event.device = device;
            event.queuePair = queuePair;
            event.peer = OfQueuePair.text(peer);
            event.operation = operation;
            event.context = context;
            event.status = status;
            event.providerStatus = providerStatus;
            event.vendorError = vendorError;
            event.commit();
        }
    }

    public static void bound(String device, int queuePair, int token, long address, long length) {
        if (on() && WindowBoundEvent.wanted()) {
            WindowBoundEvent event = new WindowBoundEvent();
            event.device = device;
            event.queuePair = queuePair;
            event.token = Text.shown(token);
            event.address = address;
            event.length = length;
            event.commit();
        }
    }

    public static void invalidated(String device, int queuePair, int token, boolean byPeer) {
        if (on() && WindowInvalidatedEvent.wanted()) {
            WindowInvalidatedEvent event = new WindowInvalidatedEvent();
            event.device = device;
            event.queuePair = queuePair;
            event.token = Text.shown(token);
            event.byPeer = byPeer;
            event.commit();
        }
    }

    // ---- the events

    @Enabled(false)
    abstract static class OfDevice extends Event {
        @Label("Device")
        String device = "";
    }

    /** The fields of an event that concerns a queue pair. */
    abstract static class OfQueuePair extends OfDevice {
        @Label("Queue Pair")
        @Description("The number of this side's queue pair (qp_num)")
        int queuePair;

        /** Returns the text for a peer's address, which may be unknown. */
        static String text(@Nullable Object peer) {
            return peer == null ? "" : peer.toString();
        }
    }

    /** The fields of an event that concerns a memory window. */
    @Category({"Verbena", "Memory"})
    @StackTrace(false)
    abstract static class OfWindow extends OfQueuePair {
        @Label("Token")
        @Description(
                "The upper half of the remote key (rkey); the lower one, without which nobody can use it, is not recorded")
        int token;
    }

    @Name("dev.verbena.Await")
    @Label("Await")
    @Category({"Verbena", "Completions"})
    @Description(
            "A thread waited for a completion queue, or for the queues of a completion channel")
    public static final class AwaitEvent extends OfDevice {
        @Label("Fired")
        @Description("Whether a queue fired, before the time was over")
        boolean fired;

        public static AwaitEvent start() {
            AwaitEvent event = new AwaitEvent();
            event.begin();
            return event;
        }

        public void end(String device, boolean fired) {
            if (shouldCommit()) {
                this.device = device;
                this.fired = fired;
                commit();
            }
        }
    }

    @Name("dev.verbena.Registration")
    @Label("Registration")
    @Category({"Verbena", "Memory"})
    @Description("Memory was registered (ibv_reg_mr, ibv_reg_dmabuf_mr), or could not be")
    public static final class RegistrationEvent extends OfDevice {
        @Label("Bytes")
        @DataAmount
        long bytes;

        @Label("Rights")
        @Description("enum ibv_access_flags")
        int rights;

        @Label("Registered")
        @Description("Whether it was registered")
        boolean registered;

        public static RegistrationEvent start() {
            RegistrationEvent event = new RegistrationEvent();
            event.begin();
            return event;
        }

        public void end(String device, long bytes, int rights, boolean registered) {
            if (shouldCommit()) {
                this.device = device;
                this.bytes = bytes;
                this.rights = rights;
                this.registered = registered;
                commit();
            }
        }
    }

    @Name("dev.verbena.Device")
    @Label("Device Event")
    @Category({"Verbena", "Devices"})
    @Description("A device reported an asynchronous event, such as a link that went down")
    @StackTrace(false)
    public static final class DeviceEvent extends OfDevice {
        @Label("Port")
        @Description("The number of the port, from 1; 0 where the event concerns none")
        int port;

        @Label("Type")
        @Description("A type of AdapterEvent: PORT_DOWN, PORT_UP, GIDS_CHANGED, DEVICE_FAILED, ...")
        String type = "";

        @Label("Object")
        @Description("The queue pair, completion queue or shared receive queue that it concerns")
        String object = "";

        public static void record(String device, int port, String type, String object) {
            DeviceEvent event = new DeviceEvent();
            if (event.shouldCommit()) {
                event.device = device;
                event.port = port;
                event.type = type;
                event.object = object;
                event.commit();
            }
        }
    }

    @Name("dev.verbena.Connect")
    @Label("Connect")
    @Category({"Verbena", "Connections"})
    @Description("A queue pair was connected, or could not be")
    public static final class ConnectEvent extends OfQueuePair {
        @Label("Side")
        @Description("connect, accept, or by address")
        String side = "";

        @Label("Peer")
        String peer = "";

        @Label("Failure")
        @Description("Why there is no connection; empty if there is one")
        String failure = "";

        public static ConnectEvent start(
                String side, String device, int queuePair, @Nullable Object peer) {
            ConnectEvent event = new ConnectEvent();
            event.begin();
            event.side = side;
            event.device = device;
            event.queuePair = queuePair;
            event.peer = text(peer);
            return event;
        }

        /** Ends the measurement when a future completes. */
        public void endWith(CompletableFuture<Void> step) {
            var _ = step.whenComplete((_, failure) -> end(failure));
        }

        /**
         * Ends the measurement and records it.
         *
         * @param thrown why there is no connection, or null
         */
        public void end(@Nullable Throwable thrown) {
            if (shouldCommit()) {
                failure = thrown == null ? "" : String.valueOf(thrown.getMessage());
                commit();
            }
        }
    }

    @Name("dev.verbena.Disconnect")
    @Label("Disconnect")
    @Category({"Verbena", "Connections"})
    @Description("A connection has ended")
    @StackTrace(false)
    public static final class DisconnectEvent extends OfQueuePair {
        @Label("Peer")
        String peer = "";

        @Label("Reason")
        @Description("LOCAL, PEER, LOST, REQUEST_FAILED, DEVICE_REMOVED, or EVENT_THREAD_ENDED")
        String reason = "";
    }

    @Name("dev.verbena.FailedCompletion")
    @Label("Failed Completion")
    @Category({"Verbena", "Requests"})
    @Description("A request ended with another status than SUCCESS and CANCELLED")
    @StackTrace(false)
    public static final class FailedCompletionEvent extends OfQueuePair {
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
    }

    // Posts and polls call wanted() of the next three events, so it allocates nothing.

    @Name("dev.verbena.RefusedPost")
    @Label("Refused Post")
    @Category({"Verbena", "Requests"})
    @Description("A post returned another status than SUCCESS, and had no effect")
    public static final class RefusedPostEvent extends OfQueuePair {
        private static final RefusedPostEvent SETTINGS = new RefusedPostEvent();

        @Label("Operation")
        String operation = "";

        @Label("Status")
        String status = "";

        @Label("Reason")
        String reason = "";

        public static boolean wanted() {
            return SETTINGS.isEnabled();
        }
    }

    @Name("dev.verbena.WindowBound")
    @Label("Window Bound")
    @Description("A bind of a memory window was accepted: the peer may use the token from now on")
    public static final class WindowBoundEvent extends OfWindow {
        private static final WindowBoundEvent SETTINGS = new WindowBoundEvent();

        @Label("Address")
        @MemoryAddress
        long address;

        @Label("Length")
        @DataAmount
        long length;

        public static boolean wanted() {
            return SETTINGS.isEnabled();
        }
    }

    @Name("dev.verbena.WindowInvalidated")
    @Label("Window Invalidated")
    @Description(
            "A token of this side was invalidated: an invalidate of this side was accepted, or a message that did so was polled")
    public static final class WindowInvalidatedEvent extends OfWindow {
        private static final WindowInvalidatedEvent SETTINGS = new WindowInvalidatedEvent();

        @Label("By Peer")
        @Description("By a message of the peer, not by a request of this side")
        boolean byPeer;

        public static boolean wanted() {
            return SETTINGS.isEnabled();
        }
    }
}
