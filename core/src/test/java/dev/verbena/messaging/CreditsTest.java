package dev.verbena.messaging;

import static org.assertj.core.api.Assertions.assertThat;

import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;

import org.junit.jupiter.api.Test;

import java.lang.reflect.Field;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Random;
import java.util.regex.Pattern;

/** Two sides, whatever they do and however late frames arrive. */
class CreditsTest {
    private static final Pattern COUNT =
            Pattern.compile("(messages|controls)(Sent|Granted|Received|Returned|Reported)");

    /** A frame that was sent and has not arrived, with the counts that it carries. */
    private record Sent(boolean control, boolean asks, int messages, int controls) {}

    private static final class Side {
        final int receives;
        final Credits credits;
        final Deque<Sent> coming = new ArrayDeque<>(); // frames to it
        int kept; // messages that were not released
        int free; // receives that are posted
        boolean answerDue; // to a keep-alive

        Side(int receives, int start) {
            this.receives = receives;
            this.credits = new Credits(receives);
            startAt(credits, start);
            this.free = receives + Credits.CONTROLS;
        }

        void send(Side to, boolean control) {
            send(to, control, false);
        }

        void send(Side to, boolean control, boolean asks) {
            answerDue = false;
            to.coming.add(
                    new Sent(
                            control, asks, credits.returnedMessages(), credits.returnedControls()));
            credits.sent(control);
            assertThat(to.coming.size()).as("receives of the peer").isLessThanOrEqualTo(to.free);
        }

        void take(Side from) {
            Sent frame = coming.remove();
            free--;
            assertThat(credits.grant(frame.messages(), frame.controls())).isTrue();
            assertThat(frame.control() ? credits.controlReceived(false) : credits.messageReceived())
                    .as("has a credit")
                    .isTrue();
            answerDue |= frame.asks();
            if (frame.control()) {
                free++;
                credits.returnOne(true);
            } else {
                kept++;
            }
            report(from);
        }

        void release(Side to) {
            kept--;
            free++;
            credits.returnOne(false);
            report(to);
        }

        void report(Side to) {
            if ((answerDue || credits.reportDue()) && credits.maySendControl()) {
                send(to, true);
            }
        }
    }

    /** All counts are those after so many frames. */
    private static void startAt(Credits credits, int start) {
        try {
            for (Field field : Credits.class.getDeclaredFields()) {
                if (COUNT.matcher(field.getName()).matches()) {
                    field.setAccessible(true);
                    field.setInt(credits, start);
                }
            }
        } catch (IllegalAccessException e) {
            throw new AssertionError(e);
        }
    }

    @Property(tries = 500)
    void noReceiveIsMissingAndNobodyWaitsForEver(
            @ForAll @IntRange(min = 1, max = 9) int ofA,
            @ForAll @IntRange(min = 1, max = 9) int ofB,
            @ForAll boolean wraps,
            @ForAll long seed) {
        Random random = new Random(seed);
        int start = wraps ? Integer.MAX_VALUE - random.nextInt(50) : 0;
        Side a = new Side(ofA, start);
        Side b = new Side(ofB, start);
        a.credits.open(ofB);
        b.credits.open(ofA);
        for (int i = 0; i < 2000; i++) {
            Side one = random.nextBoolean() ? a : b;
            Side other = one == a ? b : a;
            switch (random.nextInt(4)) {
                case 0 -> {
                    if (one.credits.maySendMessage()) {
                        one.send(other, false);
                    }
                }
                case 1 -> {
                    if (random.nextInt(5) == 0 && one.credits.maySendControl()) {
                        one.send(other, true, true); // a keep-alive
                    }
                }
                case 2 -> {
                    if (!one.coming.isEmpty()) {
                        one.take(other);
                    }
                }
                default -> {
                    if (one.kept > 0) {
                        one.release(other);
                    }
                }
            }
        }
        settle(a, b);
        assertThat(a.answerDue || b.answerDue).as("keep-alives without an answer").isFalse();
        assertThat(a.credits.maySendMessage()).as("a may send again").isTrue();
        assertThat(b.credits.maySendMessage()).as("b may send again").isTrue();
    }

    /** Everything arrives and is released; nobody sends a message. */
    private static void settle(Side a, Side b) {
        int rounds = 0;
        while (!a.coming.isEmpty() || !b.coming.isEmpty() || a.kept > 0 || b.kept > 0) {
            assertThat(rounds++).as("reports of reports end").isLessThan(1000);
            if (!a.coming.isEmpty()) {
                a.take(b);
            } else if (!b.coming.isEmpty()) {
                b.take(a);
            } else if (a.kept > 0) {
                a.release(b);
            } else {
                b.release(a);
            }
        }
    }

    @Test
    void aPeerThatSendsMoreThanItHasCreditForIsFound() {
        Credits credits = new Credits(4);
        for (int i = 0; i < 4; i++) {
            assertThat(credits.messageReceived()).isTrue();
        }
        assertThat(credits.messageReceived()).isFalse();
        for (int i = 0; i < Credits.CONTROLS; i++) {
            assertThat(credits.controlReceived(false)).isTrue();
        }
        assertThat(credits.controlReceived(false)).isFalse();
    }

    @Test
    void aReportOfMoreThanWasSentIsNotBelieved() {
        Credits credits = new Credits(4);
        credits.open(4);
        credits.sent(false);
        assertThat(credits.grant(1, 0)).isTrue();
        assertThat(credits.available()).isEqualTo(4);
        assertThat(credits.grant(2, 0)).isFalse();
        assertThat(credits.grant(1, 1)).isFalse();
    }

    @Test
    void anOlderReportTakesNothingBack() {
        Credits credits = new Credits(4);
        credits.open(4);
        for (int i = 0; i < 4; i++) {
            assertThat(credits.available()).isEqualTo(4 - i);
            credits.sent(false);
        }
        assertThat(credits.grant(3, 0)).isTrue();
        assertThat(credits.grant(2, 0)).isTrue();
        assertThat(credits.available()).isEqualTo(3);
    }

    @Test
    void theLastControlFrameIsKeptForAReportOfControlFrames() {
        Credits credits = new Credits(4);
        assertThat(credits.maySendControl()).as("the peer is not known").isFalse();
        credits.open(4);
        for (int i = 1; i < Credits.CONTROLS; i++) {
            assertThat(credits.maySendControl()).isTrue();
            credits.sent(true);
        }
        assertThat(credits.maySendControl()).as("the last").isFalse();
        credits.returnOne(true);
        assertThat(credits.reportDue()).isFalse();
        assertThat(credits.maySendControl()).isFalse();
        credits.returnOne(true);
        assertThat(credits.reportDue()).isTrue();
        assertThat(credits.maySendControl()).isTrue();
        credits.sent(true);
        assertThat(credits.maySendControl()).as("there is none").isFalse();
    }
}
