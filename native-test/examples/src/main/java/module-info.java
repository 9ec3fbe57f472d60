/** Small programs that documentation quotes. */
module dev.verbena.examples {
    requires dev.verbena;
}
