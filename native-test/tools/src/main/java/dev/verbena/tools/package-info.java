/** Programs that a user of Verbena runs on a fabric of their own. */
package dev.verbena.tools;
