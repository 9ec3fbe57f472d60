package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;

import dev.verbena.internal.verbs.FakeDevice;
import dev.verbena.internal.verbs.PostedRequest;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HexFormat;
import java.util.function.Supplier;

/**
 * The bytes of the {@code ibv_send_wr} that each operation posts: offsets and numbers are written
 * down here once more, as the C headers have them on a 64-bit machine.
 */
class WorkRequestTest {
    private static final int FENCE = 1;
    private static final int SIGNALED = 2;
    private static final int SOLICITED = 4;
    private static final int INLINE = 8;
    private static final long CONTEXT = 0x1122_3344_5566_7788L;

    private final Rig rig =
            Rig.connected(QueuePairLimits.depths(64, 4).withBuffers(4, 2).withInlineBytes(64));
    private final BufferList two =
            new BufferList(2).add(rig.memory, 16, 8).add(rig.memory, 100, 0x20);

    @AfterEach
    void close() {
        rig.close();
    }

    /** The request of a post, and what it should be but for id and buffers. */
    private void expect(Status answer, int opcode, int flags, FieldWriter fields) {
        assertThat(answer).isEqualTo(Status.SUCCESS);
        PostedRequest posted = rig.device.sends.getLast();
        ByteBuffer actual = ByteBuffer.wrap(posted.request()).order(ByteOrder.nativeOrder());
        ByteBuffer expected = ByteBuffer.allocate(128).order(ByteOrder.nativeOrder());
        expected.putLong(0, actual.getLong(0)); // wr_id: this layer's own affair
        expected.putLong(16, actual.getLong(16)); // sg_list: looked at below
        expected.putInt(24, posted.sges().length / 16);
        expected.putInt(28, opcode);
        expected.putInt(32, flags);
        fields.write(expected);
        assertThat(hex(posted.request())).isEqualTo(hex(expected.array()));
    }

    private interface FieldWriter {
        void write(ByteBuffer request);
    }

    private void expectTwoBuffers() {
        ByteBuffer list = ByteBuffer.allocate(32).order(ByteOrder.nativeOrder());
        long base = rig.memory.memory().address();
        list.putLong(base + 16).putInt(8).putInt(rig.memory.localToken());
        list.putLong(base + 100).putInt(0x20).putInt(rig.memory.localToken());
        assertThat(hex(rig.device.sends.getLast().sges())).isEqualTo(hex(list.array()));
    }

    @ParameterizedTest
    @CsvSource({
        "0x000, 2", // SIGNALED
        "0x001, 0", // SILENT_SUCCESS
        "0x002, 3", // READ_FENCE
        "0x004, 6", // SEND_AND_SOLICIT_EVENT
        "0x007, 5",
    })
    void send(String flags, int verbs) {
        expect(
                rig.a.send(CONTEXT, two, OpFlags.ofValue(Integer.decode(flags))).status(),
                2,
                verbs,
                request -> {});
        expectTwoBuffers();
    }

    @Test
    void aFlagThatItDoesNotTakeIsNamedAlsoWhereTheQueueIsFull() {
        while (rig.a.send(CONTEXT, two, OpFlags.NONE).isAccepted()) {
            continue;
        }
        assertThat(rig.a.send(CONTEXT, two, OpFlags.NONE)).isEqualTo(PostResult.FULL);
        assertThat(rig.a.send(CONTEXT, two, OpFlags.ALLOW_REMOTE_READ))
                .isEqualTo(PostResult.UNKNOWN_FLAG);
    }

    @Test
    void anEmptySend() {
        expect(rig.a.send(CONTEXT, new BufferList(1)).status(), 2, SIGNALED, request -> {});
        assertThat(rig.device.sends.getLast().sges()).isEmpty();
    }

    @Test
    void sendAndInvalidate() {
        for (OpFlags extra :
                new OpFlags[] {OpFlags.NONE, OpFlags.READ_FENCE, OpFlags.SEND_AND_SOLICIT_EVENT}) {
            int verbs =
                    SIGNALED
                            | (extra == OpFlags.READ_FENCE ? FENCE : 0)
                            | (extra == OpFlags.SEND_AND_SOLICIT_EVENT ? SOLICITED : 0);
            expect(
                    rig.a.sendAndInvalidate(CONTEXT, two, 0xFEDC_BA98, extra).status(),
                    9,
                    verbs,
                    request -> request.putInt(36, 0xFEDC_BA98)); // invalidate_rkey, host order
            expectTwoBuffers();
        }
    }

    @Test
    void write() {
        expect(
                rig.a.write(CONTEXT, two, Rig.REMOTE + 5, Rig.TOKEN, OpFlags.READ_FENCE).status(),
                0,
                SIGNALED | FENCE,
                request -> request.putLong(40, Rig.REMOTE + 5).putInt(48, Rig.TOKEN));
        expectTwoBuffers();
    }

    @Test
    void read() {
        expect(
                rig.a
                        .read(
                                CONTEXT,
                                two,
                                Rig.REMOTE,
                                Rig.TOKEN,
                                OpFlags.RDMA_READ_LOCAL_INVALIDATE)
                        .status(),
                4,
                SIGNALED,
                request -> request.putLong(40, Rig.REMOTE).putInt(48, Rig.TOKEN));
        expectTwoBuffers();
    }

    @Test
    void sendWithImmediate() {
        expect(
                rig.a
                        .sendWithImmediate(
                                CONTEXT, two, 0x0102_0304, OpFlags.SEND_AND_SOLICIT_EVENT)
                        .status(),
                3,
                SIGNALED | SOLICITED,
                request -> request.put(36, new byte[] {1, 2, 3, 4})); // network order
    }

    @Test
    void writeWithImmediate() {
        expect(
                rig.a
                        .writeWithImmediate(
                                CONTEXT, two, Rig.REMOTE, Rig.TOKEN, 0x0102_0304, OpFlags.NONE)
                        .status(),
                1,
                SIGNALED,
                request ->
                        request.put(36, new byte[] {1, 2, 3, 4})
                                .putLong(40, Rig.REMOTE)
                                .putInt(48, Rig.TOKEN));
    }

    @Test
    void compareAndSwap() {
        expect(
                rig.a
                        .compareAndSwap(
                                CONTEXT, rig.bytes(8), Rig.REMOTE, Rig.TOKEN, 7, -9, OpFlags.NONE)
                        .status(),
                5,
                SIGNALED,
                request ->
                        request.putLong(40, Rig.REMOTE)
                                .putLong(48, 7)
                                .putLong(56, -9)
                                .putInt(64, Rig.TOKEN));
    }

    @Test
    void fetchAndAdd() {
        expect(
                rig.a
                        .fetchAndAdd(CONTEXT, rig.bytes(8), Rig.REMOTE, Rig.TOKEN, -1, OpFlags.NONE)
                        .status(),
                6,
                SIGNALED,
                request -> request.putLong(40, Rig.REMOTE).putLong(48, -1).putInt(64, Rig.TOKEN));
    }

    @Test
    void bindAndInvalidate() {
        try (MemoryWindow window = rig.domain.createMemoryWindow()) {
            int before = window.remoteToken();
            Status bound =
                    rig.a
                            .bind(
                                    CONTEXT,
                                    window,
                                    rig.memory,
                                    64,
                                    1000,
                                    OpFlags.ALLOW_REMOTE_READ.and(OpFlags.ALLOW_REMOTE_WRITE))
                            .status();
            int token = before & ~0xFF | before + 1 & 0xFF;
            assertThat(window.remoteToken()).isEqualTo(token);
            expect(
                    bound,
                    8,
                    SIGNALED,
                    request -> {
                        ByteBuffer posted =
                                ByteBuffer.wrap(rig.device.sends.getLast().request())
                                        .order(ByteOrder.nativeOrder());
                        assertThat(posted.getLong(80)).isNotZero();
                        assertThat(posted.getLong(96)).isNotZero();
                        request.putLong(80, posted.getLong(80)) // mw
                                .putInt(88, token)
                                .putLong(96, posted.getLong(96)) // mr
                                .putLong(104, rig.memory.memory().address() + 64)
                                .putLong(112, 1000)
                                .putInt(120, 2 | 4); // REMOTE_WRITE, REMOTE_READ
                    });
            expect(
                    rig.a.invalidate(CONTEXT, window, OpFlags.READ_FENCE).status(),
                    7,
                    SIGNALED | FENCE,
                    request -> request.putInt(36, token));
        }
    }

    @ParameterizedTest
    @CsvSource({
        "0x00, 0", "0x08, 4", // ALLOW_REMOTE_READ, IBV_ACCESS_REMOTE_READ
        "0x30, 2", // ALLOW_REMOTE_WRITE, IBV_ACCESS_REMOTE_WRITE
        "0x38, 6",
    })
    void aWindowGrantsWhatWasAskedForAndNoMore(String flags, int rights) {
        try (MemoryWindow window = rig.domain.createMemoryWindow()) {
            OpFlags asked = OpFlags.ofValue(Integer.decode(flags));
            rig.a.bind(CONTEXT, window, rig.memory, 0, 8, asked).orThrow();
            byte[] posted = rig.device.sends.getLast().request();
            ByteBuffer request = ByteBuffer.wrap(posted).order(ByteOrder.nativeOrder());
            assertThat(request.getInt(120)).isEqualTo(rights);
        }
    }

    @Test
    void aReceive() {
        assertThat(rig.a.receive(CONTEXT, two).status()).isEqualTo(Status.SUCCESS);
        PostedRequest posted = rig.device.receives.getLast();
        ByteBuffer actual = ByteBuffer.wrap(posted.request()).order(ByteOrder.nativeOrder());
        ByteBuffer expected = ByteBuffer.allocate(32).order(ByteOrder.nativeOrder());
        expected.putLong(0, actual.getLong(0)).putLong(16, actual.getLong(16)).putInt(24, 2);
        assertThat(hex(posted.request())).isEqualTo(hex(expected.array()));
    }

    @Test
    void anInlineRequestOfFewBuffersIsGatheredIntoOne() {
        fill(rig.memory.memory());
        expect(
                rig.a.send(CONTEXT, two, OpFlags.INLINE).status(),
                2,
                SIGNALED | INLINE,
                request -> {});
        PostedRequest posted = rig.device.sends.getLast();
        assertThat(posted.sges()).hasSize(16);
        byte[] expected = new byte[8 + 0x20];
        MemorySegment.copy(rig.memory.memory(), JAVA_BYTE, 16, expected, 0, 8);
        MemorySegment.copy(rig.memory.memory(), JAVA_BYTE, 100, expected, 8, 0x20);
        assertThat(posted.inline()).isEqualTo(expected);
        long address = ByteBuffer.wrap(posted.sges()).order(ByteOrder.nativeOrder()).getLong(0);
        assertThat(address - rig.memory.memory().address())
                .as("a copy, not in the caller's memory")
                .satisfiesAnyOf(
                        offset -> assertThat(offset).isNegative(),
                        offset -> assertThat(offset).isGreaterThanOrEqualTo(4096));
    }

    @Test
    void anInlineRequestOfManyBuffersIsGatheredIntoOne() {
        fill(rig.memory.memory());
        BufferList many = new BufferList(8);
        for (int i = 0; i < 7; i++) {
            many.add(rig.memory, i * 10L, 3);
        }
        MemorySegment unregistered = rig.arena.allocate(4);
        unregistered.set(java.lang.foreign.ValueLayout.JAVA_INT, 0, 0x5A5A_5A5A);
        many.addUnregistered(unregistered);
        expect(
                rig.a.write(CONTEXT, many, Rig.REMOTE, Rig.TOKEN, OpFlags.INLINE).status(),
                0,
                SIGNALED | INLINE,
                request -> request.putLong(40, Rig.REMOTE).putInt(48, Rig.TOKEN));
        PostedRequest posted = rig.device.sends.getLast();
        assertThat(posted.sges()).hasSize(16);
        assertThat(hex(posted.inline()))
                .isEqualTo(
                        "00 01 02 0a 0b 0c 14 15 16 1e 1f 20 28 29 2a 32 33 34 3c 3d 3e 5a 5a 5a 5a");
        assertThat(ByteBuffer.wrap(posted.sges()).getInt(12)).isZero(); // no token
    }

    @Test
    void anInlineRequestWithoutBytesIsAnOrdinaryOne() {
        expect(
                rig.a.send(CONTEXT, rig.bytes(0), OpFlags.INLINE).status(),
                2,
                SIGNALED,
                request -> request.putInt(24, 0).putLong(16, 0));
    }

    @Test
    void aRequestKeepsNothingOfTheOneBefore() {
        compareAndSwap();
        bindAndInvalidate();
        writeWithImmediate();
        expect(rig.a.send(CONTEXT, new BufferList(1)).status(), 2, SIGNALED, request -> {});
    }

    @Test
    void siwTakesTheInvalidatedTokenFromAnotherField() {
        try (Rig siw =
                new Rig(
                                QueuePairLimits.depths(4, 4),
                                device -> device.vendorId = FakeDevice.SIW,
                                null)
                        .connect()) {
            siw.a.sendAndInvalidate(1, siw.bytes(8), 0x8000_0001, OpFlags.NONE).orThrow();
            ByteBuffer posted =
                    ByteBuffer.wrap(siw.device.sends.getLast().request())
                            .order(ByteOrder.nativeOrder());
            assertThat(posted.getInt(36)).isEqualTo(0x8000_0001);
            assertThat(posted.getInt(48)).isEqualTo(0x8000_0001);
        }
    }

    @Test
    void flagsThatAnOperationDoesNotKnowAreRefused() {
        int every = 0x3FF;
        refused(every & ~0x247, flags -> rig.a.send(1, two, flags).status());
        refused(every & ~0x247, flags -> rig.a.sendAndInvalidate(1, two, 1, flags).status());
        refused(every & ~0x247, flags -> rig.a.sendWithImmediate(1, two, 1, flags).status());
        refused(every & ~0x247, flags -> rig.a.writeWithImmediate(1, two, 1, 1, 1, flags).status());
        refused(every & ~0x243, flags -> rig.a.write(1, two, 1, 1, flags).status());
        refused(every & ~0x303, flags -> rig.a.read(1, two, 1, 1, flags).status());
        refused(
                every & ~0x203,
                flags -> rig.a.fetchAndAdd(1, rig.bytes(8), 8, 1, 1, flags).status());
        refused(
                every & ~0x203,
                flags -> rig.a.compareAndSwap(1, rig.bytes(8), 8, 1, 1, 1, flags).status());
        try (MemoryWindow window = rig.domain.createMemoryWindow()) {
            // 0x10 and 0x20 are halves of ALLOW_REMOTE_WRITE
            refused(
                    every & ~0x20B,
                    flags -> rig.a.bind(1, window, rig.memory, 0, 8, flags).status());
            refused(every & ~0x203, flags -> rig.a.invalidate(1, window, flags).status());
        }
        assertThat(rig.device.sends).isEmpty();
        assertThat(rig.a.send(1, two, OpFlags.RDMA_READ_SINK).status())
                .isEqualTo(Status.INVALID_PARAMETER);
    }

    private interface Post {
        Status with(OpFlags flags);
    }

    private static void refused(int flags, Post post) {
        for (int flag = 1; flag <= flags; flag <<= 1) {
            if ((flags & flag) != 0) {
                assertThat(post.with(OpFlags.ofValue(flag)))
                        .as("flag 0x%x", flag)
                        .isEqualTo(Status.INVALID_PARAMETER);
            }
        }
    }

    @Test
    void whatIsBeyondALimitIsRefusedAndLeavesNoTrace() {
        BufferList five = new BufferList(5);
        for (int i = 0; i < 5; i++) {
            five.add(rig.memory, 0, 1);
        }
        BufferList three =
                new BufferList(3).add(rig.memory, 0, 1).add(rig.memory, 0, 1).add(rig.memory, 0, 1);
        BufferList unregistered = new BufferList(1).addUnregistered(rig.arena.allocate(4));
        try (MemoryRegion readOnly = rig.domain.register(rig.arena.allocate(8))) {
            BufferList notWritable = new BufferList(1).add(readOnly, 0, 8);
            check(Status.INVALID_PARAMETER, () -> rig.a.send(1, five));
            check(Status.INVALID_PARAMETER, () -> rig.a.send(1, rig.bytes(65), OpFlags.INLINE));
            check(Status.INVALID_PARAMETER, () -> rig.a.receive(1, three));
            // The device reads into four buffers at most, of eight.
            check(Status.INVALID_PARAMETER, () -> rig.a.read(1, five, 0, 0, OpFlags.NONE));
            check(Status.ACCESS_VIOLATION, () -> rig.a.send(1, unregistered));
            check(Status.ACCESS_VIOLATION, () -> rig.a.receive(1, unregistered));
            check(Status.ACCESS_VIOLATION, () -> rig.a.receive(1, notWritable));
            check(Status.ACCESS_VIOLATION, () -> rig.a.read(1, notWritable, 0, 0, OpFlags.NONE));
            check(
                    Status.ACCESS_VIOLATION,
                    () -> rig.a.fetchAndAdd(1, notWritable, 0, 0, 0, OpFlags.NONE));
            check(
                    Status.INVALID_PARAMETER,
                    () -> rig.a.fetchAndAdd(1, rig.bytes(4), 0, 0, 0, OpFlags.NONE));
            check(
                    Status.INVALID_PARAMETER,
                    () -> rig.a.compareAndSwap(1, two, 0, 0, 0, 0, OpFlags.NONE));
            BufferList eight = rig.bytes(8);
            check(
                    Status.INVALID_PARAMETER,
                    () -> rig.a.compareAndSwap(1, eight, 12, 0, 0, 0, OpFlags.NONE));
            check(
                    Status.INVALID_PARAMETER,
                    () -> rig.a.fetchAndAdd(1, eight, 7, 0, 0, OpFlags.NONE));
        }
        assertThat(rig.device.sends).isEmpty();
        assertThat(rig.device.receives).isEmpty();
        assertThat(rig.poll()).isEmpty();
    }

    private static void check(Status expected, Supplier<PostResult> post) {
        assertThat(post.get().status()).isEqualTo(expected);
    }

    @Test
    void memoryOfAnotherDomainIsRefused() {
        try (ProtectionDomain other = rig.adapter.createProtectionDomain();
                MemoryRegion foreign = other.register(rig.arena.allocate(8), Access.LOCAL_WRITE)) {
            BufferList one = new BufferList(2).add(foreign, 0, 8);
            check(Status.INVALID_PARAMETER_MIX, () -> rig.a.send(1, one));
            check(Status.INVALID_PARAMETER_MIX, () -> rig.a.receive(1, one));
            one.clear().add(rig.memory, 0, 8).add(foreign, 0, 8);
            check(Status.INVALID_PARAMETER_MIX, () -> rig.a.send(1, one));
            check(Status.SUCCESS, () -> rig.a.send(1, one, OpFlags.INLINE)); // needs no token
            one.clear().add(rig.memory, 0, 8);
            check(Status.SUCCESS, () -> rig.a.send(2, one));
        }
    }

    @Test
    void inlineBytesThatAreGoneAreNotRead() {
        java.lang.foreign.Arena gone = java.lang.foreign.Arena.ofConfined();
        BufferList list = new BufferList(1).addUnregistered(gone.allocate(4));
        gone.close();
        assertThat(rig.a.send(1, list, OpFlags.INLINE).status()).isEqualTo(Status.ACCESS_VIOLATION);
    }

    @Test
    void whatADeviceOrAPeerCannotDoIsNotSupported() {
        try (Rig plain =
                new Rig(
                        QueuePairLimits.depths(4, 4).withReads(0, 4),
                        device -> {
                            device.windows = false;
                            device.atomics = false;
                        },
                        null)) {
            plain.connect();
            BufferList eight = plain.bytes(8);
            assertThat(plain.a.sendAndInvalidate(1, eight, 1, OpFlags.NONE).status())
                    .isEqualTo(Status.NOT_SUPPORTED);
            assertThat(plain.a.read(1, eight, 1, 1, OpFlags.NONE).status())
                    .isEqualTo(Status.NOT_SUPPORTED);
            assertThat(plain.a.fetchAndAdd(1, eight, 8, 1, 1, OpFlags.NONE).status())
                    .isEqualTo(Status.NOT_SUPPORTED);
            assertThat(plain.device.sends).isEmpty();
            assertThat(plain.a.send(2, eight).status())
                    .isEqualTo(Status.SUCCESS); // and still usable
        }
        try (Rig iwarp =
                new Rig(QueuePairLimits.depths(4, 4), device -> device.iwarp = true, null)
                        .connect()) {
            assertThat(iwarp.a.sendWithImmediate(1, iwarp.bytes(8), 1, OpFlags.NONE).status())
                    .isEqualTo(Status.NOT_SUPPORTED);
        }
    }

    private static void fill(MemorySegment memory) {
        for (int i = 0; i < memory.byteSize(); i++) {
            memory.set(java.lang.foreign.ValueLayout.JAVA_BYTE, i, (byte) i);
        }
    }

    private static String hex(byte[] bytes) {
        return HexFormat.ofDelimiter(" ").formatHex(bytes);
    }
}
