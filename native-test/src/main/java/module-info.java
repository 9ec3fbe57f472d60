/** Programs that a user of Verbena runs on a fabric of their own. */
module dev.verbena.tools {
    requires dev.verbena;

    exports dev.verbena.tools;
}
