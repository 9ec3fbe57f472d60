package dev.verbena.messaging;

import static java.nio.charset.StandardCharsets.UTF_8;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.BufferList;
import dev.verbena.Explorer;
import dev.verbena.FakeAdapters;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.RemoteMemory;
import dev.verbena.Status;
import dev.verbena.internal.verbs.FakeDevice;
import dev.verbena.internal.verbs.PostedRequest;
import dev.verbena.internal.verbs.StateChange;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;

/**
 * Two channels over a device that does not exist, to be run in every order of their steps. Each
 * step is one call of a program, one request that the device carries out, or the polls of one side.
 */
final class TwoChannels implements AutoCloseable {
    /**
     * What may happen.
     *
     * @param fromA how long the messages are that A may send, in order
     * @param keeps whether messages are released by steps of their own, not by the handlers
     * @param asks how often A may ask whether B is there
     * @param exposures how often A may expose memory
     * @param closes how many of the channels may be closed: A, or both
     * @param not the steps of exposures that are left out: "revoke", "late", "write", "take"
     */
    record Scope(
            MessagingOptions options,
            List<Integer> fromA,
            List<Integer> fromB,
            boolean keeps,
            int asks,
            int exposures,
            int closes,
            Set<String> not) {}

    private static final int REGION_BYTES = 64;
    private static final byte[] TAKEN = "taken".getBytes(UTF_8);

    /** Fields that differ from run to run, and decide nothing. */
    private static final Set<String> LEFT_OUT =
            Set.of("lastHeard", "askedAt", "expires", "use", "token");

    private static final Map<Class<?>, List<Field>> FIELDS = new HashMap<>();

    private final FakeDevice device = new FakeDevice();
    private final Adapter adapter;
    private long time; // the pollers' clock
    private long step; // of it, for each look
    private final Poller ofA;
    private final Poller ofB;
    private final MemoryRegion exposed;
    private final MemoryRegion local;

    /**
     * Opens a device.
     *
     * @param shares whether channels of a poller share their receives
     */
    TwoChannels(boolean shares) {
        device.sharedQueues = shares;
        device.carriesBytes = true;
        device.running = false;
        adapter = FakeAdapters.open(device);
        ofA = poller();
        ofB = poller();
        exposed = ofA.domain().allocate(REGION_BYTES, Access.LOCAL_WRITE);
        local = ofB.domain().allocate(REGION_BYTES, Access.LOCAL_WRITE);
    }

    private Poller poller() {
        return new Poller(
                adapter,
                IdleStrategy.busySpin(),
                Thread.currentThread(),
                new PollerClock(() -> time += step));
    }

    /**
     * Both pollers tick, and time slows down: no other tick comes before a world is closed. Time
     * never goes back, or the next close would have to make up for it, look by look.
     */
    private void tickNow() {
        step = 0;
        time += PollerClock.TICK_NANOSECONDS;
        int ignored = ofA.poll() + ofB.poll();
        step = 1;
    }

    /** Explores all orders. */
    void explore(String what, Scope scope) {
        Explorer.report(what, List.of(() -> new World(scope)), Integer.MAX_VALUE);
    }

    /**
     * Explores all orders of so many steps: the states that came up.
     *
     * @param compares whether a state is left once only
     */
    Set<Object> states(Scope scope, int depth, boolean compares) {
        Set<Object> states = new HashSet<>();
        Explorer.explore(
                () ->
                        new World(scope) {
                            @Override
                            public @Nullable Object state() {
                                Object state = super.state();
                                states.add(state);
                                return compares ? state : null;
                            }
                        },
                depth);
        return states;
    }

    @Override
    public void close() {
        ofA.close();
        ofB.close();
        exposed.close();
        local.close();
        adapter.close();
        if (device.objects() != 0 || device.overruns != 0) {
            throw new AssertionError(
                    "%d native objects are left, %d completions lost"
                            .formatted(device.objects(), device.overruns));
        }
        device.dispose();
    }

    /** One side. */
    private final class Side {
        final String name;
        final List<Integer> toSend;
        final Poller poller;
        final MessageChannel channel;
        final int number; // of the queue pair
        final List<CompletableFuture<Void>> sent = new ArrayList<>();
        final List<String> got = new ArrayList<>();
        final List<String> gotTold = new ArrayList<>(); // of exposed memory
        final List<Message> kept = new ArrayList<>();
        final List<String> arrived = new ArrayList<>(); // that it has not polled
        boolean polled = true; // nothing has happened since
        int asks;
        boolean closed;

        Side(String name, Scope scope, List<Integer> toSend, Poller poller, Fates fates) {
            this.name = name;
            this.toSend = toSend;
            this.poller = poller;
            this.asks = name.equals("A") ? scope.asks : 0;
            this.channel =
                    new MessageChannel(
                            poller,
                            scope.options,
                            (on, message) -> {
                                if (!fates.told(message)) {
                                    got.add(text(message));
                                }
                                if (scope.keeps) {
                                    kept.add(message.retain());
                                }
                            });
            this.number = device.lastQueuePairNumber();
        }

        void send() {
            polled = false;
            int index = sent.size();
            sent.add(channel.sendAsync(MemorySegment.ofArray(message(name, index))));
        }

        byte[] message(String of, int index) {
            byte[] bytes = new byte[toSend.get(index)];
            Arrays.fill(bytes, (byte) (of.charAt(0) + index));
            return bytes;
        }

        /** What the peer is to get. */
        List<String> expected() {
            List<String> expected = new ArrayList<>();
            for (int i = 0; i < sent.size(); i++) {
                expected.add(text(message(name, i)));
            }
            return expected;
        }

        void release() {
            polled = false;
            kept.removeFirst().close();
        }

        void poll() {
            arrived.clear();
            polled = true;
            int quiet = 0;
            while (quiet < 2) {
                quiet = poller.poll() == 0 ? quiet + 1 : 0;
            }
        }

        boolean isQuiet() {
            return polled && kept.isEmpty() && device.runnable(number).isEmpty();
        }

        void beginClose() {
            polled = false;
            closed = true;
            channel.beginClose();
        }

        private void ask() {
            polled = false;
            asks--;
            try (var _ = channel.lock.hold()) {
                channel.outbox.askIfIdle(0); // from now on it has heard nothing
                channel.outbox.askIfIdle(Integer.MAX_VALUE);
            }
        }
    }

    /** What becomes of the exposures. */
    private final class Fates {
        final List<Exposure> begun = new ArrayList<>();
        final List<Integer> tokens = new ArrayList<>();
        final List<RemoteMemory> remotes = new ArrayList<>(); // as B may know them
        final List<String> stages = new ArrayList<>(); // what has happened to each
        final List<Boolean> known = new ArrayList<>(); // by B
        final List<Status> ends = new ArrayList<>(); // null until it has ended

        boolean told(Message message) {
            if (message.length() != RemoteMemory.MESSAGE_BYTES) {
                return false;
            }
            int token = RemoteMemory.readFrom(message.data(), 0).token();
            known.set(tokens.lastIndexOf(token), true);
            return true;
        }
    }

    private static String text(Message message) {
        return text(message.data().toArray(ValueLayout.JAVA_BYTE));
    }

    /** Short, if all bytes are the same. */
    private static String text(byte[] bytes) {
        for (byte one : bytes) {
            if (one != bytes[0]) {
                return new String(bytes, UTF_8);
            }
        }
        return (char) bytes[0] + " " + bytes.length;
    }

    /** Two connected channels, and what has happened to them. */
    private class World implements Explorer.World {
        private final Scope scope;
        private final Fates fates = new Fates();
        private final Side a;
        private final Side b;
        private int closes;

        World(Scope scope) {
            this.scope = scope;
            this.closes = scope.closes;
            tickNow();
            device.sends.clear();
            device.receives.clear();
            device.changes.forEach(StateChange::close); // they have native memory
            device.changes.clear();
            device.chains.clear();
            device.destroys.clear();
            a = new Side("A", scope, scope.fromA, ofA, fates);
            b = new Side("a", scope, scope.fromB, ofB, fates);
            ChannelsByHand.connect(a.channel, b.channel);
        }

        @Override
        public List<Explorer.Step> steps() {
            List<Explorer.Step> steps = new ArrayList<>();
            stepsOf(steps, a, b, "A");
            stepsOf(steps, b, a, "B");
            if (!a.closed && fates.begun.size() < scope.exposures) {
                steps.add(new Explorer.Step("A exposes", this::expose));
            }
            for (int i = 0; i < fates.begun.size(); i++) {
                stepsOf(steps, i);
            }
            return steps;
        }

        private void stepsOf(List<Explorer.Step> steps, Side side, Side peer, String name) {
            if (side.sent.size() < side.toSend.size() && !side.closed) {
                steps.add(new Explorer.Step(name + " sends", side::send));
            }
            if (!device.runnable(side.number).isEmpty()) {
                steps.add(new Explorer.Step(name + "'s device", () -> carryOut(side, peer)));
            }
            if (!side.polled) {
                steps.add(new Explorer.Step(name + " polls", side::poll));
            }
            if (!side.kept.isEmpty()) {
                steps.add(new Explorer.Step(name + " releases", side::release));
            }
            if (side.asks > 0 && !side.closed) {
                steps.add(new Explorer.Step(name + " asks", side::ask));
            }
            if (closes > 0 && !side.closed && (side == a || scope.closes == 2)) {
                steps.add(
                        new Explorer.Step(
                                name + " closes",
                                () -> {
                                    closes--;
                                    side.beginClose();
                                }));
            }
        }

        private void carryOut(Side side, Side peer) {
            String request = describe(device.runnable(side.number).getFirst());
            device.runOne(side.number);
            side.arrived.add("done " + request);
            peer.arrived.add("came " + request);
            side.polled = false;
            peer.polled = false;
        }

        // ---- exposures

        private void stepsOf(List<Explorer.Step> steps, int i) {
            String stage = fates.stages.get(i);
            boolean ended = fates.ends.get(i) != null;
            if (!ended && !a.closed) {
                if (!stage.contains("told")) {
                    steps.add(new Explorer.Step("A tells " + i, () -> tell(i)));
                }
                if (!stage.contains("revoked") && !scope.not.contains("revoke")) {
                    steps.add(new Explorer.Step("A revokes " + i, () -> revoke(i)));
                }
                if (!stage.contains("revoked") && !scope.not.contains("late")) {
                    steps.add(new Explorer.Step(i + " is late", () -> expire(i)));
                }
            }
            if (fates.known.get(i) && !b.closed) {
                if (!stage.contains("written") && !scope.not.contains("write")) {
                    steps.add(new Explorer.Step("B writes " + i, () -> write(i)));
                }
                if (!stage.contains("taken") && !scope.not.contains("take")) {
                    steps.add(new Explorer.Step("B takes " + i, () -> take(i)));
                }
            }
        }

        private void note(int i, String what) {
            fates.stages.set(i, fates.stages.get(i) + what);
        }

        private void expose() {
            int i = fates.begun.size();
            Exposure exposure =
                    a.channel
                            .ownMemory()
                            .tryExpose(
                                    exposed,
                                    0,
                                    REGION_BYTES,
                                    OpFlags.ALLOW_REMOTE_WRITE,
                                    Duration.ofSeconds(1),
                                    (of, status, message) -> ended(i, status, message),
                                    null);
            if (exposure != null) {
                a.polled = false;
                fates.begun.add(exposure);
                fates.tokens.add(exposure.token);
                fates.remotes.add(exposure.remoteMemory());
                fates.stages.add("");
                fates.known.add(false);
                fates.ends.add(null);
            }
        }

        private void ended(int i, Status status, @Nullable Message message) {
            if (fates.ends.get(i) != null) {
                throw new AssertionError("Exposure %d has ended twice".formatted(i));
            }
            fates.ends.set(i, status);
            if (device.honours(fates.tokens.get(i))) {
                device.panics.add("exposure %d has ended and is in use".formatted(i));
            }
            if ((message != null) != status.isSuccess()
                    || (message != null && !text(message).equals("taken"))) {
                device.panics.add("exposure %d ended with %s".formatted(i, status));
            }
        }

        private void tell(int i) {
            byte[] bytes = new byte[RemoteMemory.MESSAGE_BYTES];
            fates.remotes.get(i).writeTo(MemorySegment.ofArray(bytes), 0);
            if (a.channel.trySend(MemorySegment.ofArray(bytes)).isSuccess()) {
                note(i, "told ");
                a.polled = false;
            }
        }

        private void revoke(int i) {
            a.polled = false;
            note(i, "revoked ");
            fates.begun.get(i).revoke();
        }

        /** Its deadline is over, and it only is looked at. */
        private void expire(int i) {
            a.polled = false;
            note(i, "revoked ");
            Exposure exposure = fates.begun.get(i);
            try (var _ = a.channel.lock.hold()) {
                exposure.timed = true;
                exposure.expires = -1;
                String ignored = a.channel.exposures.late(0);
            }
        }

        private void write(int i) {
            Status status =
                    b.channel
                            .peerMemory()
                            .tryWrite(
                                    new BufferList(1).add(local, 0, REGION_BYTES),
                                    fates.remotes.get(i),
                                    0,
                                    null,
                                    null);
            if (status != Status.NO_MORE_ENTRIES) {
                b.polled = false;
                note(i, "written ");
            }
        }

        private void take(int i) {
            Status status =
                    b.channel
                            .peerMemory()
                            .trySendAndInvalidate(
                                    MemorySegment.ofArray(TAKEN),
                                    0,
                                    TAKEN.length,
                                    fates.remotes.get(i),
                                    null,
                                    null);
            if (status != Status.NO_MORE_ENTRIES) {
                b.polled = false;
                note(i, "taken ");
            }
        }

        // ---- checks

        @Override
        public void check() {
            if (!device.panics.isEmpty()) {
                String panics = device.panics.toString();
                device.panics.clear();
                throw new AssertionError(panics);
            }
            check(a, b);
            check(b, a);
            if (closes == scope.closes && a.isQuiet() && b.isQuiet()) {
                checkAllArrived(a, b);
                checkAllArrived(b, a);
            }
        }

        private void check(Side from, Side to) {
            if (closes == scope.closes && !from.channel.isOpen()) {
                throw new AssertionError("It has ended", from.channel.closeReason());
            }
            List<String> expected = from.expected();
            if (to.got.size() > expected.size()
                    || !to.got.equals(expected.subList(0, to.got.size()))) {
                throw new AssertionError("%s was sent, %s came".formatted(expected, to.got));
            }
            if (closes == scope.closes) {
                checkCredits(from, to, "messages", false);
                checkCredits(from, to, "controls", true);
            }
        }

        /** What was sent waits in the device, was not polled, was not released, or was returned. */
        private void checkCredits(Side from, Side to, String of, boolean control) {
            int sent = (int) get(from.channel.credits, of + "Sent");
            int granted = (int) get(from.channel.credits, of + "Granted");
            int received = (int) get(to.channel.credits, of + "Received");
            int returned = (int) get(to.channel.credits, of + "Returned");
            long waiting =
                    device.runnable(from.number).stream()
                            .filter(one -> isCounted(one.opcode(), one.message(), control))
                            .count();
            long arrived =
                    to.arrived.stream()
                            .filter(one -> one.startsWith("came " + (control ? "c" : "m")))
                            .count();
            long unreleased =
                    control
                            ? 0
                            : to.kept.stream().filter(one -> one.frame() != null).count()
                                    + largeArrivals(to.channel).map(LargeArrivals::held).orElse(0);
            int window = control ? Credits.CONTROLS : scope.options.receives;
            if (sent != waiting + arrived + received
                    || received != unreleased + returned
                    || granted > returned
                    || sent - granted > window
                    || from.channel.credits.available() < 0) {
                throw new AssertionError(
                        "%d %s sent, %d granted: %d posted, %d not polled, %d not released, %d returned"
                                .formatted(
                                        sent, of, granted, waiting, arrived, unreleased, returned));
            }
        }

        private void checkAllArrived(Side from, Side to) {
            if (!to.got.equals(from.expected())
                    || !from.sent.stream().allMatch(CompletableFuture::isDone)) {
                throw new AssertionError(
                        "Nothing is left to do. %s was sent, %s came, the futures are %s"
                                .formatted(from.expected(), to.got, from.sent));
            }
        }

        @Override
        public void settle() {
            for (int i = 0; i < fates.begun.size(); i++) {
                if (fates.ends.get(i) == null && !a.closed) {
                    fates.begun.get(i).revoke();
                    a.polled = false;
                }
            }
            settle(a, b);
            check();
            if (closes == scope.closes && fates.ends.contains(null)) {
                throw new AssertionError("Of the exposures ended " + fates.ends);
            }
        }

        private void settle(Side one, Side other) {
            while (!one.isQuiet() || !other.isQuiet()) {
                settleOne(one, other);
                settleOne(other, one);
            }
        }

        private void settleOne(Side side, Side peer) {
            while (!device.runnable(side.number).isEmpty()) {
                carryOut(side, peer);
            }
            side.poll();
            while (!side.kept.isEmpty()) {
                side.release();
            }
        }

        @Override
        public void close() {
            long before = time;
            step = PollerClock.TICK_NANOSECONDS;
            a.channel.close();
            b.channel.close();
            for (Side side : List.of(a, b)) {
                side.kept.forEach(Message::close);
                side.poll();
                if (!side.sent.stream().allMatch(CompletableFuture::isDone)) {
                    throw new AssertionError("A future is not completed by the close");
                }
            }
            Duration took = Duration.ofNanos(time - before);
            // Each waits for half of the timeout at most; a round looks at the clock several times.
            if (took.compareTo(scope.options.timeout.multipliedBy(3)) > 0) {
                throw new AssertionError("The closes took " + took);
            }
            if (fates.ends.contains(null) || device.windowCount() != 0) {
                throw new AssertionError(
                        "%d windows are left, the exposures ended with %s"
                                .formatted(device.windowCount(), fates.ends));
            }
            if (!device.panics.isEmpty()) {
                throw new AssertionError(device.panics);
            }
        }

        // ---- states

        @Override
        public @Nullable Object state() {
            StringBuilder state = new StringBuilder();
            state.append(fates.stages).append(fates.known).append(fates.ends).append(closes);
            for (Exposure exposure : fates.begun) {
                fields(state, exposure);
            }
            state(state, a);
            state(state, b);
            return state.toString();
        }

        private void state(StringBuilder state, Side side) {
            state.append('\n').append(side.arrived).append(side.polled).append(side.got);
            state.append(side.kept.size()).append(side.asks).append(side.closed);
            for (PostedRequest one : device.runnable(side.number)) {
                state.append(describe(one)).append(' ');
            }
            for (CompletableFuture<Void> one : side.sent) {
                state.append(one.isDone() ? '1' : '0');
            }
            MessageChannel channel = side.channel;
            fields(state, channel);
            for (String of :
                    List.of(
                            "credits",
                            "outbox",
                            "inbox",
                            "exposures",
                            "frames",
                            "requests",
                            "reason")) {
                fields(state, get(channel, of));
            }
            fields(state, channel.outbox.large);
            fields(state, channel.outbox.waiting);
            fields(state, get(channel.outbox, "keepAlive"));
            largeArrivals(channel).ifPresent(large -> fields(state, large));
            fields(state, get(get(channel, "frames"), "notes"));
        }
    }

    /** What the peer has announced; there from the first announcement on. */
    private static Optional<LargeArrivals> largeArrivals(MessageChannel channel) {
        return Optional.ofNullable((LargeArrivals) get(channel.inbox, "large"));
    }

    /** A request, without tokens and addresses. */
    private static String describe(PostedRequest request) {
        byte[] message = request.message();
        if (!isFrame(request.opcode())) {
            return "%d %d".formatted(request.opcode(), message.length);
        }
        return "%s %s %d"
                .formatted(
                        message[0] == Frame.MESSAGE || message[0] == Frame.LARGE
                                ? "m"
                                : message[0] == Frame.WRITTEN ? "w" : "c",
                        Arrays.toString(Arrays.copyOf(message, Frame.HEADER_BYTES)),
                        message.length);
    }

    private static boolean isFrame(int opcode) {
        return opcode == 2 || opcode == 9; // a send, also one that invalidates
    }

    private static boolean isCounted(int opcode, byte[] message, boolean control) {
        return isFrame(opcode)
                && message[0] != Frame.WRITTEN
                && control != (message[0] == Frame.MESSAGE || message[0] == Frame.LARGE);
    }

    // ---- what nobody else needs to read

    private static List<Field> fieldsOf(Class<?> type) {
        return FIELDS.computeIfAbsent(
                type,
                _ -> {
                    List<Field> fields = new ArrayList<>();
                    for (Class<?> of = type; of != Object.class; of = of.getSuperclass()) {
                        for (Field field : of.getDeclaredFields()) {
                            if (!Modifier.isStatic(field.getModifiers())) {
                                field.setAccessible(true);
                                fields.add(field);
                            }
                        }
                    }
                    return fields;
                });
    }

    private static Object get(Object of, String name) {
        for (Field field : fieldsOf(of.getClass())) {
            if (field.getName().equals(name)) {
                return value(of, field);
            }
        }
        throw new AssertionError(of.getClass() + " has no " + name);
    }

    private static Object value(Object of, Field field) {
        try {
            return field.get(of);
        } catch (IllegalAccessException e) {
            throw new AssertionError(e);
        }
    }

    /** Appends the numbers, flags and sizes that an object has. */
    private static void fields(StringBuilder to, Object of) {
        to.append('|');
        for (Field field : fieldsOf(of.getClass())) {
            Class<?> type = field.getType();
            if (LEFT_OUT.contains(field.getName())) {
                continue;
            }
            if (type.isPrimitive() || type.isEnum()) {
                to.append(value(of, field)).append(',');
            } else if (value(of, field) instanceof Collection<?> many) {
                to.append(many.size()).append(',');
            }
        }
    }
}
