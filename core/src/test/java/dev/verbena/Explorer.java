package dev.verbena;

import dev.verbena.trust.Trust;

import org.jspecify.annotations.Nullable;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;

/**
 * Runs a small world in every order of its steps. A step is a call of real objects: of the program,
 * of the device, or of the peer. There are no threads. For each schedule the world is created again
 * and its steps are repeated from the start, so nothing of the library has to be copied.
 *
 * <p>A world that describes its state is explored as a graph: a state that was reached before is
 * not left a second time. So loops end, and the depth may be unlimited.
 */
public final class Explorer {
    /** What is run in every order of its steps. */
    public interface World extends AutoCloseable {
        /** The steps that are possible now: the same after the same steps. None ends the run. */
        List<Step> steps();

        /** After each step: throws if something is wrong. */
        void check();

        /** At the end of a schedule: lets everything end that has begun, and checks the result. */
        void settle();

        /** All that decides what may follow, with equals; null if states are not compared. */
        default @Nullable Object state() {
            return null;
        }

        @Override
        void close();
    }

    /** One step. */
    public record Step(String name, Runnable action) {}

    /** How many steps or messages more than in each build, for the whole trust suite. */
    public static final int MORE = Integer.getInteger("verbena.explore", Trust.size(0, 1));

    private final Supplier<? extends World> worlds;
    private final int depth;
    private final Map<Object, Integer> left = new HashMap<>(); // by state: with how many steps left
    private final List<Integer> path = new ArrayList<>();
    private final List<Integer> widths = new ArrayList<>();
    private final List<String> names = new ArrayList<>();
    private long states;
    private long schedules;

    private Explorer(Supplier<? extends World> worlds, int depth) {
        this.worlds = worlds;
        this.depth = depth;
    }

    /**
     * Explores all schedules of up to so many steps, of each of these worlds, and writes a row with
     * how many there were.
     *
     * @throws AssertionError with the steps that led to what is wrong
     */
    public static void report(String what, List<Supplier<? extends World>> worlds, int depth) {
        Trust.Row row = Trust.row("orders of steps, " + what);
        long states = 0;
        long schedules = 0;
        for (Supplier<? extends World> world : worlds) {
            Explorer explorer = explore(world, depth);
            states += explorer.states;
            schedules += explorer.schedules;
        }
        System.out.printf("%s: %,d states, %,d schedules%n", what, states, schedules);
        row.inputs(schedules).losses(0).leaks(0).write();
    }

    /**
     * Explores all schedules of up to so many steps.
     *
     * @throws AssertionError with the steps that led to what is wrong
     */
    public static Explorer explore(Supplier<? extends World> worlds, int depth) {
        Explorer explorer = new Explorer(worlds, depth);
        do {
            explorer.run();
        } while (explorer.next());
        return explorer;
    }

    /** One schedule: the steps of the path, and then always the first one. */
    private void run() {
        schedules++;
        names.clear();
        try (World world = worlds.get()) {
            int at = 0;
            boolean isNew = true;
            while (isNew && at < depth) {
                List<Step> steps = world.steps();
                if (steps.isEmpty()) {
                    break;
                }
                boolean first = at == path.size();
                if (first) {
                    path.add(0);
                    widths.add(steps.size());
                } else if (widths.get(at) != steps.size()) {
                    throw new AssertionError("The same steps do not lead to the same state");
                }
                Step step = steps.get(path.get(at));
                names.add(step.name());
                step.action().run();
                at++;
                if (at == path.size()) { // the others were checked before
                    world.check();
                    isNew = reached(world.state(), depth - at);
                }
            }
            if (isNew) {
                world.settle();
            }
        } catch (RuntimeException | Error e) {
            throw new AssertionError("After the steps " + names + ": " + e.getMessage(), e);
        }
    }

    private boolean reached(@Nullable Object state, int stepsLeft) {
        if (state != null) {
            Integer before = left.get(state);
            if (before != null && before >= stepsLeft) {
                return false;
            }
            left.put(state, stepsLeft);
            if (before != null) {
                return true;
            }
        }
        states++;
        return true;
    }

    /** Goes on to the next path; false when there is none. */
    private boolean next() {
        while (!path.isEmpty()) {
            int choice = path.removeLast() + 1;
            int width = widths.removeLast();
            if (choice < width) {
                path.add(choice);
                widths.add(width);
                return true;
            }
        }
        return false;
    }
}
