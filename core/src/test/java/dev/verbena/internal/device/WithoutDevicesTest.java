package dev.verbena.internal.device;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** The errors that a process without a device gets. */
class WithoutDevicesTest {
    @TempDir private Path kernel;
    @TempDir private Path files;

    @Test
    void aKernelWithoutDevices() {
        assertThat(Devices.whyNone(kernel, files))
                .contains("the kernel has none here", "rdma link add rxe0 type rxe");
        assertThat(Devices.whyNone(kernel.resolve("no such folder"), files))
                .contains("the kernel has none here");
    }

    @Test
    void devicesThatThisProcessWasNotGiven() throws IOException {
        Files.createDirectory(kernel.resolve("roce1"));
        Files.createDirectory(kernel.resolve("roce0"));
        Files.createFile(files.resolve("rdma_cm"));
        for (Path given : List.of(files, files.resolve("no such folder"))) {
            assertThat(Devices.whyNone(kernel, given))
                    .contains("the kernel has roce0, roce1, but this process was given none")
                    .contains("--device /dev/infiniband/uverbs0");
        }
    }

    @Test
    void aDeviceWithoutItsProvider() throws IOException {
        Files.createDirectory(kernel.resolve("mlx5_0"));
        Files.createFile(files.resolve("uverbs0"));
        assertThat(Devices.whyNone(kernel, files))
                .contains("the kernel has mlx5_0, but", "apt install ibverbs-providers");
    }
}
