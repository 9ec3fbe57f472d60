package dev.verbena.nativetest.containers;

import dev.verbena.Adapter;
import dev.verbena.bindings.Verbs;
import dev.verbena.testcontainers.RdmaHost;
import dev.verbena.tools.Verbena;

import org.HdrHistogram.Histogram;
import org.testcontainers.images.builder.ImageFromDockerfile;
import org.testcontainers.utility.DockerImageName;

import picocli.CommandLine;

import java.net.URISyntaxException;
import java.nio.file.Path;
import java.util.List;

/** This project's image with its programs added, as somebody's service would be built on it. */
final class ProgramImage {
    private static final List<Class<?>> WANTED =
            List.of(
                    Letters.class,
                    Verbena.class,
                    Adapter.class,
                    Verbs.class,
                    CommandLine.class,
                    Histogram.class);

    /** What {@code java -cp} takes in there. */
    static final String CLASS_PATH =
            String.join(
                    ":", WANTED.stream().map(one -> "/service/" + one.getSimpleName()).toList());

    private static final class Built {
        private static final DockerImageName NAME = DockerImageName.parse(build());
    }

    private ProgramImage() {}

    /** Builds it when first asked for. */
    static DockerImageName name() {
        return Built.NAME;
    }

    private static String build() {
        ImageFromDockerfile image = new ImageFromDockerfile();
        for (Class<?> one : WANTED) {
            image.withFileFromPath("service/" + one.getSimpleName(), placeOf(one));
        }
        return image.withDockerfileFromBuilder(
                        lines ->
                                lines.from(RdmaHost.IMAGE.asCanonicalNameString())
                                        .copy("service", "/service")
                                        .build())
                .get();
    }

    private static Path placeOf(Class<?> one) {
        try {
            return Path.of(one.getProtectionDomain().getCodeSource().getLocation().toURI());
        } catch (URISyntaxException e) {
            throw new AssertionError(e);
        }
    }
}
