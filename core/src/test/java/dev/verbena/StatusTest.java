package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.internal.queue.CompletionStatus;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

import java.time.Duration;
import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;

class StatusTest {
    @Test
    void theValuesAreThoseOfNtstatus() {
        Map<String, Integer> expected = new TreeMap<>();
        """
        SUCCESS 00000000
        PENDING 00000103
        BUFFER_OVERFLOW 80000005
        DEVICE_BUSY 80000011
        NO_MORE_ENTRIES 8000001A
        ACCESS_VIOLATION C0000005
        INVALID_PARAMETER C000000D
        INVALID_DEVICE_REQUEST C0000010
        BUFFER_TOO_SMALL C0000023
        INVALID_PARAMETER_MIX C0000030
        DATA_OVERRUN C000003C
        DATA_ERROR C000003E
        SHARING_VIOLATION C0000043
        INSUFFICIENT_RESOURCES C000009A
        IO_TIMEOUT C00000B5
        NOT_SUPPORTED C00000BB
        BAD_NETWORK_NAME C00000CC
        INTERNAL_ERROR C00000E5
        CANCELLED C0000120
        REMOTE_RESOURCES C000013D
        INVALID_ADDRESS C0000141
        INVALID_BUFFER_SIZE C0000206
        TOO_MANY_ADDRESSES C0000209
        ADDRESS_ALREADY_EXISTS C000020A
        CONNECTION_REFUSED C0000236
        ADDRESS_ALREADY_ASSOCIATED C0000238
        CONNECTION_INVALID C000023A
        CONNECTION_ACTIVE C000023B
        NETWORK_UNREACHABLE C000023C
        HOST_UNREACHABLE C000023D
        CONNECTION_ABORTED C0000241
        DEVICE_REMOVED C00002B6
        IMPLEMENTATION_LIMIT C000042B
        """
                .lines()
                .map(line -> line.split(" "))
                .forEach(pair -> expected.put(pair[0], Integer.parseUnsignedInt(pair[1], 16)));
        assertThat(
                        Arrays.stream(Status.values())
                                .collect(Collectors.toMap(Status::name, Status::value)))
                .containsExactlyInAnyOrderEntriesOf(expected);
    }

    @ParameterizedTest
    @EnumSource(Status.class)
    void successIsTheSignedTest(Status status) {
        assertThat(status.isSuccess())
                .isEqualTo(status == Status.SUCCESS || status == Status.PENDING);
    }

    @Test
    void failuresThrowWithNameValueAndMeaning() {
        assertThatCode(Status.SUCCESS::orThrow).doesNotThrowAnyException();
        assertThatCode(Status.PENDING::orThrow).doesNotThrowAnyException();
        assertThatThrownBy(Status.NO_MORE_ENTRIES::orThrow)
                .isInstanceOfSatisfying(
                        VerbenaException.class,
                        e -> assertThat(e.status()).isEqualTo(Status.NO_MORE_ENTRIES))
                .hasMessage(
                        "NO_MORE_ENTRIES (0x8000001A): no room: poll for completions of a queue pair, or wait until the peer of a channel has read, then try again");
    }

    @ParameterizedTest(name = "ibv_wc_status {0}")
    @CsvSource({
        "0, SUCCESS, SUCCESS, SUCCESS",
        "1, DATA_OVERRUN, DATA_OVERRUN, BUFFER_OVERFLOW",
        "2, INTERNAL_ERROR, INVALID_DEVICE_REQUEST, INTERNAL_ERROR",
        "3, INTERNAL_ERROR, INTERNAL_ERROR, INTERNAL_ERROR",
        "4, ACCESS_VIOLATION, ACCESS_VIOLATION, ACCESS_VIOLATION",
        "5, CANCELLED, CANCELLED, CANCELLED",
        "6, ACCESS_VIOLATION, ACCESS_VIOLATION, ACCESS_VIOLATION",
        "7, INTERNAL_ERROR, INTERNAL_ERROR, INTERNAL_ERROR",
        "8, ACCESS_VIOLATION, ACCESS_VIOLATION, ACCESS_VIOLATION",
        "9, REMOTE_RESOURCES, REMOTE_RESOURCES, BUFFER_OVERFLOW",
        "10, ACCESS_VIOLATION, ACCESS_VIOLATION, ACCESS_VIOLATION",
        "11, REMOTE_RESOURCES, REMOTE_RESOURCES, REMOTE_RESOURCES",
        "12, IO_TIMEOUT, IO_TIMEOUT, IO_TIMEOUT",
        "13, IO_TIMEOUT, IO_TIMEOUT, IO_TIMEOUT",
        "14, INTERNAL_ERROR, INTERNAL_ERROR, INTERNAL_ERROR",
        "15, INTERNAL_ERROR, INTERNAL_ERROR, INTERNAL_ERROR",
        "16, INTERNAL_ERROR, INTERNAL_ERROR, INTERNAL_ERROR",
        "17, INTERNAL_ERROR, INTERNAL_ERROR, INTERNAL_ERROR",
        "18, INTERNAL_ERROR, INTERNAL_ERROR, INTERNAL_ERROR",
        "19, INTERNAL_ERROR, INTERNAL_ERROR, INTERNAL_ERROR",
        "20, INTERNAL_ERROR, INTERNAL_ERROR, INTERNAL_ERROR",
        "21, INTERNAL_ERROR, INTERNAL_ERROR, INTERNAL_ERROR",
        "99, INTERNAL_ERROR, INTERNAL_ERROR, INTERNAL_ERROR"
    })
    void verbsStatusesAreMapped(int raw, Status transfer, Status window, Status receive) {
        for (OperationType type : OperationType.values()) {
            Status expected =
                    switch (type) {
                        case SEND, WRITE, READ, COMPARE_AND_SWAP, FETCH_AND_ADD, FAST_REGISTER ->
                                transfer;
                        case BIND, INVALIDATE -> window;
                        case RECEIVE, RECEIVE_AND_INVALIDATE, RECEIVE_OF_WRITE -> receive;
                    };
            assertThat(CompletionStatus.of(raw, type)).as("%s", type).isEqualTo(expected);
        }
    }

    @Test
    void aFailedVerbSaysVerbErrnoAndAdvice() {
        VerbenaException e = VerbenaException.of("ibv_reg_mr", -12, "See ulimit -l.");
        assertThat(e)
                .hasMessage("ibv_reg_mr failed: out of memory (ENOMEM, errno 12). See ulimit -l.");
        assertThat(e.verb()).isEqualTo("ibv_reg_mr");
        assertThat(e.errno()).isEqualTo(12);
        assertThat(e.status()).isEqualTo(Status.INSUFFICIENT_RESOURCES);
        assertThat(VerbenaException.of("ibv_x", -22, "").getMessage())
                .isEqualTo("ibv_x failed: invalid argument (EINVAL, errno 22).");
        assertThat(VerbenaException.of("ibv_x", -77, "").getMessage())
                .isEqualTo("ibv_x failed: errno 77.");
    }

    /** Whatever was called: the caller's advice is about devices and their files. */
    @Test
    void tooManyOpenFilesAreNamedAsTheCause() {
        assertThat(VerbenaException.of("ibv_x", -24, "See /dev/infiniband.").getMessage())
                .startsWith(
                        "ibv_x failed: too many open files in this process (EMFILE, errno 24). Raise its limit (ulimit -n;")
                .doesNotContain("/dev/infiniband");
        assertThat(VerbenaException.of("ibv_x", -23, "").getMessage())
                .contains("(ENFILE, errno 23)", "fs.file-max");
    }

    @Test
    void aWaitThatRunsOutOfTimeDoesNotBlameThePeer() {
        try (Rig rig = Rig.connected(QueuePairLimits.depths(1, 1))) {
            rig.queue.arm(NotifyType.ANY);
            Status status = rig.queue.await(Duration.ofMillis(1));
            assertThatThrownBy(status::orThrow)
                    .hasMessageContainingAll("IO_TIMEOUT", "a wait ended without a result")
                    .hasMessageNotContaining("peer");
        }
    }

    @ParameterizedTest
    @CsvSource({
        "22, INVALID_PARAMETER",
        "12, INSUFFICIENT_RESOURCES",
        "23, INSUFFICIENT_RESOURCES",
        "24, INSUFFICIENT_RESOURCES",
        "16, DEVICE_BUSY",
        "13, ACCESS_VIOLATION",
        "95, NOT_SUPPORTED",
        "38, NOT_SUPPORTED",
        "5, DEVICE_REMOVED",
        "110, IO_TIMEOUT",
        "77, INTERNAL_ERROR"
    })
    void errnosAreMapped(int errno, Status status) {
        assertThat(VerbenaException.statusOf(errno)).isEqualTo(status);
    }

    /** Of a completion: nothing in its status says which request of whom it was. */
    @Test
    void aFailedCompletionNamesItsRequestAndWhatTheDeviceReported() {
        try (Rig rig = Rig.connected(QueuePairLimits.depths(4, 4))) {
            rig.device.failAt = 1;
            rig.device.failStatus = 10;
            rig.a.read(6, rig.bytes(8), 4096, 5, OpFlags.NONE).orThrow();
            rig.a.read(7, rig.bytes(8), 4096, 5, OpFlags.NONE).orThrow();
            Completions completions = new Completions(4);
            assertThat(rig.queue.poll(completions)).isEqualTo(2);
            completions.orThrow(0);
            assertThatThrownBy(() -> completions.failure(0))
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessage("READ with context 6 succeeded");
            assertThat(completions.failure(1).status()).isEqualTo(Status.ACCESS_VIOLATION);
            assertThatThrownBy(() -> completions.orThrow(1))
                    .isInstanceOf(VerbenaException.class)
                    .hasMessageStartingWith("READ with context 7 of %s to ".formatted(rig.a))
                    .hasMessageContaining(" failed: ACCESS_VIOLATION (0xC0000005): ")
                    .hasMessageContainingAll(
                            "The peer's device refused it. In order of likelihood: ",
                            "ALLOW_REMOTE_READ",
                            "dev.verbena.WindowInvalidated")
                    .hasMessageEndingWith(
                            "The device reported IBV_WC_REM_ACCESS_ERR (10), vendor error 0x77");
        }
    }

    @Test
    void theUsualCauseOfAStatusIsSaid() {
        assertThat(CompletionStatus.usualCause(9, OperationType.SEND))
                .contains("longer than the peer's receive");
        assertThat(CompletionStatus.usualCause(11, OperationType.SEND))
                .contains("longer than the peer's receive");
        assertThat(CompletionStatus.usualCause(9, OperationType.READ))
                .contains("does not accept reads");
        assertThat(CompletionStatus.usualCause(9, OperationType.WRITE)).isEmpty();
        assertThat(CompletionStatus.usualCause(13, OperationType.SEND)).contains("no receive");
        assertThat(CompletionStatus.verbsName(23)).isEqualTo("IBV_WC_TM_RNDV_INCOMPLETE (23)");
        assertThat(CompletionStatus.verbsName(24)).isEqualTo("the ibv_wc_status 24");
        assertThat(CompletionStatus.verbsName(255)).contains("lost");
    }
}
