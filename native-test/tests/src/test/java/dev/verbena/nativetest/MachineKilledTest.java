package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Status;
import dev.verbena.messaging.MessageChannel;
import dev.verbena.messaging.MessagingOptions;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;

import java.lang.foreign.MemorySegment;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * The machine of a peer dies, as by a power cut: nothing answers any more, not even its kernel.
 * Each channel to it ends in time, a channel of this machine goes on, and each message is accounted
 * for. In the client's VM of {@code ci/roce pair --server-dies}, whose server is an {@link
 * EchoProgram} that is mortal; {@code ci/roce trust --whole} starts both.
 */
@NeedsDevices
@EnabledIfSystemProperty(
        named = "verbena.trust.mortal",
        matches = ".+",
        disabledReason = "in the client's VM of a pair only")
@Timeout(300)
class MachineKilledTest {
    private static final int SOME = 20; // messages

    @Test
    void theDeathOfAPeersMachineEndsItsChannelsInTime() throws Exception {
        String[] server = System.getProperty("verbena.trust.mortal").split(" ");
        InetSocketAddress address = new InetSocketAddress(server[0], Integer.parseInt(server[1]));
        MessagingOptions options = FaultsTest.SHORT;
        try (Bystander other = new Bystander("the peer's virtual machine killed");
                Load load = new Load(other.poller, address, options);
                MessageChannel idle = MessageChannel.connect(other.poller, address, options, null);
                MessageChannel last =
                        MessageChannel.connect(other.poller, address, options, null)) {
            load.goesOn(SOME);
            last.send(MemorySegment.ofArray(new byte[1]), Duration.ofSeconds(60));
            long start = System.nanoTime();
            List<Status> ends = new ArrayList<>();
            for (MessageChannel channel : List.of(idle, load.channel, last)) {
                ends.add(channel.closed().get(60, TimeUnit.SECONDS));
            }
            long wait = System.nanoTime() - start;
            List<String> wrong = load.settle();
            other.write(1, load.messages(), wrong.size(), wait);
            assertThat(wrong).isEmpty();
            assertThat(ends).containsOnly(Status.IO_TIMEOUT);
        }
    }
}
