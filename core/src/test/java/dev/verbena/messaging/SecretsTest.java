package dev.verbena.messaging;

import static dev.verbena.messaging.FakeFabric.port;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Access;
import dev.verbena.BufferList;
import dev.verbena.ConnectionData;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.QueuePairLimits;
import dev.verbena.RemoteMemory;
import dev.verbena.internal.events.FlightRecording;
import dev.verbena.trust.Trust;

import jdk.jfr.Name;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;

import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;

/**
 * No bytes of messages, of private data or of memory, and no whole remote key, in any log,
 * exception, text of an object or recording: recognizable ones are planted in all of them, whatever
 * can be made to fail fails, and then everything that was written is searched for them.
 */
@Tag("trust")
@Timeout(120)
class SecretsTest {
    private static final String SECRET = "PlantedSecret";
    private static final byte[] PLANTED = SECRET.getBytes(StandardCharsets.US_ASCII);
    private static final Duration LONG = Duration.ofSeconds(30);
    private static final int PORT = 7471;
    private static final int MAGIC_OF_DATA = 4;

    @TempDir Path folder;

    private final Set<Integer> tokens = Collections.synchronizedSet(new HashSet<>());
    private final List<String> texts = Collections.synchronizedList(new ArrayList<>());
    private int found;
    private boolean answered; // by the poller

    /** Keeps all that is logged, with the stack traces. */
    private final Handler log =
            new Handler() {
                @Override
                public void publish(LogRecord entry) {
                    texts.add(String.valueOf(entry.getMessage()));
                    keep(entry.getThrown());
                }

                @Override
                public void flush() {}

                @Override
                public void close() {}
            };

    private void keep(@Nullable Throwable thrown) {
        if (thrown != null) {
            StringWriter text = new StringWriter();
            thrown.printStackTrace(new PrintWriter(text));
            texts.add(text.toString());
        }
    }

    private void keep(Object... objects) {
        for (Object object : objects) {
            texts.add(String.valueOf(object));
        }
    }

    @Test
    void nothingThatIsWrittenHasSecrets() throws Exception {
        Trust.Row row = Trust.row("Secrets in logs, exceptions, texts and recordings");
        Path file = folder.resolve("all.jfr");
        Logger logger = Logger.getLogger("dev.verbena");
        logger.setLevel(Level.ALL);
        logger.addHandler(log);
        try (Recording recording = new Recording()) {
            for (Class<?> event : FlightRecording.class.getDeclaredClasses()) {
                Name name = event.getAnnotation(Name.class);
                if (name != null) {
                    recording.enable(name.value()).withThreshold(Duration.ZERO);
                }
            }
            recording.start();
            useChannels();
            useARawConnection();
            recording.stop();
            recording.dump(file);
        } finally {
            logger.removeHandler(log);
        }
        List<RecordedEvent> events = RecordingFile.readAllEvents(file);
        events.forEach(event -> texts.add(event.toString()));
        assertThat(events)
                .extracting(event -> event.getEventType().getName())
                .contains("dev.verbena.WindowBound", "dev.verbena.WindowInvalidated");
        assertThat(tokens).isNotEmpty();
        assertThat(texts).hasSizeGreaterThan(30);
        search(Files.readAllBytes(file));
        row.inputs(texts.size()).losses(found).write();
        assertThat(found).isZero();
    }

    private void useChannels() throws Exception {
        MessagingOptions options = MessagingOptions.DEFAULTS.withMaxMessage(10_000);
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                MessageServer server =
                        MessageServer.listen(
                                poller, port(PORT), options, 1, this::answer, channel -> {});
                MessageChannel channel = MessageChannel.connect(poller, port(PORT), options, null);
                MemoryRegion region = poller.domain().allocate(4096, Access.LOCAL_WRITE)) {
            region.memory().asSlice(0, PLANTED.length).copyFrom(MemorySegment.ofArray(PLANTED));
            Exposure exposure =
                    channel.ownMemory().expose(region, OpFlags.ALLOW_REMOTE_WRITE, LONG);
            RemoteMemory exposed = exposure.remoteMemory();
            tokens.add(exposed.token());
            channel.send(message(exposed), LONG);
            try (Message answer = channel.receive(LONG)) {
                keep(answer, answer.data());
            }
            try (MessageChannel second =
                    MessageChannel.connect(poller, port(PORT), options, null)) {
                keep(second);
            } catch (MessagingException refused) {
                keep(refused);
            }
            fails(channel.peerMemory().writeAsync(list(region), foreign(exposed)));
            keep(exposure, exposed, channel, channel.counters(), poller, poller.counters());
            keep(server, region, list(region), options, poller.domain(), fabric.adapter);
            keep(fabric.adapter.connections(), fabric.adapter.connectionCounters());
            CompletableFuture<Message> returned = exposure.returned();
            channel.send(message(exposed), LONG); // the server fails, with a secret outstanding
            channel.closed().join();
            keep(channel.closeReason());
            fails(returned);
            try {
                channel.send(message(exposed), LONG);
            } catch (MessagingException closed) {
                keep(closed);
            }
        }
    }

    /** By the server: answers the first message, and fails at the second, which is logged. */
    private void answer(MessageChannel channel, Message message) {
        RemoteMemory exposed = RemoteMemory.readFrom(message.data(), PLANTED.length);
        tokens.add(exposed.token());
        keep(message, exposed, channel);
        if (answered) {
            throw new IllegalStateException("The handler fails");
        }
        answered = true;
        byte[] answer = message.data().toArray(ValueLayout.JAVA_BYTE);
        // It waits if the message came before the connection was established on this side.
        var _ = channel.sendAsync(MemorySegment.ofArray(answer));
    }

    /** Private data, of the request and the answer, and a connection that a request ends. */
    private void useARawConnection() {
        RawHandler handler =
                new RawHandler() {
                    @Override
                    public void received(RawConnection connection, RawMessage message) {
                        keep(connection, message);
                        var _ = message.repost();
                    }

                    @Override
                    public void ended(RawConnection connection, MessagingException reason) {
                        keep(reason);
                    }
                };
        ConnectionData data = new ConnectionData(new byte[MAGIC_OF_DATA], false, false, 0, 0);
        keep(data);
        ConnectionData planted = new ConnectionData(PLANTED, true, true, 1, 1);
        keep(planted);
        keep(new Handshake(1, 1, 1, 1, 1, true));
        try (OneThread two = OneThread.open();
                RawConnection connection =
                        RawConnection.create(
                                two.poller, QueuePairLimits.depths(4, 4), 64, null, handler)) {
            keep(connection);
            tokens.add(two.expose(OneThread.WRITE, LONG).token);
            two.b
                    .pair
                    .sendAndInvalidate(0, two.bytes(SECRET), 0x5EC2_E7AA, OpFlags.SILENT_SUCCESS)
                    .orThrow();
            tokens.add(0x5EC2_E7AA);
            two.run();
            keep(two.a.closeReason());
            connection.abort("the end");
            two.run();
        }
    }

    private void fails(CompletableFuture<?> future) throws InterruptedException {
        try {
            future.get();
        } catch (ExecutionException e) {
            keep(e);
        }
    }

    private static MemorySegment message(RemoteMemory exposed) {
        MemorySegment message =
                MemorySegment.ofArray(new byte[PLANTED.length + RemoteMemory.MESSAGE_BYTES]);
        message.copyFrom(MemorySegment.ofArray(PLANTED));
        exposed.writeTo(message, PLANTED.length);
        return message;
    }

    private RemoteMemory foreign(RemoteMemory exposed) {
        tokens.add(exposed.token() ^ 0x0F0F);
        return new RemoteMemory(exposed.address(), exposed.token() ^ 0x0F0F, exposed.bytes());
    }

    private static BufferList list(MemoryRegion region) {
        return new BufferList(1).add(region, 0, 64);
    }

    /** In texts as a text, in hexadecimal and as an array; in the recording's bytes as they are. */
    private void search(byte[] recording) throws IOException {
        List<String> wanted = new ArrayList<>(List.of(SECRET, hex(PLANTED), "80, 108, 97, 110"));
        for (int token : tokens) {
            wanted.add("%08x".formatted(token));
            wanted.add(String.valueOf(token));
            wanted.add(Integer.toUnsignedString(token));
        }
        for (String text : texts) {
            String lower = text.toLowerCase(Locale.ROOT);
            for (String one : wanted) {
                if (lower.contains(one.toLowerCase(Locale.ROOT))) {
                    found++;
                    System.err.println("A secret, " + one + ", is in: " + text);
                }
            }
        }
        String bytes = new String(recording, StandardCharsets.ISO_8859_1);
        found += bytes.contains(SECRET) ? 1 : 0;
    }

    private static String hex(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        for (byte one : bytes) {
            text.append("%02x".formatted(one));
        }
        return text.toString();
    }
}
