package dev.verbena;

import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/** Collects what threads throw uncaught, and what the library reports so, during each test. */
public final class UncaughtReports implements BeforeEachCallback, AfterEachCallback {
    private final BlockingQueue<Throwable> reports = new LinkedBlockingQueue<>();
    private Thread.UncaughtExceptionHandler usual;

    /** To be registered as an extension. */
    public UncaughtReports() {}

    /** What was reported and not taken yet. */
    public BlockingQueue<Throwable> reports() {
        return reports;
    }

    @Override
    public void beforeEach(ExtensionContext test) {
        usual = Thread.getDefaultUncaughtExceptionHandler();
        Thread.setDefaultUncaughtExceptionHandler((thread, thrown) -> reports.add(thrown));
    }

    @Override
    public void afterEach(ExtensionContext test) {
        Thread.setDefaultUncaughtExceptionHandler(usual);
    }
}
