package dev.verbena.examples;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.BufferList;
import dev.verbena.CompletionQueue;
import dev.verbena.Completions;
import dev.verbena.Connector;
import dev.verbena.Listener;
import dev.verbena.MemoryRegion;
import dev.verbena.MemoryWindow;
import dev.verbena.NotifyType;
import dev.verbena.OpFlags;
import dev.verbena.OperationType;
import dev.verbena.ProtectionDomain;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;
import dev.verbena.RegisteredArena;
import dev.verbena.RemoteMemory;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/**
 * The listening side lends memory: it binds a window and sends its address and token. The
 * connecting side writes into that memory, and its next message takes the token back.
 */
public final class WindowTransfer {
    // @start region="flags"
    private static final OpFlags WRITABLE = OpFlags.ALLOW_REMOTE_WRITE.and(OpFlags.SILENT_SUCCESS);
    private static final OpFlags WITH_NEXT = OpFlags.SILENT_SUCCESS.and(OpFlags.DEFER);
    // @end

    private static final long BYTES = 65_536;
    private static final Duration TIMEOUT = Duration.ofSeconds(30);

    private WindowTransfer() {}

    /**
     * Runs one side.
     *
     * @param arguments {@code lend DEVICE ADDRESS PORT} or {@code fill DEVICE ADDRESS PORT TEXT},
     *     where the address is the lender's
     * @throws InterruptedException when the lender is interrupted before the other side came
     */
    public static void main(String[] arguments) throws InterruptedException {
        InetSocketAddress lender =
                new InetSocketAddress(arguments[2], Integer.parseInt(arguments[3]));
        try (Adapter adapter = Adapter.open(arguments[1])) {
            if (arguments[0].equals("fill")) {
                fill(adapter, lender, arguments[4]);
                return;
            }
            BlockingQueue<Connector> requests = new LinkedBlockingQueue<>();
            try (Listener listener = adapter.listen(lender, 0, requests::add)) {
                System.out.println("Listening on " + listener.localAddress());
                System.out.println(lend(adapter, requests.take()));
            }
        }
    }

    /**
     * Lends memory to a peer, and waits until it is back.
     *
     * @param adapter the device
     * @param request the peer's request, which is accepted and, at the end, closed
     * @return the text that the peer has written
     */
    public static String lend(Adapter adapter, Connector request) {
        QueuePairLimits limits =
                QueuePairLimits.depths(2, 1).withInlineBytes(RemoteMemory.MESSAGE_BYTES);
        try (request;
                Arena arena = Arena.ofConfined();
                ProtectionDomain domain = adapter.createProtectionDomain();
                CompletionQueue queue = adapter.createConfinedCompletionQueue(3);
                QueuePair queuePair = domain.createQueuePair(queue, queue, limits);
                MemoryRegion region = domain.allocate(BYTES, Access.LOCAL_WRITE);
                MemoryWindow window = domain.createMemoryWindow()) {
            queuePair.receive(1, new BufferList(1)).orThrow(); // for a message without data
            request.accept(queuePair);

            // @start region="lend"
            queuePair.bind(2, window, region, 0, BYTES, WRITABLE).orThrow();
            MemorySegment message = arena.allocate(RemoteMemory.MESSAGE_BYTES);
            window.remoteMemory().writeTo(message, 0); // address, length, token
            BufferList bytes = new BufferList(1).addUnregistered(message);
            queuePair.send(3, bytes, OpFlags.INLINE).orThrow(); // the bind need not be waited for
            // @end

            // @start region="returned"
            Completions completions = awaitOne(queue);
            while (completions.type(0) != OperationType.RECEIVE_AND_INVALIDATE) {
                completions = awaitOne(queue); // that was the send
            }
            assert completions.invalidatedToken(0) == window.remoteToken();
            return region.memory().getString(0); // the peer can change it no more
            // @end
        }
    }

    /**
     * Writes a text into memory that a peer lends, and gives that back.
     *
     * @param adapter the device
     * @param lender where the peer listens
     * @param text of less than 65,536 bytes
     */
    public static void fill(Adapter adapter, InetSocketAddress lender, String text) {
        try (ProtectionDomain domain = adapter.createProtectionDomain();
                CompletionQueue queue = adapter.createConfinedCompletionQueue(3);
                QueuePair queuePair =
                        domain.createQueuePair(queue, queue, QueuePairLimits.depths(2, 1));
                RegisteredArena arena = domain.createArena(Access.LOCAL_WRITE);
                Connector connector = adapter.createConnector()) {
            MemorySegment message = arena.allocate(RemoteMemory.MESSAGE_BYTES);
            queuePair.receive(1, new BufferList(1, arena).add(message)).orThrow();
            connector.connect(queuePair, lender);
            connector.completeConnect();
            awaitOne(queue);

            // @start region="fill"
            RemoteMemory target = RemoteMemory.readFrom(message, 0);
            BufferList bytes = new BufferList(1, arena).add(arena.allocateFrom(text));
            queuePair.write(2, bytes, target, 0, WITH_NEXT).orThrow();
            BufferList none = new BufferList(1);
            queuePair.sendAndInvalidate(3, none, target.token(), OpFlags.NONE).orThrow();
            // @end
            awaitOne(queue); // of both: the write is silent
        }
    }

    private static Completions awaitOne(CompletionQueue queue) {
        Completions completions = new Completions(1);
        while (queue.poll(completions) == 0) {
            queue.arm(NotifyType.ANY);
            queue.await(TIMEOUT).orThrow();
        }
        completions.orThrow(0);
        return completions;
    }
}
