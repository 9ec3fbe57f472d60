package dev.verbena.nativetest.containers;

import dev.verbena.testcontainers.RdmaHost;

import org.testcontainers.images.builder.ImageFromDockerfile;
import org.testcontainers.utility.DockerImageName;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/** This project's image with its programs added, as somebody's service would be built on it. */
final class ProgramImage {
    /** Jars of the libraries that the programs need. */
    private static final Pattern NEEDED =
            Pattern.compile(
                    "(verbena|picocli|HdrHistogram|grpc-(api|core|netty(?!-shaded)|protobuf|stub|util)"
                            + "|netty-(?!testsuite|tcnative)[a-z0-9-]+|guava|failureaccess|perfmark-api"
                            + "|protobuf|proto-google|arrow|flight|flatbuffers"
                            + "|vertx|jackson|commons-codec|slf4j)"
                            + "-\\d?.*[.]jar");

    /** Folders of classes and jars: those of these tests, as far as they are needed. */
    private static final List<Path> PLACES =
            Stream.of(System.getProperty("java.class.path").split(File.pathSeparator))
                    .map(Path::of)
                    .filter(place -> Files.isDirectory(place) || isNeeded(place))
                    .toList();

    /** What {@code java -cp} takes in there. */
    static final String CLASS_PATH =
            IntStream.range(0, PLACES.size())
                    .mapToObj(i -> "/service/" + i)
                    .collect(Collectors.joining(":"));

    private static final class Built {
        private static final DockerImageName NAME = DockerImageName.parse(build());
    }

    private ProgramImage() {}

    private static boolean isNeeded(Path place) {
        return NEEDED.matcher(place.getFileName().toString()).matches();
    }

    /** Builds it when first asked for. */
    static DockerImageName name() {
        return Built.NAME;
    }

    private static String build() {
        ImageFromDockerfile image = new ImageFromDockerfile();
        for (int i = 0; i < PLACES.size(); i++) {
            image.withFileFromPath("service/" + i, PLACES.get(i));
        }
        return image.withDockerfileFromBuilder(
                        lines ->
                                lines.from(RdmaHost.IMAGE.asCanonicalNameString())
                                        .copy("service", "/service")
                                        .build())
                .get();
    }
}
