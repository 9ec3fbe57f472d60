package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.Connector;
import dev.verbena.Listener;
import dev.verbena.VerbenaException;
import dev.verbena.examples.FileClient;
import dev.verbena.examples.FileServer;
import dev.verbena.examples.KeyValueClient;
import dev.verbena.examples.ManyQueues;
import dev.verbena.examples.nvme.TargetProgram;
import dev.verbena.messaging.FakeFabric;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.MessageChannel;
import dev.verbena.messaging.MessagingOptions;
import dev.verbena.messaging.Poller;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

import java.io.FileNotFoundException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** What the examples do when something fails; on a device that does not exist. */
@Timeout(120)
class ExampleFailuresTest {
    private static final int LONG = 60; // seconds

    @Test
    void theTargetSaysWhatIsWrongWithAFile(@TempDir Path folder) throws Exception {
        Path empty = Files.createFile(folder.resolve("empty"));
        String[][] wrong = {
            {folder.resolve("absent").toString(), "cannot be served (NoSuchFileException)"},
            {folder.toString(), "cannot be served (Is a directory)"},
            {empty.toString(), "has 0 bytes; a disk has a multiple of 512"}
        };
        for (String[] file : wrong) {
            Process target = ExamplesTest.start(TargetProgram.class, "--file", file[0]);
            assertThat(target.inputReader().readAllLines())
                    .singleElement()
                    .asString()
                    .startsWith(file[0] + " " + file[1]);
            assertThat(target.waitFor()).isOne();
        }
    }

    @Test
    void theTargetSaysWhatIsWrongWithoutAStackTrace() throws Exception {
        Process empty = ExamplesTest.start(TargetProgram.class, "--memory", "0");
        assertThat(empty.inputReader().readLine()).isEqualTo("--memory needs 1 MiB at least");
        assertThat(empty.waitFor()).isEqualTo(64);
        Process noDevice =
                ExamplesTest.start(TargetProgram.class, "--memory", "1", "--device", "none");
        assertThat(noDevice.inputReader().readAllLines())
                .singleElement()
                .asString()
                .contains("none");
        assertThat(noDevice.waitFor()).isOne();
        if (RdmaDevices.active().isEmpty()) {
            Process noneAtAll = ExamplesTest.start(TargetProgram.class, "--memory", "1");
            assertThat(noneAtAll.inputReader().readAllLines())
                    .singleElement()
                    .asString()
                    .startsWith("No RDMA device");
            assertThat(noneAtAll.waitFor()).isOne();
        }
    }

    @Test
    void aCallToAPortWhereNobodyListensFailsInTime() {
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                KeyValueClient client = new KeyValueClient(poller, FakeFabric.port(9))) {
            assertThatThrownBy(() -> client.get("key").get(LONG, TimeUnit.SECONDS))
                    .cause()
                    .isInstanceOf(TimeoutException.class)
                    .hasMessageMatching(".*\"key\".* no connection to .*:9 within 10 s");
        }
    }

    @Test
    void aFileThatCannotBeServedDoesNotEndTheChannel(@TempDir Path folder) throws Exception {
        Path served = Files.createDirectory(folder.resolve("served"));
        Files.createFile(served.resolve("empty"));
        Files.write(served.resolve("file"), new byte[5000]);
        Path copy = folder.resolve("copy");
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                FileServer server = new FileServer(poller, FakeFabric.port(0), served);
                MessageChannel channel =
                        MessageChannel.connect(
                                poller, server.localAddress(), MessagingOptions.DEFAULTS, null)) {
            for (String name : new String[] {"absent", "empty", "", "/", "..", "nul\0"}) {
                assertThatThrownBy(() -> FileClient.fetch(poller, channel, name, copy, 5000))
                        .as(name)
                        .isInstanceOf(FileNotFoundException.class)
                        .hasMessageContaining("Not served");
            }
            FileClient.fetch(poller, channel, "file", copy, 5000);
            assertThat(copy).hasSize(5000);
        }
    }

    @Test
    void nothingIsLeftOfARequestThatCannotBeAccepted() throws Exception {
        BlockingQueue<Connector> requests = new LinkedBlockingQueue<>();
        try (FakeFabric fabric = new FakeFabric(); // checks that nothing is left
                Listener listener = fabric.adapter.listen(FakeFabric.port(0), 0, requests::add);
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events())) {
            CompletableFuture<MessageChannel> refused =
                    MessageChannel.connectAsync(
                            poller, listener.localAddress(), MessagingOptions.DEFAULTS, null);
            Connector request = requests.take();
            request.reject(new byte[0]);
            requests.add(request);
            assertThatThrownBy(() -> ManyQueues.receive(fabric.adapter, requests, 1))
                    .isInstanceOf(VerbenaException.class);
            assertThat(refused).failsWithin(LONG, TimeUnit.SECONDS);
        }
    }
}
