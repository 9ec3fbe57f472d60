/** Small programs that documentation quotes. */
// Micrometer is an automatic module.
@SuppressWarnings("requires-automatic")
module dev.verbena.examples {
    requires dev.verbena;
    requires static micrometer.core; // of QueueMeters: who runs another example needs none
}
