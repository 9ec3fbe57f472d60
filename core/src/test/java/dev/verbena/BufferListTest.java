package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.internal.verbs.FakeDevice.Posted;

import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.util.concurrent.atomic.AtomicBoolean;

/** What a list of buffers looks at, and when. */
@Timeout(60)
class BufferListTest {
    /** One thread may use a list at a time; who breaks that breaks nothing but the own message. */
    @Nested
    class ChangedByAnotherThread {
        private static final int INLINE_BYTES = 50;

        private static Rig rig() {
            return Rig.connected(
                    QueuePairLimits.depths(16, 16)
                            .withBuffers(1, 1)
                            .withInlineBytes(INLINE_BYTES)
                            .withMaxDeferred(1));
        }

        @Test
        void anInlineRequestCarriesWhatThePostLookedAt() {
            try (Rig rig = rig()) {
                BufferList list = rig.bytes(8);
                rig.device.beforePost = () -> list.clear().add(rig.memory, 0, 300);
                rig.a.send(1, list, OpFlags.INLINE).orThrow();
                assertThat(rig.device.sends.getLast().inline()).hasSize(8);
            }
        }

        @Test
        void noMoreIsCopiedThanARequestHasRoomFor() throws InterruptedException {
            try (Rig rig = rig()) {
                BufferList list = new BufferList(4).add(rig.memory, 0, 40);
                AtomicBoolean over = new AtomicBoolean();
                Thread other =
                        Thread.ofPlatform()
                                .daemon()
                                .start(
                                        () -> {
                                            while (!over.get()) {
                                                list.clear().add(rig.memory, 0, 40);
                                                list.clear();
                                                for (int i = 0; i < 4; i++) {
                                                    list.add(rig.memory, 100L * i, 25);
                                                }
                                            }
                                        });
                try {
                    int inline = OpFlags.INLINE | OpFlags.DEFER | OpFlags.SILENT_SUCCESS;
                    BufferList empty = new BufferList(1);
                    for (int i = 0; i < 20_000; i++) {
                        rig.a.write(1, list, Rig.REMOTE, 1, inline);
                        rig.a.write(2, list, Rig.REMOTE, 1, OpFlags.DEFER | OpFlags.SILENT_SUCCESS);
                        if (rig.a.receive(3, list) == Status.SUCCESS) {
                            rig.b.send(4, empty).orThrow();
                        }
                        if (i % 8 == 7) {
                            for (Posted send : rig.device.sends) {
                                assertThat(send.inline().length).isLessThanOrEqualTo(INLINE_BYTES);
                                assertThat(send.sges().length).isLessThanOrEqualTo(16);
                            }
                            for (Posted receive : rig.device.receives) {
                                assertThat(receive.sges().length).isLessThanOrEqualTo(16);
                            }
                            rig.device.sends.clear();
                            rig.device.receives.clear();
                            rig.poll();
                        }
                    }
                } finally {
                    over.set(true);
                    other.join();
                }
            }
        }
    }
}
