package dev.verbena.trust;

import dev.verbena.Adapter;

import java.util.List;

/**
 * Random requests on the stand-in for libibverbs, whose provider only copies. A process of its own,
 * as the stand-in takes the place of libibverbs: {@link StandInTest} starts it.
 */
final class OnStandIn extends Place {
    private OnStandIn() {
        super(Adapter.open("copy0"));
    }

    /** Arguments: how the stand-in was compiled, and how many requests to post. */
    public static void main(String[] arguments) throws Exception {
        RequestLives lives = new RequestLives(arguments[0], 100_000, seed -> new OnStandIn());
        List<String> wrong = lives.run(Long.parseLong(arguments[1]));
        wrong.forEach(System.out::println);
        System.exit(wrong.isEmpty() ? 0 : 1);
    }

    @Override
    boolean deliversImmediates() {
        return false;
    }

    @Override
    boolean readsBytes() {
        return false;
    }

    @Override
    boolean checksTokens() {
        return false;
    }
}
