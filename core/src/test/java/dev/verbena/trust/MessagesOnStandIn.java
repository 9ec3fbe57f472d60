package dev.verbena.trust;

import dev.verbena.Adapter;
import dev.verbena.messaging.MessageLedger;

import java.util.List;

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
        MessageLedger ledger =
                new MessageLedger(
                        arguments[0],
                        30_000,
                        3_000_000,
                        4000,
                        4 << 20,
                        seed -> new MessagesOnStandIn(Adapter.open("copy0")));
        List<String> wrong = ledger.run();
        wrong.forEach(System.out::println);
        System.exit(wrong.isEmpty() ? 0 : 1);
    }

    @Override
    protected boolean readsBytes() {
        return false;
    }
}
