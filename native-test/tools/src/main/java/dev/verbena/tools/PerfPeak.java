package dev.verbena.tools;

/**
 * The most that went through in any stretch, by perftest's definition: of all stretches from the
 * post of a request to the completion of a later one, or of itself, the most requests per time.
 */
final class PerfPeak {
    private PerfPeak() {}

    /**
     * Requests per nanosecond.
     *
     * <p>Seen as points (number, time), that is the line of the least slope from a post to a
     * completion right of it. Only posts on the upper hull of those that came before can be on it,
     * as a post below the line between two others makes a steeper line than one of them.
     *
     * @param postedAt when something was posted, {@code posts} times
     * @param postedBefore how many requests had been posted before each
     * @param completedAt when it was seen that something had ended, {@code signals} times
     * @param completedBy how many requests had ended then
     */
    static double of(
            long[] postedAt,
            int[] postedBefore,
            int posts,
            long[] completedAt,
            int[] completedBy,
            int signals) {
        int[] hull = new int[posts];
        int size = 0;
        int next = 0;
        double peak = 0;
        for (int signal = 0; signal < signals; signal++) {
            while (next < posts && postedBefore[next] < completedBy[signal]) {
                while (size >= 2
                        && !turnsRight(
                                postedAt, postedBefore, hull[size - 2], hull[size - 1], next)) {
                    size--;
                }
                hull[size++] = next++;
            }
            int low = 0;
            int high = size - 1;
            while (low < high) {
                int middle = (low + high) / 2;
                if (rate(postedAt, postedBefore, hull[middle], completedAt, completedBy, signal)
                        < rate(
                                postedAt,
                                postedBefore,
                                hull[middle + 1],
                                completedAt,
                                completedBy,
                                signal)) {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            if (size > 0) {
                peak =
                        Math.max(
                                peak,
                                rate(
                                        postedAt,
                                        postedBefore,
                                        hull[low],
                                        completedAt,
                                        completedBy,
                                        signal));
            }
        }
        return peak;
    }

    private static boolean turnsRight(long[] at, int[] number, int a, int b, int c) {
        return (double) (at[b] - at[a]) * (number[c] - number[b])
                > (double) (at[c] - at[b]) * (number[b] - number[a]);
    }

    private static double rate(
            long[] postedAt,
            int[] postedBefore,
            int post,
            long[] completedAt,
            int[] completedBy,
            int signal) {
        return (double) (completedBy[signal] - postedBefore[post])
                / Math.max(1, completedAt[signal] - postedAt[post]);
    }
}
