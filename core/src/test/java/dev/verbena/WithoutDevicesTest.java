package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** What a process without a device is told. */
class WithoutDevicesTest {
    @Test
    void aKernelWithoutDevices(@TempDir Path folder) {
        assertThat(WithoutDevices.reason(folder))
                .contains("the kernel has none here", "rdma link add rxe0 type rxe");
        assertThat(WithoutDevices.reason(folder.resolve("no such folder")))
                .contains("the kernel has none here");
    }

    @Test
    void devicesThatThisProcessWasNotGiven(@TempDir Path folder) throws IOException {
        Files.createDirectory(folder.resolve("roce1"));
        Files.createDirectory(folder.resolve("roce0"));
        assertThat(WithoutDevices.reason(folder))
                .contains("the kernel has roce0, roce1, but", "--device /dev/infiniband/uverbs0");
    }
}
