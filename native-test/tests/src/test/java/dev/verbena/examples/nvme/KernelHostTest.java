package dev.verbena.examples.nvme;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.nativetest.NeedsDevices;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * The kernel's NVMe host uses disks of the target: a peer that nobody here wrote, which hands out a
 * key for each command, takes only that key back, and has file systems above that check every byte.
 */
@NeedsDevices
@Timeout(180)
class KernelHostTest {
    private static final long MIB = 1 << 20;
    private static final String SERVED_KEYS = "rxe_invalidate_mr"; // by an answer of the target
    private static final String OWN_KEYS = "nvme_rdma_inv_rkey_done"; // that the host had to do

    /** For reads, writes and polling, as a host has at most one of a kind for each processor. */
    private static final String THREE_QUEUES =
            ",nr_io_queues=1,nr_write_queues=1,nr_poll_queues=1,queue_size=128";

    private static final int OF_THREE_QUEUES = 3 * 128; // receives

    private final Deque<AutoCloseable> open = new ArrayDeque<>();

    @BeforeAll
    static void load() {
        Kernel.load("nvme-rdma", "ext4");
    }

    @AfterEach
    void close() throws Exception {
        while (!open.isEmpty()) {
            open.pop().close();
        }
    }

    private <T extends AutoCloseable> T closing(T one) {
        open.push(one);
        return one;
    }

    private Served serve(NvmeTarget.Options options) throws IOException {
        return closing(new Served(options, null, 32 * MIB));
    }

    private static void checkKeys(Served served) {
        Counts counts = served.target.counts();
        assertThat(counts.keyed()).isPositive();
        assertThat(counts.invalidating()).isEqualTo(counts.keyed());
        assertThat(Kernel.calls(SERVED_KEYS)).as("the kernel's count").isEqualTo(counts.keyed());
        assertThat(Kernel.calls(OWN_KEYS)).as("left to the kernel").isZero();
    }

    /** Until all that the kernel does in the background has been done. */
    private static void settle(Path disk) {
        Kernel.run("sync; blockdev --flushbufs " + disk);
    }

    @Test
    void aFileIsADiskWithAFileSystem() throws Exception {
        Path file = Path.of("/dev/shm/verbena.img");
        Path mounted = Files.createTempDirectory("verbena");
        Kernel.run("truncate -s 160M " + file);
        open.push(() -> Files.delete(file));
        Served served = closing(new Served(NvmeTarget.Options.DEFAULTS, file, 0));
        Kernel.probe(SERVED_KEYS, OWN_KEYS);
        try (KernelHost host = served.connect(1, ",queue_size=32")) {
            Path disk = host.disk();
            Kernel.run("mkfs.ext4 -q %s; mount %s %s".formatted(disk, disk, mounted));
            open.push(() -> Kernel.attempt("umount " + mounted));
            Kernel.run(
                    """
                    cd %s
                    head -c 64M /dev/urandom >/dev/shm/source
                    cp /dev/shm/source copy
                    sync
                    echo 3 >/proc/sys/vm/drop_caches
                    expected=$(sha256sum </dev/shm/source)
                    rm /dev/shm/source
                    [ "$(sha256sum <copy)" = "$expected" ]
                    """
                            .formatted(mounted));
            Kernel.run(
                    """
                    fio --name=verify --directory=%s --size=4M --rw=randwrite --bsrange=512-64k --bs_unaligned=0 \\
                        --verify=crc32c --iodepth=16 --ioengine=libaio --direct=1 --fsync=64
                    """
                            .formatted(mounted));
            Kernel.run("umount %s; e2fsck -fn %s".formatted(mounted, disk));
            settle(disk);
        }
        checkKeys(served);
        assertThat(served.target.counts().failed()).isZero();
        Kernel.run("e2fsck -fn " + file); // what the host has written is in the file
    }

    /** Two hosts, which this kernel takes for two paths to one disk, and uses by turns. */
    @Test
    void sharedReceivesServeSeveralHosts() throws Exception {
        Served served = serve(NvmeTarget.Options.DEFAULTS.withSharedReceives(OF_THREE_QUEUES + 16));
        Kernel.probe(SERVED_KEYS, OWN_KEYS);
        try (KernelHost one = served.connect(1, THREE_QUEUES);
                KernelHost two = served.connect(2, ",queue_size=16")) {
            Path disk = one.disk();
            assertThat(two.disk()).isEqualTo(disk);
            Kernel.run(
                    "for by in /sys/class/nvme-subsystem/*/iopolicy; do echo round-robin >$by; done");
            String job =
                    "--size=4M --rw=randrw --bs=4k --verify=crc32c --ioengine=libaio --direct=1";
            Kernel.run(
                    "fio --filename=%s %s --name=one --iodepth=64 --name=two --iodepth=8 --offset=16M"
                            .formatted(disk, job));
        }
        checkKeys(served);
        assertThat(served.log.stream().filter(line -> line.startsWith("New:")))
                .as("%s", served.log)
                .hasSize(2);
    }

    /** Of all sizes, and with up to as many commands outstanding as a queue has. */
    @Test
    void jobsOfManyShapesReadWhatTheyHaveWritten() throws Exception {
        Served served = serve(NvmeTarget.Options.DEFAULTS);
        Kernel.probe(SERVED_KEYS, OWN_KEYS);
        try (KernelHost host = served.connect(1, THREE_QUEUES)) {
            Path disk = host.disk();
            assertThat(host.queues()).isEqualTo(1 + 3);
            Kernel.run(
                    """
                    job() {
                        fio --name=job --filename=%s --rw=$1 --bs=$2 --iodepth=$3 --size=$4 --ioengine=$5 --direct=1 \
                            --verify=crc32c --verify_fatal=1
                    }
                    job randrw 512 1 128k libaio
                    job randrw 4k 128 2m libaio
                    job randwrite 132k 16 8m libaio
                    job rw 1m 32 32m libaio
                    job randrw 2k 1 512k 'pvsync2 --hipri'
                    """
                            .formatted(disk));
            settle(disk);
        }
        checkKeys(served);
        assertThat(served.target.counts().failed()).isZero();
    }

    /** The target's process dies while the host writes, and another takes its place. */
    @Test
    void aTargetThatIsKilledIsReplacedUnderLoad() throws Exception {
        Path file = Path.of("/dev/shm/verbena.img");
        Kernel.run("truncate -s 32M " + file);
        open.push(() -> Files.delete(file));
        Program target = closing(Program.start("--file", file.toString(), "--nqn", Served.NAME));
        try (KernelHost host = KernelHost.connect(target.address(), Served.NAME, 1, "")) {
            Path disk = host.disk();
            Kernel.run("head -c 12M /dev/urandom >/dev/shm/source");
            Process copying =
                    new ProcessBuilder(
                                    "dd",
                                    "if=/dev/shm/source",
                                    "of=" + disk,
                                    "bs=16k", // it takes seconds: it is still at it then
                                    "oflag=direct")
                            .redirectErrorStream(true)
                            .start();
            Kernel.awaitWritten(copying, MIB);
            assertThat(copying.isAlive()).isTrue();
            target.kill();
            closing(Program.start("--file", file.toString(), "--nqn", Served.NAME));
            assertThat(copying.waitFor()).isZero();
            Kernel.run("cmp -n 12M /dev/shm/source %s; rm /dev/shm/source".formatted(disk));
        }
    }

    @Test
    void whatTheTargetSaysToTypeConnects() throws Exception {
        Program target = closing(Program.start("--memory", "4", "--nqn", Served.NAME));
        List<String> commands = target.commands();
        Kernel.run(commands.getFirst());
        for (String connect : commands.subList(1, commands.size())) {
            Kernel.run(connect);
            String controller =
                    Kernel.run(
                            "dirname $(grep -lx %s /sys/class/nvme/*/subsysnqn)"
                                    .formatted(Served.NAME));
            Kernel.run("echo 1 >%s/delete_controller".formatted(controller.strip()));
        }
    }

    @Test
    void theDiscoverySubsystemNamesTheDisk() throws Exception {
        Served served = serve(NvmeTarget.Options.DEFAULTS);
        String listed =
                Kernel.run(
                        "nvme discover -t rdma -a %s -s %d"
                                .formatted(
                                        served.target.address().getAddress().getHostAddress(),
                                        served.target.address().getPort()));
        assertThat(listed).contains("subnqn:  " + Served.NAME).contains("trtype:  rdma");
    }

    /** A raw command reaches the target, as the kernel's block layer knows the end itself. */
    @Test
    void readingPastTheEndIsRefused() throws Exception {
        Served served = serve(NvmeTarget.Options.DEFAULTS);
        try (KernelHost host = served.connect(1, "")) {
            Path disk = host.disk();
            String read = "nvme read %s -z 512 -c 0 -s %d -d /dev/null";
            assertThat(Kernel.attempt(read.formatted(disk, 32 * MIB / 512 - 1)).code()).isZero();
            Kernel.Result past = Kernel.attempt(read.formatted(disk, 32 * MIB / 512));
            assertThat(past.code()).isNotZero();
            assertThat(past.output()).containsIgnoringCase("LBA");
            assertThat(served.target.counts().failed()).isPositive();
            Kernel.run("dd if=%s of=/dev/null bs=64k count=4 iflag=direct".formatted(disk));
        }
    }

    /** In C1's code as well: nothing depends on what a compiler leaves out. */
    @Test
    void readsAndWritesAllocateNothing() throws Exception {
        Path file = Path.of("/dev/shm/verbena.img");
        Kernel.run("truncate -s 16M " + file);
        open.push(() -> Files.delete(file));
        Served served = closing(new Served(NvmeTarget.Options.DEFAULTS, file, 0));
        try (KernelHost host = served.connect(1, "")) {
            String use =
                    """
                    dd if=%1$s of=/dev/null bs=4k count=500 iflag=direct
                    dd if=/dev/zero of=%1$s bs=4k count=500 oflag=direct
                    dd if=/dev/zero of=%1$s bs=64k count=200 oflag=direct
                    """
                            .formatted(host.disk());
            double least = Double.MAX_VALUE; // at first classes are loaded
            for (int i = 0; i < 3; i++) {
                long allocated = served.allocatedByPoller();
                long commands = served.target.counts().commands();
                Kernel.run(use);
                allocated = served.allocatedByPoller() - allocated;
                commands = served.target.counts().commands() - commands;
                assertThat(commands).isGreaterThanOrEqualTo(1200);
                least = Math.min(least, (double) allocated / commands);
            }
            // One object would be 16 or more; four times a second the poller looks at all hosts.
            assertThat(least).as("bytes for each command").isLessThan(8);
        }
    }

    // ---- controls: what the host does when the target is wrong

    @Test
    void plainSendsLeaveTheKeysToTheKernel() throws Exception {
        Served served = serve(NvmeTarget.Options.DEFAULTS.withKeyReturn(key -> KeyReturn.NONE));
        Kernel.probe(SERVED_KEYS, OWN_KEYS);
        try (KernelHost host = served.connect(1, "")) {
            Kernel.run("dd if=%s of=/dev/null bs=64k count=8 iflag=direct".formatted(host.disk()));
        }
        assertThat(served.target.counts().invalidating()).isZero();
        assertThat(Kernel.calls(OWN_KEYS)).isEqualTo(served.target.counts().keyed());
    }

    @Test
    void aWrongKeyMakesTheKernelConnectAnew() throws Exception {
        AtomicBoolean wrong = new AtomicBoolean();
        Served served =
                serve(
                        NvmeTarget.Options.DEFAULTS.withKeyReturn(
                                key ->
                                        wrong.getAndSet(false)
                                                ? Integer.toUnsignedLong(key ^ 0x10000)
                                                : Integer.toUnsignedLong(key)));
        try (KernelHost host = served.connect(1, "")) {
            Path disk = host.disk();
            Kernel.clearLog();
            wrong.set(true);
            Kernel.run("dd if=%s of=/dev/null bs=64k count=8 iflag=direct".formatted(disk));
            assertThat(wrong).isFalse();
            Kernel.awaitLog("Successfully reconnected"); // written after the host's queues work
            assertThat(Kernel.log()).contains("Reconnecting");
        }
        assertThat(served.log.stream().filter(line -> line.startsWith("New:"))).hasSize(2);
    }

    @Test
    void aRefusalSaysWhy() throws Exception {
        Served served = serve(NvmeTarget.Options.DEFAULTS.withMostConnections(0));
        Kernel.clearLog();
        assertThatThrownBy(() -> served.connect(1, "").close()).isInstanceOf(IOException.class);
        assertThat(Kernel.log()).contains("nvme status 6");
        assertThat(served.log).anySatisfy(line -> assertThat(line).contains("NO_RESOURCES"));
    }

    @Test
    void aResetUnderLoadLosesNothing() throws Exception {
        Served served = serve(NvmeTarget.Options.DEFAULTS);
        try (KernelHost host = served.connect(1, THREE_QUEUES)) {
            Path disk = host.disk();
            Kernel.run(
                    """
                    head -c 8M /dev/urandom >/dev/shm/source
                    dd if=/dev/shm/source of=%s bs=64k oflag=direct &
                    sleep 0.3
                    echo 1 >/sys/class/nvme/%s/reset_controller
                    wait $!
                    cmp -n 8M /dev/shm/source %s
                    rm /dev/shm/source
                    """
                            .formatted(disk, host.device().getFileName(), disk));
        }
    }

    @Test
    void deletingTheControllerUnderLoadEndsIt() throws Exception {
        Served served = serve(NvmeTarget.Options.DEFAULTS);
        try (KernelHost host = served.connect(1, THREE_QUEUES)) {
            Path disk = host.disk();
            Kernel.attempt(
                    """
                    dd if=/dev/zero of=%s bs=64k oflag=direct &
                    sleep 0.3
                    echo 1 >/sys/class/nvme/%s/delete_controller
                    wait $!
                    """
                            .formatted(disk, host.device().getFileName()));
        }
        try (KernelHost again = served.connect(1, "")) {
            Kernel.run("dd if=%s of=/dev/null bs=64k count=4 iflag=direct".formatted(again.disk()));
        }
    }
}
