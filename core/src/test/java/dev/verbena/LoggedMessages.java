package dev.verbena;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;

/** What the library logs while something runs. */
public final class LoggedMessages {
    private LoggedMessages() {}

    /** The messages of the library's logger. */
    public static List<String> of(Runnable action) {
        return recordsOf(action).stream().map(LogRecord::getMessage).toList();
    }

    /** The records of the library's logger. */
    public static List<LogRecord> recordsOf(Runnable action) {
        List<LogRecord> records = Collections.synchronizedList(new ArrayList<>());
        Handler handler =
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
        Logger logger = Logger.getLogger("dev.verbena");
        logger.addHandler(handler);
        logger.setUseParentHandlers(false);
        try {
            action.run();
        } finally {
            logger.removeHandler(handler);
            logger.setUseParentHandlers(true);
        }
        return records;
    }
}
