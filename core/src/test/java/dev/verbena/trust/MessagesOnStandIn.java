package dev.verbena.trust;

import dev.verbena.Adapter;
import dev.verbena.messaging.MessageLedger;

import java.util.ArrayList;
import java.util.List;
import java.util.function.LongFunction;

/**
 * The ledger of messages on the stand-in for libibverbs, whose provider only copies. It has no
 * connection manager, and reads bring nothing. {@link StandInTest} starts it.
 */
final class MessagesOnStandIn extends MessageLedger.Place {
    private MessagesOnStandIn(Adapter adapter) {
        super(adapter, adapter, null);
    }

    /** Argument: how the stand-in was compiled. */
    public static void main(String[] arguments) throws Exception {
        String where = arguments[0];
        LongFunction<MessageLedger.Place> place = _ -> new MessagesOnStandIn(Adapter.open("copy0"));
        List<String> wrong = new ArrayList<>();
        wrong.addAll(
                MessageLedger.ofChannels(where, 30_000, 3_000_000, 4000, 4 << 20, place).run());
        wrong.addAll(MessageLedger.ofRawConnections(where, 20_000, 3_000_000, 4000, place).run());
        wrong.forEach(System.out::println);
        System.exit(wrong.isEmpty() ? 0 : 1);
    }

    @Override
    protected boolean readsBytes() {
        return false;
    }
}
