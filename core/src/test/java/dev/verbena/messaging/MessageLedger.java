package dev.verbena.messaging;

import dev.verbena.Adapter;
import dev.verbena.QueuePair;
import dev.verbena.Status;
import dev.verbena.trust.Trust;

import org.jspecify.annotations.Nullable;

import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.function.Consumer;
import java.util.function.LongFunction;

/**
 * Accounts for a number of messages, of channels or of raw connections, or of calls: {@linkplain
 * Era eras}, one after the other, until they have sent that many. Needs no JUnit, as it also runs
 * in processes of its own.
 *
 * <p>-Dverbena.ledger.messages=1000000 -Dverbena.trust.seed=… for another number and choice,
 * -Dverbena.ledger.bytes=1073741824 for the longest message. Each era has a seed of its own, which
 * decides what each side does; how threads take turns is the machine's.
 */
public final class MessageLedger {
    private static final int MOST_COMPLAINTS = 20;

    /** Where messages go: one or two devices, and what goes wrong there. For one era each. */
    public abstract static class Place implements AutoCloseable {
        final Adapter here;
        final Adapter there;
        final @Nullable InetSocketAddress address; // of a server there; null without such a thing

        /** Two ports that reach each other, or the same one twice. */
        protected Place(Adapter here, Adapter there, @Nullable InetSocketAddress address) {
            this.here = here;
            this.there = there;
            this.address = address;
        }

        /** Whether reads bring the bytes of the peer's memory. */
        protected boolean readsBytes() {
            return true;
        }

        /** Does harm to the device or the connections on it, if it can. */
        protected void disturb(Random random) throws InterruptedException {}

        /** Whether it has told one end of this queue pair's connection that it is over. */
        protected boolean hasCut(QueuePair pair) {
            return false;
        }

        /** Whether a connection that neither of its sides has ended may end with this status. */
        protected boolean mayEndWith(Status status) {
            return status != Status.INTERNAL_ERROR; // a handler threw, or one broke the protocol
        }

        /** After all else is closed: complains about what is left. Returns how much that is. */
        protected int leaks(Consumer<String> complain) {
            return 0;
        }

        @Override
        public void close() {
            here.close();
            there.close();
        }
    }

    @FunctionalInterface
    private interface Eras {
        Era make(Place place, long seed, int mostMessages, int longest);
    }

    private final Eras kind;
    private final String where;
    private final LongFunction<Place> places;
    private final int mostMessages; // of an era
    private final int longest; // message, bytes
    private final long messages;
    private final List<String> wrong = new ArrayList<>();

    private MessageLedger(
            Eras kind,
            String where,
            int part,
            int whole,
            int mostMessages,
            int longest,
            LongFunction<Place> places) {
        this.kind = kind;
        this.where = where;
        this.messages = Integer.getInteger("verbena.ledger.messages", Trust.size(part, whole));
        this.longest = Integer.getInteger("verbena.ledger.bytes", Trust.size(longest, 64 << 20));
        this.mostMessages = mostMessages;
        this.places = places;
    }

    /**
     * Messages of channels. The place of each era is made from its seed.
     *
     * @param part how many messages it sends in each CI run
     * @param whole how many in the whole suite
     * @param mostMessages of an era
     * @param longest the longest message in each CI run
     */
    public static MessageLedger ofChannels(
            String where,
            int part,
            int whole,
            int mostMessages,
            int longest,
            LongFunction<Place> places) {
        return new MessageLedger(
                MessageEra::new, where, part, whole, mostMessages, longest, places);
    }

    /** Messages of raw connections: as {@link #ofChannels}. */
    public static MessageLedger ofRawConnections(
            String where, int part, int whole, int mostMessages, LongFunction<Place> places) {
        return new MessageLedger(
                RawEra::new, "raw, " + where, part, whole, mostMessages, 1 << 16, places);
    }

    /** Calls, over channels: as {@link #ofChannels}. */
    public static MessageLedger ofCalls(
            String where,
            int part,
            int whole,
            int mostCalls,
            int longest,
            LongFunction<Place> places) {
        return new MessageLedger(
                CallsEra::new, "calls, " + where, part, whole, mostCalls, longest, places);
    }

    /** Runs it. Returns what went wrong: nothing, unless there is a bug. */
    public List<String> run() throws Exception {
        long seed = Trust.seed();
        System.out.printf(
                "Ledger, %s: %,d messages of up to %,d bytes, seed %d%n",
                where, messages, longest, seed);
        Trust.Row row = Trust.row("messages, " + where).seed(seed);
        long sent = 0;
        long arrived = 0;
        long bytes = 0;
        long exposures = 0;
        int channels = 0;
        int faults = 0;
        int leaks = 0;
        int eras = 0;
        for (; sent < messages && wrong.isEmpty(); eras++) {
            long own = seed + eras;
            Era era = kind.make(places.apply(own), own, mostMessages, longest);
            try {
                era.run();
            } catch (Exception | Error thrown) {
                thrown.printStackTrace(System.out);
                era.complain("it ended with " + thrown);
            }
            sent += era.sent();
            arrived += era.arrived();
            bytes += era.bytes();
            exposures += era.exposures();
            channels += era.channels();
            faults += era.faults();
            leaks += era.leaks();
            era.wrong().stream()
                    .limit(MOST_COMPLAINTS)
                    .map(what -> "%s (again: -Dverbena.trust.seed=%d)".formatted(what, own))
                    .forEach(wrong::add);
        }
        System.out.printf(
                "Ledger, %s: %,d eras, %,d channels, %,d messages sent, %,d arrived with %,d bytes; %,d exposures; %,d faults%n",
                where, eras, channels, sent, arrived, bytes, exposures, faults);
        row.messages(sent).faults(faults).losses(wrong.size()).leaks(leaks).write();
        return wrong;
    }
}
