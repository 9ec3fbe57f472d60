package dev.verbena.bench;

import java.util.function.LongSupplier;

/**
 * The methods of {@link PostAndPoll} in a plain loop, by the time that the thread had a processor:
 * for the script {@code ablation} and the rows beside peers, where other work may run beside. One
 * line for each round.
 */
public final class Turns {
    private static final int BATCH = 1000;
    private static final int CHAIN = 16;
    private static final int WARM_UPS = 2;

    private Turns() {}

    /**
     * Measures one of them.
     *
     * @param arguments {@code SHARED|CONFINED one|chain|batch|prepared}, and options
     */
    public static void main(String[] arguments) {
        Options options =
                new Options(
                        "Turns SHARED|CONFINED one|chain|batch|prepared [--ms N] [--rounds N]",
                        2,
                        arguments,
                        "--ms",
                        "--rounds");
        PostAndPoll measured = new PostAndPoll();
        measured.threads = PostAndPoll.Threads.valueOf(options.argument(0));
        measured.open();
        String what = options.argument(1);
        LongSupplier one =
                switch (what) {
                    case "one" -> measured::one;
                    case "chain" -> measured::chain;
                    case "batch" -> measured::batch;
                    case "prepared" -> measured::prepared;
                    default -> throw new IllegalArgumentException("There is no " + what);
                };
        int rounds = options.number("--rounds", 2);
        long nanos = options.number("--ms", 150) * 1_000_000L;
        for (int round = -WARM_UPS; round < rounds; round++) {
            double each = round(one, round < 0 ? 4 * nanos : nanos);
            if (round >= 0) {
                int requests = what.equals("one") ? 1 : CHAIN;
                Results.print("post-poll", "chain=" + requests, each / requests, "ns");
            }
        }
        measured.close();
    }

    private static double round(LongSupplier one, long nanos) {
        long sum = 0;
        long times = 0;
        long start = ThreadClock.nanos();
        long end;
        do {
            for (int i = 0; i < BATCH; i++) {
                sum += one.getAsLong();
            }
            times += BATCH;
            end = ThreadClock.nanos();
        } while (end - start < nanos);
        if (sum == 0) {
            throw new IllegalStateException("no completion named a request");
        }
        return (double) (end - start) / times;
    }
}
