package dev.verbena;

/**
 * The steps of a destroy. Each is tried whatever became of those before it, so that one call that
 * fails does not leave behind what could be freed. {@link #finish} reports what failed together:
 * the first failure, with the others {@linkplain Throwable#getSuppressed suppressed} in it.
 *
 * <p>For one thread at a time.
 */
final class Teardown {
    private final NativeObject object;
    private Throwable failure; // the first, or null

    /** For the end of an object, which messages name. */
    Teardown(NativeObject object) {
        this.object = object;
    }

    /** Takes a step; what it throws is kept. */
    void run(Runnable step) {
        try {
            step.run();
        } catch (RuntimeException | Error e) {
            add(e);
        }
    }

    /** Takes the answer of a step: 0, or a negative errno. */
    void check(long answer, String verb) {
        if (answer < 0) {
            add(
                    VerbenaException.of(
                            verb,
                            answer,
                            "%s is closed, and all else of it that could be freed is"
                                    .formatted(object)));
        }
    }

    private void add(Throwable thrown) {
        if (failure == null) {
            failure = thrown;
        } else if (failure != thrown) {
            failure.addSuppressed(thrown);
        }
    }

    /** Throws what was kept, if anything was. */
    void finish() {
        switch (failure) {
            case null -> {}
            case Error e -> throw e;
            case Throwable t -> throw (RuntimeException) t; // run keeps no others
        }
    }
}
