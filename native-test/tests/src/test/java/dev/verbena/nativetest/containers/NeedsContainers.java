package dev.verbena.nativetest.containers;

import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.extension.ExtendWith;

import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Marks tests that need a container engine on a kernel with RDMA devices, and the image of {@code
 * ci/Dockerfile}. Without them they are skipped, with a message; with {@code
 * -Dverbena.containers=required} they fail.
 */
@Target(ElementType.TYPE)
@Retention(RetentionPolicy.RUNTIME)
@Inherited
@Tag("containers")
@ExtendWith(ContainerEngine.class)
@interface NeedsContainers {}
