/** Programs that a user of Verbena runs on a fabric of their own. */
// HdrHistogram is an automatic module.
@SuppressWarnings("requires-automatic")
module dev.verbena.tools {
    requires dev.verbena;
    requires info.picocli;
    requires HdrHistogram;
    requires java.management;

    exports dev.verbena.tools;

    opens dev.verbena.tools to
            info.picocli;
}
