package dev.verbena.messaging;

import static dev.verbena.messaging.FakeFabric.port;
import static dev.verbena.messaging.OneThread.LONG;
import static dev.verbena.messaging.OneThread.text;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowable;

import dev.verbena.Access;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;

/**
 * Calls that can wait throw at once in a handler, whether or not they would have to wait, and
 * whichever poller brings what they wait for.
 */
@Timeout(120)
class NoWaitInHandlersTest {
    private static final MessagingOptions OPTIONS = MessagingOptions.DEFAULTS.withMaxMessage(100);

    @Test
    void eachCallThatCanWaitThrowsAtOnce() throws Exception {
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                Poller another = Poller.start(fabric.adapter, IdleStrategy.events());
                MemoryRegion region = poller.domain().allocate(64, Access.LOCAL_WRITE);
                MessageServer server =
                        MessageServer.listen(poller, port(7700), OPTIONS, 4, null, channel -> {});
                MessageChannel channel =
                        MessageChannel.connect(poller, server.localAddress(), OPTIONS, null);
                MessageClient client =
                        MessageClient.start(
                                poller,
                                server.localAddress(),
                                OPTIONS,
                                ReconnectOptions.DEFAULTS,
                                null,
                                opened -> {});
                Exposure exposure =
                        channel.ownMemory().expose(region, OpFlags.ALLOW_REMOTE_READ, LONG)) {
            client.channel(LONG).send(text("stands"), LONG);
            Map<String, Callable<?>> calls = new LinkedHashMap<>();
            calls.put("send", of(() -> channel.send(text("x"), LONG)));
            calls.put("receive", () -> channel.receive(LONG));
            calls.put(
                    "expose",
                    () -> channel.ownMemory().expose(region, OpFlags.ALLOW_REMOTE_READ, LONG));
            calls.put("await", exposure::await);
            calls.put("client.channel", () -> client.channel(LONG));
            calls.put("server.stop", () -> server.stop(LONG));
            calls.put(
                    "connect",
                    () -> MessageChannel.connect(poller, server.localAddress(), OPTIONS, null));
            calls.put("poller.close", of(poller::close));
            for (Poller by : List.of(poller, another)) {
                for (Map.Entry<String, Callable<?>> call : calls.entrySet()) {
                    CompletableFuture<Throwable> thrown = new CompletableFuture<>();
                    by.execute(() -> thrown.complete(catchThrowable(call.getValue()::call)));
                    assertThat(thrown.get(30, TimeUnit.SECONDS))
                            .as(call.getKey())
                            .isInstanceOf(IllegalStateException.class)
                            .hasMessageStartingWith("A handler or callback must not");
                }
            }
            assertThat(channel.isOpen()).isTrue();
            assertThat(server.channelCount()).isEqualTo(2);
        }
    }

    /** Both threads are in a handler: neither can bring what the other would wait for. */
    @Test
    void closesInHandlersOfTwoPollersDoNotWaitForEachOther() throws Exception {
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                Poller another = Poller.start(fabric.adapter, IdleStrategy.events());
                MessageServer server =
                        MessageServer.listen(another, port(7700), OPTIONS, 4, null, channel -> {});
                MessageChannel x =
                        MessageChannel.connect(poller, server.localAddress(), OPTIONS, null);
                MessageChannel y =
                        MessageChannel.connect(another, server.localAddress(), OPTIONS, null);
                MemoryRegion region = poller.domain().allocate(64, Access.LOCAL_WRITE);
                Exposure exposure = x.ownMemory().expose(region, OpFlags.ALLOW_REMOTE_READ, LONG)) {
            CyclicBarrier both = new CyclicBarrier(2);
            CompletableFuture<Void> closedY =
                    CompletableFuture.runAsync(() -> close(both, List.of(y)), poller::execute);
            CompletableFuture<Void> closedX =
                    CompletableFuture.runAsync(
                            () -> close(both, List.of(exposure, x)), another::execute);
            CompletableFuture.allOf(closedX, closedY).get(5, TimeUnit.SECONDS);
        }
    }

    private static void close(CyclicBarrier barrier, List<AutoCloseable> all) {
        try {
            int ignored = barrier.await();
            for (AutoCloseable one : all) {
                one.close();
            }
            ignored = barrier.await(); // until then, neither polls
        } catch (Exception e) {
            throw new AssertionError(e);
        }
    }

    private interface Call {
        void run() throws Exception;
    }

    private static Callable<?> of(Call call) {
        return () -> {
            call.run();
            return "returned";
        };
    }
}
