package dev.verbena.internal.connect;

import org.jspecify.annotations.Nullable;

/**
 * One cell of {@link ConnectionTable}.
 *
 * @param next the state meanwhile and afterwards
 * @param ifItFails the state when the action fails, or null for an action that cannot; everything
 *     is released then, as by {@link ConnectionAction#GIVE_UP}
 */
record Transition(
        ConnectionAction action, ConnectionState next, @Nullable ConnectionState ifItFails) {}
