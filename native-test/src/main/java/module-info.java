/** Programs that a user of Verbena runs on a fabric of their own. */
module dev.verbena.tools {
    requires dev.verbena;
    requires info.picocli;

    exports dev.verbena.tools;

    opens dev.verbena.tools to
            info.picocli;
}
