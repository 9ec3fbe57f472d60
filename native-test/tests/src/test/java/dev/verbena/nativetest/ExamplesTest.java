package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.Adapter;
import dev.verbena.CompletionQueue;
import dev.verbena.ConnectionOptions;
import dev.verbena.Connector;
import dev.verbena.Listener;
import dev.verbena.ProtectionDomain;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;
import dev.verbena.VerbenaException;
import dev.verbena.examples.Echo;
import dev.verbena.examples.FileClient;
import dev.verbena.examples.FileReceiver;
import dev.verbena.examples.FileSender;
import dev.verbena.examples.FileServer;
import dev.verbena.examples.Hello;
import dev.verbena.examples.HelloMessages;
import dev.verbena.examples.KeyValueClient;
import dev.verbena.examples.KeyValueServer;
import dev.verbena.examples.ManyQueues;
import dev.verbena.examples.MessageEcho;
import dev.verbena.examples.Publisher;
import dev.verbena.examples.ThousandThreads;
import dev.verbena.examples.TwoPeers;
import dev.verbena.examples.WindowTransfer;
import dev.verbena.messaging.CallFailedException;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.MessageChannel;
import dev.verbena.messaging.MessageClient;
import dev.verbena.messaging.MessageServer;
import dev.verbena.messaging.MessagingException;
import dev.verbena.messaging.MessagingOptions;
import dev.verbena.messaging.Poller;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

import java.io.BufferedReader;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The programs that documentation quotes do what it says. */
@NeedsDevices
@Timeout(120)
class ExamplesTest {
    private static final Pattern LISTENING = Pattern.compile("Listening on \\S+:(\\d+)");
    private static final int TIMEOUT = 60; // seconds, for whatever another thread or process does

    private static InetSocketAddress anyPort(Adapter adapter) {
        return new InetSocketAddress(adapter.gid().gid().gid().toInetAddress(), 0);
    }

    @Test
    void echoSendsBackWhatEachClientSent() {
        List<String> active = RdmaDevices.active();
        try (Adapter there = Adapter.open(active.getFirst());
                Adapter here = Adapter.open(active.getLast());
                Listener listener = Echo.serve(there, anyPort(there))) {
            InetSocketAddress server = listener.localAddress();
            for (String text : List.of("Hello, RDMA", "", "x".repeat(4096))) {
                assertThat(Echo.ask(here, server, text)).isEqualTo(text);
            }
        }
    }

    @Test
    void channelsSendBackWhatEachClientSent() throws InterruptedException {
        List<String> active = RdmaDevices.active();
        try (Adapter there = Adapter.open(active.getFirst());
                Adapter here = Adapter.open(active.getLast());
                Poller far = Poller.start(there, IdleStrategy.events());
                Poller near = Poller.start(here, IdleStrategy.events());
                MessageServer server = MessageEcho.serve(far, anyPort(there))) {
            for (String text : List.of("Hello, RDMA", "", "x".repeat(4064))) {
                assertThat(MessageEcho.ask(near, server.localAddress(), text)).isEqualTo(text);
            }
        }
    }

    @Test
    void callsAreAnsweredWithValues() throws Exception {
        List<String> active = RdmaDevices.active();
        byte[] large = new byte[100_000];
        new Random(2).nextBytes(large);
        byte[] small = "value".getBytes(StandardCharsets.UTF_8);
        Map<String, byte[]> contents =
                Map.of(
                        "large",
                        large,
                        "small",
                        small,
                        "empty",
                        new byte[0],
                        "too large",
                        new byte[1 << 20]); // with a header
        try (Adapter there = Adapter.open(active.getFirst());
                Adapter here = Adapter.open(active.getLast());
                Poller far = Poller.start(there, IdleStrategy.events());
                Poller near = Poller.start(here, IdleStrategy.events());
                KeyValueServer server = new KeyValueServer(far, anyPort(there), contents);
                KeyValueClient client = new KeyValueClient(near, server.localAddress())) {
            for (int round = 0; round < 3; round++) {
                List<CompletableFuture<byte[]>> values = new ArrayList<>();
                for (int i = 0; i < 64; i++) { // more than there is room for
                    values.add(client.get(i % 2 == 0 ? "large" : "small"));
                }
                for (int i = 0; i < 64; i++) {
                    assertThat(values.get(i).get(TIMEOUT, TimeUnit.SECONDS))
                            .isEqualTo(i % 2 == 0 ? large : small);
                }
            }
            assertThatThrownBy(() -> client.get("nothing").get(TIMEOUT, TimeUnit.SECONDS))
                    .hasCauseInstanceOf(CallFailedException.class)
                    .hasMessageContaining("No value for nothing");
            assertThatThrownBy(() -> client.get("too large").get(TIMEOUT, TimeUnit.SECONDS))
                    .hasMessageContaining("longer than the 1,048,568");
            assertThat(client.get("empty").get(TIMEOUT, TimeUnit.SECONDS)).isEmpty();
            assertThat(client.get("small").get(TIMEOUT, TimeUnit.SECONDS)).isEqualTo(small);
        }
    }

    @Test
    void filesAreServedFromTheirMappings(@TempDir Path folder) throws Exception {
        byte[] bytes = new byte[(18 << 20) + 5]; // more than Soft-RoCE writes at a time
        new Random(1).nextBytes(bytes);
        Path served = Files.createDirectory(folder.resolve("served"));
        Files.write(served.resolve("file"), bytes);
        Path copy = folder.resolve("copy");
        List<String> active = RdmaDevices.active();
        try (Adapter there = Adapter.open(active.getFirst());
                Adapter here = Adapter.open(active.getLast());
                Poller far = Poller.start(there, IdleStrategy.events());
                Poller near = Poller.start(here, IdleStrategy.events());
                FileServer server = new FileServer(far, anyPort(there), served);
                MessageChannel channel =
                        MessageChannel.connect(
                                near, server.localAddress(), MessagingOptions.DEFAULTS, null)) {
            FileClient.fetch(near, channel, "file", copy, 32 << 20);
            assertThat(Files.mismatch(served.resolve("file"), copy)).isEqualTo(-1);
            Path none = folder.resolve("none");
            assertThatThrownBy(() -> FileClient.fetch(near, channel, "absent", none, 1000))
                    .isInstanceOf(FileNotFoundException.class)
                    .hasMessageContaining("Not served");
            assertThatThrownBy(() -> FileClient.fetch(near, channel, "../copy", none, 1000))
                    .isInstanceOf(FileNotFoundException.class);
            assertThatThrownBy(() -> FileClient.fetch(near, channel, "file", none, 1000))
                    .hasMessageContaining("not 1,000 at most");
            assertThat(none).doesNotExist();
            assertThatThrownBy(() -> FileClient.fetch(near, channel, "file", copy, 1000))
                    .isInstanceOf(FileAlreadyExistsException.class);
            assertThat(copy).hasSize(bytes.length);
        }
    }

    @Test
    void aThousandThreadsGetTheirAnswers() throws Exception {
        List<String> active = RdmaDevices.active();
        Duration timeout = Duration.ofSeconds(TIMEOUT);
        try (Adapter there = Adapter.open(active.getFirst());
                Adapter here = Adapter.open(active.getLast());
                Poller far = Poller.start(there, IdleStrategy.events());
                Poller near = Poller.start(here, IdleStrategy.events())) {
            MessageServer server = MessageEcho.serve(far, anyPort(there));
            try (ThousandThreads client = new ThousandThreads(near, server.localAddress());
                    ExecutorService threads = Executors.newVirtualThreadPerTaskExecutor()) {
                List<Future<String>> answers = new ArrayList<>();
                for (int i = 0; i < 1000; i++) {
                    String question = "question " + i;
                    answers.add(threads.submit(() -> client.ask(question, timeout)));
                }
                for (int i = 0; i < 1000; i++) {
                    assertThat(answers.get(i).get()).isEqualTo("question " + i);
                }
                server.close();
                assertThatThrownBy(() -> client.ask("anybody there?", timeout))
                        .isInstanceOf(MessagingException.class)
                        .hasMessageContaining("is closed");
            }
            try (MessageServer silent =
                            MessageServer.listen(
                                    far,
                                    anyPort(there),
                                    MessagingOptions.DEFAULTS,
                                    1,
                                    (channel, message) -> {},
                                    channel -> {});
                    ThousandThreads client = new ThousandThreads(near, silent.localAddress())) {
                assertThatThrownBy(() -> client.ask("anybody there?", Duration.ofMillis(50)))
                        .isInstanceOf(TimeoutException.class);
            }
        }
    }

    @Test
    void aSlowSubscriberHoldsUpNobodyAndComesBack() throws Exception {
        List<String> active = RdmaDevices.active();
        BlockingQueue<String> quickLines = new LinkedBlockingQueue<>();
        BlockingQueue<String> slowLines = new LinkedBlockingQueue<>();
        Semaphore joined = new Semaphore(0);
        CountDownLatch goesOn = new CountDownLatch(1);
        try (Adapter there = Adapter.open(active.getFirst());
                Adapter here = Adapter.open(active.getLast());
                Poller far = Poller.start(there, IdleStrategy.events());
                Poller near = Poller.start(here, IdleStrategy.events());
                Poller slow = Poller.start(here, IdleStrategy.events());
                Publisher publisher = new Publisher(far, anyPort(there));
                MessageClient quickOne =
                        Publisher.subscribe(
                                near, publisher.address(), quickLines::add, joined::release);
                MessageClient slowOne =
                        Publisher.subscribe(
                                slow,
                                publisher.address(),
                                line -> {
                                    slowLines.add(line);
                                    await(goesOn);
                                },
                                joined::release)) {
            assertThat(joined.tryAcquire(2, TIMEOUT, TimeUnit.SECONDS)).isTrue();
            awaitSubscribers(publisher);
            int published = 0;
            while (publisher.publish("line " + published) == 2) {
                assertThat(quickLines.poll(TIMEOUT, TimeUnit.SECONDS))
                        .isEqualTo("line " + published++);
            }
            assertThat(quickLines.poll(TIMEOUT, TimeUnit.SECONDS)).isEqualTo("line " + published);
            assertThat(published).as("lines that the slow one has room for").isEqualTo(16);
            goesOn.countDown(); // it sees that it was cut off, and connects again
            assertThat(joined.tryAcquire(TIMEOUT, TimeUnit.SECONDS)).isTrue();
            assertThat(slowOne.attempts()).isEqualTo(2);
            assertThat(quickOne.attempts()).isOne();
            awaitSubscribers(publisher);
            assertThat(publisher.publish("again")).isEqualTo(2);
            while (!"again".equals(slowLines.poll(TIMEOUT, TimeUnit.SECONDS))) {
                continue;
            }
        }
    }

    /** The server's side of a channel stands a bit later than the client's. */
    private static void awaitSubscribers(Publisher publisher) throws InterruptedException {
        while (publisher.subscriberCount() < 2) {
            Thread.sleep(1);
        }
    }

    private static void await(CountDownLatch latch) {
        try {
            assertThat(latch.await(TIMEOUT, TimeUnit.SECONDS)).isTrue();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    @Test
    void helloOfOneProcessArrivesAtTheOther() throws IOException, InterruptedException {
        String device = RdmaDevices.active().getFirst();
        String address = addressOf(device);
        Process receiver = start(Hello.class, device, address, "0");
        try (BufferedReader lines = receiver.inputReader()) {
            String port = portIn(lines.readLine());
            Hello.main(new String[] {RdmaDevices.active().getLast(), address, port, "Hello, RDMA"});
            assertThat(lines.readLine()).isEqualTo("Hello, RDMA");
            assertThat(lines.readLine()).isNull();
            assertThat(receiver.waitFor()).isZero();
        } finally {
            receiver.destroyForcibly();
        }
    }

    @Test
    void theProgramToStartWithGetsItsAnswer() throws IOException {
        String address = addressOf(RdmaDevices.active().getFirst());
        Process server = start(HelloMessages.class, "server", address, "0");
        try (BufferedReader lines = server.inputReader()) {
            String port = portIn(lines.readLine());
            for (String text : List.of("Hello, RDMA", "Hello again")) {
                Process client = start(HelloMessages.class, "client", address, port, text);
                try (BufferedReader answer = client.inputReader()) {
                    assertThat(answer.lines()).containsExactly(text);
                } finally {
                    client.destroyForcibly();
                }
                assertThat(lines.readLine()).startsWith("Connected: MessageChannel over ");
            }
        } finally {
            server.destroyForcibly();
        }
    }

    private static String addressOf(String device) {
        try (Adapter adapter = Adapter.open(device)) {
            return anyPort(adapter).getAddress().getHostAddress();
        }
    }

    /** Starts a program in a JVM of its own, which does not outlive the longest test. */
    static Process start(Class<?> program, String... arguments) throws IOException {
        List<String> command =
                new ArrayList<>(
                        List.of(
                                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                                "--enable-native-access=ALL-UNNAMED",
                                // A JVM that starts is late under emulation, and the peer waits.
                                "-XX:TieredStopAtLevel=1",
                                "-XX:+UseSerialGC",
                                "-cp",
                                System.getProperty("java.class.path"),
                                program.getName()));
        command.addAll(List.of(arguments));
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        CompletableFuture.delayedExecutor(2 * TIMEOUT, TimeUnit.SECONDS)
                .execute(process::destroyForcibly);
        return process;
    }

    private static String portIn(String line) {
        Matcher listening = LISTENING.matcher(line);
        assertThat(listening.matches()).as(line).isTrue();
        return listening.group(1);
    }

    @Test
    void aWindowIsFilledAndGivenBack() throws Exception {
        BlockingQueue<Connector> requests = new LinkedBlockingQueue<>();
        List<String> active = RdmaDevices.active();
        try (Adapter there = Adapter.open(active.getFirst());
                Adapter here = Adapter.open(active.getLast());
                Listener listener = there.listen(anyPort(there), 0, requests::add)) {
            String text = "0123456789".repeat(6_500);
            CompletableFuture<Void> filled =
                    CompletableFuture.runAsync(
                            () -> WindowTransfer.fill(here, listener.localAddress(), text));
            assertThat(WindowTransfer.lend(there, requests.take())).isEqualTo(text);
            filled.get(TIMEOUT, TimeUnit.SECONDS);
        }
    }

    @Test
    void aFileIsSentFromItsMapping(@TempDir Path folder) throws Exception {
        byte[] bytes = new byte[(18 << 20) + 5]; // more parts than are outstanding at a time
        new Random(1).nextBytes(bytes);
        Path file = Files.write(folder.resolve("file"), bytes);
        Path copy = folder.resolve("copy");
        transfer(file, copy, bytes.length, here -> address -> FileSender.send(here, file, address))
                .get(TIMEOUT, TimeUnit.SECONDS);
        assertThat(Files.mismatch(file, copy)).isEqualTo(-1);
    }

    @Test
    void aFileThatDoesNotArriveWholeIsDeletedAgain(@TempDir Path folder) throws Exception {
        Path file = Files.write(folder.resolve("file"), new byte[5000]);
        Path copy = folder.resolve("copy");
        assertThatThrownBy(
                        () ->
                                transfer(
                                        file,
                                        copy,
                                        4999,
                                        here -> address -> FileSender.send(here, file, address)))
                .hasMessageContaining("5,000 bytes is not accepted");
        assertThat(copy).doesNotExist();
        // A sender that leaves in the middle.
        assertThatThrownBy(
                        () -> transfer(file, copy, 5000, here -> address -> leave(here, address)))
                .isInstanceOf(VerbenaException.class);
        assertThat(copy).doesNotExist();
        // A name that is taken is another's file.
        Files.write(copy, new byte[1]);
        assertThatThrownBy(
                        () ->
                                transfer(
                                        file,
                                        copy,
                                        5000,
                                        here -> address -> FileSender.send(here, file, address)))
                .isInstanceOf(FileAlreadyExistsException.class);
        assertThat(copy).hasSize(1);
    }

    private interface Sender {
        void send(InetSocketAddress address) throws IOException;
    }

    /** Receives a file; returns the end of the sender. */
    private static CompletableFuture<Void> transfer(
            Path file, Path copy, long most, Function<Adapter, Sender> sender) throws Exception {
        BlockingQueue<Connector> requests = new LinkedBlockingQueue<>();
        List<String> active = RdmaDevices.active();
        try (Adapter there = Adapter.open(active.getFirst());
                Adapter here = Adapter.open(active.getLast());
                Listener listener = there.listen(anyPort(there), 0, requests::add)) {
            CompletableFuture<Void> sent =
                    CompletableFuture.runAsync(
                            () -> {
                                try {
                                    sender.apply(here).send(listener.localAddress());
                                } catch (IOException e) {
                                    throw new UncheckedIOException(e);
                                }
                            });
            try {
                Connector request = requests.poll(TIMEOUT, TimeUnit.SECONDS);
                if (request == null) {
                    throw new AssertionError("no request", sent.exceptionNow());
                }
                FileReceiver.receive(there, request, copy, most, Duration.ofSeconds(TIMEOUT));
            } finally {
                sent.handle((nothing, thrown) -> thrown).get(TIMEOUT, TimeUnit.SECONDS);
            }
            return sent;
        }
    }

    private static void leave(Adapter here, InetSocketAddress address) {
        try (ProtectionDomain domain = here.createProtectionDomain();
                CompletionQueue queue = here.createCompletionQueue(2);
                QueuePair pair =
                        domain.createQueuePair(queue, queue, QueuePairLimits.depths(1, 1));
                Connector connector = here.createConnector()) {
            byte[] size = ByteBuffer.allocate(Long.BYTES).putLong(5000).array();
            connector.connect(pair, address, ConnectionOptions.DEFAULTS.withPrivateData(size));
            connector.completeConnect();
        }
    }

    @Test
    void twoPeersShareAReceiveQueue() throws Exception {
        BlockingQueue<Connector> requests = new LinkedBlockingQueue<>();
        List<String> active = RdmaDevices.active();
        try (Adapter there = Adapter.open(active.getFirst());
                Listener listener = there.listen(anyPort(there), 0, requests::add)) {
            InetSocketAddress address = listener.localAddress();
            CompletableFuture<Void> one = hello(active.getLast(), address, "one");
            CompletableFuture<Void> two = hello(active.getLast(), address, "two");
            assertThat(TwoPeers.receive(there, requests)).containsExactlyInAnyOrder("one", "two");
            CompletableFuture.allOf(one, two).get(TIMEOUT, TimeUnit.SECONDS);
        }
    }

    @Test
    void oneThreadWaitsForTheQueuesOfThreePeers() throws Exception {
        BlockingQueue<Connector> requests = new LinkedBlockingQueue<>();
        List<String> active = RdmaDevices.active();
        try (Adapter there = Adapter.open(active.getFirst());
                Listener listener = there.listen(anyPort(there), 0, requests::add)) {
            InetSocketAddress address = listener.localAddress();
            List<String> texts = List.of("one", "two", "three");
            List<CompletableFuture<Void>> sent =
                    texts.stream().map(text -> hello(active.getLast(), address, text)).toList();
            assertThat(ManyQueues.receive(there, requests, texts.size()))
                    .containsExactlyInAnyOrderElementsOf(texts);
            CompletableFuture.allOf(sent.toArray(CompletableFuture[]::new))
                    .get(TIMEOUT, TimeUnit.SECONDS);
        }
    }

    private static CompletableFuture<Void> hello(
            String device, InetSocketAddress receiver, String text) {
        String address = receiver.getAddress().getHostAddress();
        String port = Integer.toString(receiver.getPort());
        CompletableFuture<Void> done = new CompletableFuture<>();
        Thread.ofPlatform()
                .daemon()
                .start(
                        () -> {
                            try {
                                Hello.main(new String[] {device, address, port, text});
                                done.complete(null);
                            } catch (Throwable t) {
                                done.completeExceptionally(t);
                            }
                        });
        return done;
    }
}
