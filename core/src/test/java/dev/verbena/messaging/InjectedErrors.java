package dev.verbena.messaging;

import org.jspecify.annotations.Nullable;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Control calls of a device or a network that throw an Error at a step which a test chooses. Calls
 * that destroy something are no steps: they need no memory.
 */
final class InjectedErrors {
    private static final Set<String> STEPS =
            Set.of(
                    "allocatePd",
                    "registerMemory",
                    "allocateWindow",
                    "createChannel",
                    "createCq",
                    "createSrq",
                    "createQp",
                    "toInit",
                    "change",
                    "create",
                    "bind",
                    "listen",
                    "resolveRoute",
                    "connect",
                    "accept",
                    "establish",
                    "reject",
                    "disconnect",
                    "describe",
                    "fillIn");

    private final AtomicInteger left = new AtomicInteger(-1);
    private volatile @Nullable String thrown;

    /** From now on, the step with this number throws, once. */
    void at(int step) {
        thrown = null;
        left.set(step);
    }

    /** From now on, no step throws. */
    void none() {
        left.set(-1);
    }

    /** The step that threw; null if none did. */
    @Nullable String thrown() {
        return thrown;
    }

    <T> T before(Class<T> type, T real) {
        return type.cast(
                Proxy.newProxyInstance(
                        type.getClassLoader(),
                        new Class<?>[] {type},
                        (proxy, method, arguments) -> {
                            if (STEPS.contains(method.getName())
                                    && left.get() >= 0
                                    && left.getAndDecrement() == 0) {
                                thrown = method.getName();
                                throw new OutOfMemoryError("injected into " + method.getName());
                            }
                            try {
                                return method.invoke(real, arguments);
                            } catch (InvocationTargetException e) {
                                throw e.getCause();
                            }
                        }));
    }
}
