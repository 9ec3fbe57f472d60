package dev.verbena.netty;

import static org.assertj.core.api.Assertions.assertThat;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufUtil;
import io.netty.buffer.PooledByteBufAllocator;
import io.netty.buffer.UnpooledByteBufAllocator;
import io.netty.util.ResourceLeakDetector;
import io.netty.util.ResourceLeakDetector.Level;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;

/** Finds each buffer that nobody has released: Netty's detector watches all of them. */
public final class Leaks implements AutoCloseable {
    private static final String CANARY = "a buffer that was lost on purpose, number ";
    private static final AtomicInteger CANARIES = new AtomicInteger();

    private final Level before = ResourceLeakDetector.getLevel();
    private final List<String> found = new CopyOnWriteArrayList<>();
    private final long unpooled = UnpooledByteBufAllocator.DEFAULT.metric().usedDirectMemory();
    private volatile String awaited = "";
    private volatile boolean seen;

    /** Watches from now on. */
    public Leaks() {
        ResourceLeakDetector.setLevel(Level.PARANOID);
        ByteBufUtil.setLeakListener(this::leak);
    }

    private void leak(String type, String records) {
        if (!records.contains(CANARY)) {
            found.add(records);
        } else if (records.contains(awaited)) {
            seen = true;
        }
    }

    /** What was lost before a canary is reported when the next one is, at the latest. */
    @Override
    public void close() {
        try {
            awaitCanary();
            awaitCanary();
        } finally {
            ByteBufUtil.setLeakListener(null);
            ResourceLeakDetector.setLevel(before);
        }
        assertThat(found).isEmpty();
        assertThat(UnpooledByteBufAllocator.DEFAULT.metric().usedDirectMemory())
                .as("bytes of buffers that are not registered")
                .isLessThanOrEqualTo(unpooled);
    }

    private void awaitCanary() {
        awaited = CANARY + CANARIES.incrementAndGet() + ";";
        seen = false;
        lose(awaited);
        for (int i = 0; !seen; i++) {
            assertThat(i).as("collections").isLessThan(1000);
            System.gc();
            PooledByteBufAllocator.DEFAULT.heapBuffer(1).release(); // looks at what was lost
        }
    }

    private static void lose(String hint) {
        ByteBuf lost = PooledByteBufAllocator.DEFAULT.heapBuffer(1);
        lost.touch(hint);
    }
}
