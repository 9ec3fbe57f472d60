package dev.verbena.examples.nvme;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The kernel's NVMe host: a controller of a target, and its disks. */
final class KernelHost implements AutoCloseable {
    private static final Path FABRICS = Path.of("/dev/nvme-fabrics");
    private static final Pattern INSTANCE = Pattern.compile("instance=(\\d+)");
    private static final String NO_HOST = "00000000-0000-0000-0000-0000000000%02d";

    private final int instance;

    private KernelHost(int instance) {
        this.instance = instance;
    }

    /** Connects as one of several hosts; fails as the kernel does. */
    static KernelHost connect(InetSocketAddress target, String name, int host, String options)
            throws IOException {
        String id = NO_HOST.formatted(host);
        String words =
                ("transport=rdma,traddr=%s,trsvcid=%d,nqn=%s,hostnqn=nqn.2014-08.org.nvmexpress:uuid:%s,"
                                + "hostid=%s,reconnect_delay=1,ctrl_loss_tmo=60%s")
                        .formatted(
                                target.getAddress().getHostAddress(),
                                target.getPort(),
                                name,
                                id,
                                id,
                                options);
        try (RandomAccessFile file = new RandomAccessFile(FABRICS.toFile(), "rw")) {
            file.write(words.getBytes(StandardCharsets.US_ASCII));
            byte[] answer = new byte[256];
            int length = file.read(answer);
            Matcher matcher =
                    INSTANCE.matcher(new String(answer, 0, length, StandardCharsets.US_ASCII));
            assertThat(matcher.find()).isTrue();
            return new KernelHost(Integer.parseInt(matcher.group(1)));
        }
    }

    /**
     * The first disk, once the kernel has looked at it. This host's path to it is a device like
     * nvme0c1n1; the disk, nvme0n1, is that of all paths.
     */
    Path disk() {
        String name =
                Kernel.run(
                        """
                        for i in $(seq 300); do
                            for path in /sys/class/nvme/nvme%d/nvme*n*; do
                                disk=$(basename $path | sed 's/c[0-9]*n/n/')
                                if [ -b /dev/$disk ] && [ "$(cat /sys/block/$disk/size)" -gt 0 ]; then
                                    echo $disk
                                    exit
                                fi
                            done
                            sleep 0.1
                        done
                        exit 1
                        """
                                .formatted(instance));
        return Path.of("/dev", name.strip());
    }

    Path device() {
        return Path.of("/dev/nvme" + instance);
    }

    private Path attribute(String name) {
        return Path.of("/sys/class/nvme/nvme%d/%s".formatted(instance, name));
    }

    String state() throws IOException {
        return Files.readString(attribute("state")).strip();
    }

    /** How many queues it has, with the admin queue. */
    int queues() throws IOException {
        return Integer.parseInt(Files.readString(attribute("queue_count")).strip());
    }

    /** As after an error: all queues are connected anew. */
    void reset() {
        Kernel.run("echo 1 >" + attribute("reset_controller"));
    }

    @Override
    public void close() {
        if (Files.exists(attribute("delete_controller"))) {
            Kernel.run("echo 1 >" + attribute("delete_controller"));
        }
    }
}
