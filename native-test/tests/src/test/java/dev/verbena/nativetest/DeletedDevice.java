package dev.verbena.nativetest;

import dev.verbena.Connector;
import dev.verbena.Listener;
import dev.verbena.Status;

import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * The program of {@link FabricTest}: connects the two {@link OwnDevices}, writes from one to the
 * other until the first is deleted, and prints what it sees.
 */
public final class DeletedDevice {
    private static final long SECONDS = 60;

    private DeletedDevice() {}

    /** Takes no arguments. */
    public static void main(String[] args) throws Exception {
        Bystander other = new Bystander("device deleted, loaded");
        WritingEnd a = new WritingEnd(OwnDevices.FIRST);
        WritingEnd b = new WritingEnd(OwnDevices.SECOND);
        BlockingQueue<Connector> requests = new LinkedBlockingQueue<>();
        Listener listener =
                b.adapter.listen(
                        new InetSocketAddress(OwnDevices.SECOND_ADDRESS, 0), 0, requests::add);
        CompletableFuture<Connector> accepted =
                CompletableFuture.supplyAsync(() -> accept(requests, b));
        Connector connector = a.adapter.createConnector();
        connector.connect(a.pair, listener.localAddress());
        connector.completeConnect();
        Connector server = accepted.get(SECONDS, TimeUnit.SECONDS);
        CompletableFuture<Status> over = new CompletableFuture<>();
        connector.onDisconnect(over::complete);
        CompletableFuture<Status> load =
                CompletableFuture.supplyAsync(() -> a.writeUntil(new AtomicBoolean(), b.target));
        System.out.println("connected");
        long connected = System.nanoTime();
        System.out.println("disconnected: " + over.get(SECONDS, TimeUnit.SECONDS).name());
        System.out.println("load ended: " + load.get(SECONDS, TimeUnit.SECONDS).name());
        a.awaitAll();
        System.out.println("all ended");
        other.requests(a.ended()).write(1, 0, 0, System.nanoTime() - connected);
        long start = System.nanoTime();
        connector.close();
        server.close();
        listener.close();
        a.close();
        b.close();
        other.close();
        System.out.println("closed after " + Duration.ofNanos(System.nanoTime() - start));
    }

    private static Connector accept(BlockingQueue<Connector> requests, WritingEnd end) {
        try {
            Connector request = requests.take();
            request.accept(end.pair);
            return request;
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }
}
