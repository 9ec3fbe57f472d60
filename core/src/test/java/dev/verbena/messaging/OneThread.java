package dev.verbena.messaging;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.BufferList;
import dev.verbena.FakeAdapters;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.RemoteMemory;
import dev.verbena.internal.verbs.FakeDevice;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** Two connected channels over a device that does not exist; nothing happens but in this thread. */
final class OneThread implements AutoCloseable {
    static final OpFlags READ = OpFlags.ALLOW_REMOTE_READ;
    static final OpFlags WRITE = OpFlags.ALLOW_REMOTE_WRITE;
    static final Duration LONG = Duration.ofSeconds(30);
    static final MessagingOptions SMALL =
            MessagingOptions.DEFAULTS
                    .withMaxMessage(1000)
                    .withOutstanding(4)
                    .withReceives(4)
                    .withExposures(4);
    static final int SEND = 2; // opcodes
    static final int BIND = 8;
    static final int INVALIDATE = 7;
    private static final int MOST_ROUNDS = 100_000; // of polls

    final FakeDevice device = new FakeDevice();
    final Adapter adapter = FakeAdapters.open(device);
    private long time; // the pollers' clock, in nanoseconds: the test's, and a little at each look
    final Poller poller = poller();
    final Poller pollerOfB = poller();
    boolean hangs; // B polls no more
    boolean keeps; // A does not release what it gets
    final List<Message> kept = new ArrayList<>();
    final MessageChannel a;
    final MessageChannel b;
    final MemoryRegion region;
    final MemoryRegion other;
    final List<String> log = new ArrayList<>(); // of ends, at either side

    /** Two small ones; B's messages go nowhere. */
    static OneThread open() {
        return new OneThread(SMALL, (channel, message) -> {});
    }

    /** B's messages go to the handler; those of A are logged. */
    OneThread(MessagingOptions options, @Nullable MessageHandler ofB) {
        device.carriesBytes = true;
        region = poller.domain().allocate(1000, Access.LOCAL_WRITE);
        other = pollerOfB.domain().allocate(1000, Access.LOCAL_WRITE);
        a =
                new MessageChannel(
                        poller,
                        options,
                        (channel, message) -> {
                            log.add("a got " + text(message));
                            if (keeps) {
                                kept.add(message.retain());
                            }
                        });
        b = new MessageChannel(pollerOfB, options, ofB);
        ChannelsByHand.connect(a, b);
    }

    private Poller poller() {
        return new Poller(
                adapter,
                IdleStrategy.busySpin(),
                Thread.currentThread(),
                new PollerClock(() -> time += 1000));
    }

    /** Time passes, during which the pollers are polled every 50 ms. */
    void pass(Duration time) {
        pass(time, Duration.ofMillis(50));
    }

    /** Time passes, and the pollers are polled once in each interval of it. */
    void pass(Duration time, Duration interval) {
        for (long left = time.toNanos(); left > 0; left -= interval.toNanos()) {
            leap(interval);
            int ignored = poller.poll() + (hangs ? 0 : pollerOfB.poll());
        }
        run();
    }

    /** Time passes while nobody polls. */
    void leap(Duration time) {
        this.time += time.toNanos();
    }

    static MemorySegment text(String text) {
        return MemorySegment.ofArray(text.getBytes(StandardCharsets.UTF_8));
    }

    static String text(Message message) {
        return new String(message.data().toArray(ValueLayout.JAVA_BYTE), StandardCharsets.UTF_8);
    }

    /** Bytes of the region that is b's. */
    BufferList bytes(String text) {
        other.memory().copyFrom(text(text));
        return new BufferList(1).add(other, 0, text.length());
    }

    /** Begins a frame of B's own making, without credit reports: only its header is not 0. */
    void writeFrame(byte kind, int length, int notes) {
        other.memory().fill((byte) 0);
        Frame.write(other.memory(), 0, kind, new Credits(1), length, notes);
    }

    /** Sends it, with so many bytes behind its header, and polls A; the channel B knows nothing. */
    void sendFrame(int bytes) {
        hangs = true;
        BufferList frame = new BufferList(1).add(other, 0, Frame.HEADER_BYTES + bytes);
        b.pair.send(0, frame, OpFlags.SILENT_SUCCESS).orThrow();
        run();
    }

    /** Exposes the first bytes of a's memory; null if all exposures are in use. */
    @Nullable Exposure tryExpose(
            long length, OpFlags rights, ExposureCallback callback, @Nullable Object attachment) {
        return a.ownMemory().tryExpose(region, 0, length, rights, LONG, callback, attachment);
    }

    /** Exposes a's memory: its end is logged, with whether the device still honours the token. */
    Exposure expose(OpFlags rights, Duration within) {
        Exposure exposure =
                a.ownMemory()
                        .tryExpose(
                                region,
                                0,
                                region.bytes(),
                                rights,
                                within,
                                (ended, status, message) ->
                                        log.add(
                                                "%s%s%s%s"
                                                        .formatted(
                                                                ended.attachment() == null
                                                                        ? ""
                                                                        : ended.attachment() + " ",
                                                                status.name(),
                                                                message == null
                                                                        ? ""
                                                                        : " " + text(message),
                                                                device.honours(ended.token)
                                                                                || mayBeWritten()
                                                                        ? ", in use"
                                                                        : "")),
                                null);
        assertThat(exposure).isNotNull();
        return exposure;
    }

    /** A's channel has ended, and its queue pair is there. */
    private boolean mayBeWritten() {
        return !a.isOpen() && !device.destroys.contains("ibv_destroy_qp");
    }

    /** Sends what is exposed, so that b knows of it. */
    RemoteMemory announce(Exposure exposure) {
        RemoteMemory remote = exposure.remoteMemory();
        assertThat(a.trySend(text("exposed")).isSuccess()).isTrue();
        run();
        return remote;
    }

    SendCallback logged() {
        return (channel, attachment, status) -> log.add(attachment + " " + status.name());
    }

    /** Everything that was posted is carried out and polled. */
    void run() {
        int quiet = 0;
        for (int rounds = 0; quiet < 3; rounds++) {
            if (rounds == MOST_ROUNDS) {
                throw new AssertionError("The two do not come to rest");
            }
            int count = poller.poll() + (hangs ? 0 : pollerOfB.poll());
            quiet = count == 0 ? quiet + 1 : 0;
        }
    }

    /** How many frames of a kind a channel has posted. */
    long frames(MessageChannel by, byte kind) {
        return device.sends.stream()
                .filter(one -> one.queue() == by.pair.nativeHandle().address())
                .filter(one -> one.opcode() == SEND && one.message()[0] == kind)
                .count();
    }

    /** How many requests of this opcode were posted. */
    long posted(int opcode) {
        return device.sends.stream().filter(one -> one.opcode() == opcode).count();
    }

    @Override
    public void close() {
        poller.close();
        pollerOfB.close();
        region.close();
        other.close();
        adapter.close();
        assertThat(device.panics).isEmpty();
        assertThat(device.overruns).isZero();
        assertThat(device.objects()).as("native objects left").isZero();
        device.dispose();
    }
}
