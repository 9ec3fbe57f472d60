package dev.verbena.nativetest;

import org.junit.jupiter.api.extension.ExtendWith;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Marks tests that need a real RDMA device. Without one they are skipped, with a message; with
 * {@code -Dverbena.device=required} they fail.
 */
@Target(ElementType.TYPE)
@Retention(RetentionPolicy.RUNTIME)
@ExtendWith(RdmaDevices.class)
public @interface NeedsDevices {}
