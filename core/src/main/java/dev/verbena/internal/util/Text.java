package dev.verbena.internal.util;

import java.math.BigDecimal;
import java.math.RoundingMode;
import java.time.Duration;

/** Durations, counts and remote keys in messages. */
public final class Text {
    private static final int NANO_DIGITS = 9;
    private static final int DIGITS = 3;
    private static final String[] UNITS = {" s", " ms", " us", " ns"};

    private Text() {}

    /**
     * A duration with its unit, such as 37.3 s or 8.192 us. From a second on it is rounded to whole
     * seconds, or to three digits if that is more exact; shorter ones are limits of the device,
     * which must not be rounded.
     */
    public static String time(Duration time) {
        BigDecimal value =
                BigDecimal.valueOf(time.getSeconds())
                        .add(BigDecimal.valueOf(time.getNano(), NANO_DIGITS));
        int unit = 0;
        while (value.signum() != 0
                && value.abs().compareTo(BigDecimal.ONE) < 0
                && unit < UNITS.length - 1) {
            value = value.movePointRight(DIGITS);
            unit++;
        }
        if (unit == 0) {
            int wholeDigits = value.precision() - value.scale();
            value = value.setScale(Math.max(0, DIGITS - wholeDigits), RoundingMode.HALF_UP);
        }
        return value.stripTrailingZeros().toPlainString() + UNITS[unit];
    }

    /**
     * A remote key (NDK: token), such as 0x1234xxxx. Whoever has one may access memory, so
     * messages, logs and recordings get half of it only.
     */
    public static String key(int token) {
        return "0x%04xxxxx".formatted(shown(token) >>> Short.SIZE);
    }

    /** The half of a remote key that may be recorded; the other is 0. */
    public static int shown(int token) {
        return token & 0xFFFF_0000;
    }

    /** A count with its noun, such as 1 attempt or 2,000 attempts. */
    public static String count(long number, String noun) {
        return "%,d %s%s".formatted(number, noun, number == 1 ? "" : "s");
    }
}
