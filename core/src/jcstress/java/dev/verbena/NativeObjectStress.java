package dev.verbena;

import dev.verbena.internal.runtime.Teardown;

import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Arbiter;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.II_Result;

/** The references to a native object: it is destroyed once, and never while somebody uses it. */
public class NativeObjectStress {
    private static final class Thing extends NativeObject {
        volatile int destroyed;

        Thing(NativeObject... parents) {
            super(parents);
        }

        @Override
        void destroy(Teardown end) {
            destroyed++;
        }

        @Override
        String describe() {
            return "a thing";
        }
    }

    /** One thread uses it while another closes it. */
    @JCStressTest
    @Outcome(id = "0, 1", expect = Expect.ACCEPTABLE, desc = "It was there, or refused.")
    @Outcome(expect = Expect.FORBIDDEN, desc = "It was destroyed during its use, twice or never.")
    @State
    public static class UseAndClose {
        private final Thing thing = new Thing();

        @Actor
        public void use(II_Result result) {
            if (thing.tryAcquire()) {
                result.r1 = thing.destroyed;
                thing.release();
            }
        }

        @Actor
        public void close() {
            thing.close();
        }

        @Arbiter
        public void look(II_Result result) {
            result.r2 = thing.destroyed;
        }
    }

    /** Two threads close it. */
    @JCStressTest
    @Outcome(id = "1, 1", expect = Expect.ACCEPTABLE, desc = "Destroyed once, and its parent.")
    @Outcome(expect = Expect.FORBIDDEN, desc = "Destroyed twice, or never.")
    @State
    public static class TwoClose {
        private final Thing parent = new Thing();
        private final Thing thing = new Thing(parent);

        @Actor
        public void one() {
            thing.close();
            parent.close();
        }

        @Actor
        public void another() {
            parent.close();
            thing.close();
        }

        @Arbiter
        public void look(II_Result result) {
            result.r1 = thing.destroyed;
            result.r2 = parent.destroyed;
        }
    }

    /** A child is created while its parent is closed. */
    @JCStressTest
    @Outcome(id = "0, 1", expect = Expect.ACCEPTABLE, desc = "The parent is destroyed last, once.")
    @Outcome(expect = Expect.FORBIDDEN, desc = "The parent was destroyed before its child.")
    @State
    public static class CreateAndClose {
        private final Thing parent = new Thing();

        @Actor
        public void create(II_Result result) {
            try (Thing child = new Thing(parent)) {
                result.r1 = parent.destroyed;
            } catch (IllegalStateException e) {
                result.r1 = 0; // the parent was closed before
            }
        }

        @Actor
        public void close() {
            parent.close();
        }

        @Arbiter
        public void look(II_Result result) {
            result.r2 = parent.destroyed;
        }
    }
}
