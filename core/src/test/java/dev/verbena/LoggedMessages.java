package dev.verbena;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;

/** Keeps the records of a logger, which go nowhere else, until it is closed. */
public final class LoggedMessages implements AutoCloseable {
    private final Logger logger;
    private final List<LogRecord> records = Collections.synchronizedList(new ArrayList<>());
    private final Handler handler =
            new Handler() {
                @Override
                public void publish(LogRecord logged) {
                    records.add(logged);
                }

                @Override
                public void flush() {}

                @Override
                public void close() {}
            };

    public LoggedMessages(String logger) {
        this.logger = Logger.getLogger(logger);
        this.logger.addHandler(handler);
        this.logger.setUseParentHandlers(false);
    }

    /** What was logged so far. */
    public List<LogRecord> records() {
        synchronized (records) {
            return List.copyOf(records);
        }
    }

    @Override
    public void close() {
        logger.removeHandler(handler);
        logger.setUseParentHandlers(true);
    }

    /** The messages of the library's logger. */
    public static List<String> of(Runnable action) {
        return recordsOf(action).stream().map(LogRecord::getMessage).toList();
    }

    /** The records of the library's logger. */
    public static List<LogRecord> recordsOf(Runnable action) {
        try (LoggedMessages logged = new LoggedMessages("dev.verbena")) {
            action.run();
            return logged.records();
        }
    }
}
