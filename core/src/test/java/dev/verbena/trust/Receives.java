package dev.verbena.trust;

import dev.verbena.BufferList;
import dev.verbena.MemoryRegion;
import dev.verbena.OperationType;
import dev.verbena.PostResult;
import dev.verbena.QueuePair;
import dev.verbena.SharedReceiveQueue;

import java.lang.foreign.ValueLayout;
import java.util.concurrent.atomic.AtomicInteger;

/** Where messages arrive: the receives of one queue pair, or those that several share. */
final class Receives {
    final Account account;
    final SharedReceiveQueue shared; // or null

    /** How many receives no message has claimed yet. */
    final AtomicInteger credit = new AtomicInteger();

    private final MemoryRegion memory;
    private final int depth;
    private final int[] slots; // of the memory, by number of the receive
    private final BufferList buffer = new BufferList(1);

    Receives(Account account, SharedReceiveQueue shared, MemoryRegion memory, int depth) {
        this.account = account;
        this.shared = shared;
        this.memory = memory;
        this.depth = depth;
        this.slots = new int[4 * depth];
    }

    /** Posts as many as there is room for. */
    void fill(QueuePair pair) {
        for (int slot = 0; slot < depth; slot++) {
            post(pair, slot);
        }
    }

    /** Posts one more in the place of one that has completed. */
    void replace(QueuePair pair, long completed) {
        post(pair, slot(completed));
    }

    private synchronized void post(QueuePair pair, int slot) {
        long context = account.open(OperationType.RECEIVE, false);
        slots[(int) context % slots.length] = slot;
        buffer.clear().add(memory, (long) slot * Slots.BYTES, Slots.BYTES);
        PostResult result =
                shared == null ? pair.receive(context, buffer) : shared.receive(context, buffer);
        if (result == PostResult.ACCEPTED) {
            credit.incrementAndGet();
        } else {
            account.refuse(context);
        }
    }

    private synchronized int slot(long context) {
        return slots[(int) context % slots.length];
    }

    /** Claims receives for messages of the peer; without one a message would fail. */
    boolean claim(int messages) {
        int left = credit.get();
        while (left >= messages) {
            int was = credit.compareAndExchange(left, left - messages);
            if (was == left) {
                return true;
            }
            left = was;
        }
        return false;
    }

    /** Whether a receive was filled with this message. */
    boolean holds(long context, long sent, int bytes) {
        return Slots.holds(memory.memory(), slot(context), sent, bytes);
    }

    /** How the message begins that a receive was filled with. */
    long firstBytes(long context) {
        return memory.memory().get(ValueLayout.JAVA_LONG, (long) slot(context) * Slots.BYTES);
    }
}
