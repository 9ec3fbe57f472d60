package dev.verbena.messaging;

import static dev.verbena.messaging.FakeFabric.port;

import java.io.File;
import java.lang.foreign.MemorySegment;
import java.lang.ref.ReferenceQueue;
import java.lang.ref.WeakReference;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/**
 * A server that loads an application, and the library with it, in a class loader of its own, and
 * drops it: no thread and no object keeps its classes. {@link ConnectionLeaksTest} starts it.
 */
final class UndeployedOnFakeFabric {
    private static final Duration LONG = Duration.ofSeconds(60);

    private UndeployedOnFakeFabric() {}

    /** Takes no arguments. */
    public static void main(String[] arguments) throws Exception {
        ReferenceQueue<ClassLoader> collected = new ReferenceQueue<>();
        WeakReference<ClassLoader> application = new WeakReference<>(deployAndDrop(), collected);
        for (int i = 0; i < 300 && !application.refersTo(null); i++) {
            System.gc();
            var _ = collected.remove(100); // idle threads of callbacks take 5 s to end
        }
        System.exit(application.refersTo(null) ? 0 : 1);
    }

    private static ClassLoader deployAndDrop() throws Exception {
        List<URL> path = new ArrayList<>();
        for (String entry : System.getProperty("java.class.path").split(File.pathSeparator)) {
            path.add(Path.of(entry).toUri().toURL());
        }
        ClassLoader system = Thread.currentThread().getContextClassLoader();
        try (URLClassLoader application =
                new URLClassLoader(path.toArray(URL[]::new), system.getParent())) {
            Thread.currentThread().setContextClassLoader(application);
            Method serve =
                    application
                            .loadClass(UndeployedOnFakeFabric.class.getName())
                            .getDeclaredMethod("serve");
            serve.setAccessible(true);
            Object ignored = serve.invoke(null);
            return application;
        } finally {
            Thread.currentThread().setContextClassLoader(system);
        }
    }

    static void serve() throws InterruptedException {
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                MessageServer server =
                        MessageServer.listen(
                                poller,
                                port(7473),
                                MessagingOptions.DEFAULTS,
                                1,
                                null,
                                channel -> {});
                MessageChannel channel =
                        MessageChannel.connect(
                                poller, server.localAddress(), MessagingOptions.DEFAULTS, null)) {
            channel.send(MemorySegment.ofArray(new byte[20]), LONG);
        }
    }
}
