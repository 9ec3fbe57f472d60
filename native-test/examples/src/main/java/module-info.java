/** Small programs that documentation quotes. */
// Micrometer is an automatic module.
@SuppressWarnings("requires-automatic")
module dev.verbena.examples {
    requires dev.verbena;
    requires micrometer.core;
}
