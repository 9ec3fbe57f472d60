package dev.verbena.internal.verbs;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.lang.foreign.Arena;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HexFormat;

/**
 * The bytes that reach a provider, and what is made of its answers; needs no device and no library.
 */
class DataPathTest {
    private static final long QUEUE_PAIR = 0x1122_3344_5566_7788L;

    private final FakeDevice device = new FakeDevice();
    private final VerbsContext context = device.open();
    private final Arena arena = Arena.ofConfined();
    private final WorkRequests requests = new WorkRequests(context, QUEUE_PAIR, arena);

    @AfterEach
    void close() {
        arena.close();
        device.close();
    }

    @Test
    void aSendIsThisWorkRequestAndNothingElse() {
        SgeArray sges = new SgeArray(2);
        sges.set(0, 0x0102_0304_0506_0708L, 0x8000_0001, 0xCAFE_BABE);
        sges.set(1, 0x7FFF_0000_0000_1000L, 16, 1);
        assertThat(requests.postSend(0x8001_0002_0000_0003L, sges.address(), 2)).isZero();

        FakeDevice.Posted posted = device.sends.getFirst();
        assertThat(posted.queuePair()).isEqualTo(QUEUE_PAIR);
        // struct ibv_send_wr: 128 bytes, only these of them not zero
        ByteBuffer expected = ByteBuffer.allocate(128).order(ByteOrder.nativeOrder());
        expected.putLong(0, 0x8001_0002_0000_0003L); // wr_id
        expected.putLong(16, sges.address()); // sg_list
        expected.putInt(24, 2); // num_sge
        expected.putInt(28, 2); // opcode: IBV_WR_SEND
        expected.putInt(32, 2); // send_flags: IBV_SEND_SIGNALED
        assertThat(hex(posted.request())).isEqualTo(hex(expected.array()));
        ByteBuffer list = ByteBuffer.allocate(32).order(ByteOrder.nativeOrder());
        list.putLong(0x0102_0304_0506_0708L).putInt(0x8000_0001).putInt(0xCAFE_BABE);
        list.putLong(0x7FFF_0000_0000_1000L).putInt(16).putInt(1);
        assertThat(hex(posted.sges())).isEqualTo(hex(list.array()));
    }

    @Test
    void aReceiveIsThisWorkRequestAndNothingElse() {
        SgeArray sges = new SgeArray(1);
        sges.set(0, 0x1000, 8, -1);
        assertThat(requests.postReceive(-2, sges.address(), 1)).isZero();

        FakeDevice.Posted posted = device.receives.getFirst();
        assertThat(posted.queuePair()).isEqualTo(QUEUE_PAIR);
        ByteBuffer expected = ByteBuffer.allocate(32).order(ByteOrder.nativeOrder());
        expected.putLong(0, -2); // wr_id
        expected.putLong(16, sges.address()); // sg_list
        expected.putInt(24, 1); // num_sge
        assertThat(hex(posted.request())).isEqualTo(hex(expected.array()));
    }

    @Test
    void aRequestKeepsNothingOfTheOneBefore() {
        SgeArray sges = new SgeArray(4);
        requests.postSend(-1, sges.address(), 4);
        requests.postSend(5, 0, 0);
        byte[] second = device.sends.get(1).request();
        ByteBuffer expected = ByteBuffer.allocate(128).order(ByteOrder.nativeOrder());
        expected.putLong(0, 5).putInt(28, 2).putInt(32, 2);
        assertThat(hex(second)).isEqualTo(hex(expected.array()));
    }

    @ParameterizedTest
    @ValueSource(ints = {12, 22, -12, -22})
    void aRefusalIsPassedOnAsItIs(int answer) {
        device.answer = answer; // siw answers negative numbers
        assertThat(requests.postSend(1, 0, 0)).isEqualTo(answer);
        device.refused = 0;
        assertThat(requests.postSend(1, 0, 0)).isEqualTo(answer);
        assertThat(requests.postReceive(1, 0, 0)).isEqualTo(answer);
        assertThat(device.sends).isEmpty();
        assertThat(device.receives).isEmpty();
    }

    @Test
    void completionsAreReadWhereTheHeaderHasThem() {
        device.complete(Long.MIN_VALUE, 0, 128, 0xFFFF_FFFF, 0);
        device.complete(7, 12, 0, 0, 0x8000_0000);
        device.complete(9, 0, 0, 0, 0);
        WorkCompletions completions = new WorkCompletions(2);
        assertThat(context.pollCq(1, completions)).isEqualTo(2);
        assertThat(completions.id(0)).isEqualTo(Long.MIN_VALUE);
        assertThat(completions.status(0)).isEqualTo(WorkCompletions.SUCCESS);
        assertThat(completions.bytes(0)).isEqualTo(0xFFFF_FFFFL);
        assertThat(completions.id(1)).isEqualTo(7);
        assertThat(completions.status(1)).isEqualTo(12);
        assertThat(completions.vendorError(1)).isEqualTo(0x8000_0000);
        assertThat(context.pollCq(1, completions)).isEqualTo(1);
        assertThat(completions.id(0)).isEqualTo(9);
        assertThat(context.pollCq(1, completions)).isZero();
        device.answer = -1;
        assertThat(context.pollCq(1, completions)).isEqualTo(-1);
    }

    private static String hex(byte[] bytes) {
        return HexFormat.ofDelimiter(" ").formatHex(bytes);
    }
}
