package dev.verbena.examples.nvme;

import com.sun.management.ThreadMXBean;

import dev.verbena.Adapter;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.Poller;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;

/** A target in this process, on the first device. */
final class Served implements AutoCloseable {
    static final String NAME = "nqn.2026-11.dev.verbena:test";

    final Queue<String> log = new ConcurrentLinkedQueue<>();
    final Adapter adapter;
    final Poller poller;
    final Namespace disk;
    final NvmeTarget target;

    /** Serves a file, or so much memory where there is none. */
    Served(NvmeTarget.Options options, Path file, long bytes) throws IOException {
        adapter = Adapter.open(Adapter.activeNames().getFirst());
        poller = Poller.start(adapter, IdleStrategy.events());
        disk =
                file == null
                        ? Namespace.inMemory(poller.domain(), bytes, "memory")
                        : Namespace.ofFile(poller.domain(), file, file.toString());
        target =
                new NvmeTarget(
                        poller,
                        new InetSocketAddress(adapter.gid().gid().gid().toInetAddress(), 0),
                        List.of(new Subsystem(NAME, List.of(disk))),
                        options.withLog(this::say));
    }

    private void say(String line) {
        synchronized (log) {
            log.add(line);
            log.notifyAll();
        }
    }

    /** Waits until the target has said something with these words. */
    void awaitLine(String words) throws InterruptedException {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
        synchronized (log) {
            while (log.stream().noneMatch(line -> line.contains(words))) {
                long left = end - System.nanoTime();
                if (left <= 0) {
                    throw new AssertionError("no \"%s\" in %s".formatted(words, log));
                }
                TimeUnit.NANOSECONDS.timedWait(log, left);
            }
        }
    }

    static InetAddress addressOf(String device) {
        try (Adapter one = Adapter.open(device)) {
            return one.gid().gid().gid().toInetAddress();
        }
    }

    KernelHost connect(int host, String options) throws IOException {
        return KernelHost.connect(target.address(), NAME, host, options);
    }

    /** How many bytes of heap its polling thread has ever taken. */
    long allocatedByPoller() {
        Thread poller =
                Thread.getAllStackTraces().keySet().stream()
                        .filter(one -> one.getName().equals("verbena-poller-" + adapter.name()))
                        .findFirst()
                        .orElseThrow();
        return ManagementFactory.getPlatformMXBean(ThreadMXBean.class)
                .getThreadAllocatedBytes(poller.threadId());
    }

    @Override
    public void close() {
        target.close();
        poller.close();
        disk.close();
        adapter.close();
    }
}
