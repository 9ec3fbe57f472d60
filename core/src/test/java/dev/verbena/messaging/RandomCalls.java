package dev.verbena.messaging;

import dev.verbena.Access;
import dev.verbena.BufferList;
import dev.verbena.Completions;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.QueuePairLimits;
import dev.verbena.RemoteMemory;
import dev.verbena.VerbenaException;

import java.lang.foreign.Arena;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.reflect.Array;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeoutException;

/**
 * Calls public methods of the library's objects in random order with random arguments, and keeps
 * what they return, open or closed, for more of that. Several threads may do so with the same
 * objects; only what the manual has the caller serialize is serialized.
 */
final class RandomCalls {
    /** What the documents name; anything else is an error of the library. */
    private static final List<Class<? extends Throwable>> DOCUMENTED =
            List.of(
                    IllegalArgumentException.class,
                    IllegalStateException.class,
                    IndexOutOfBoundsException.class,
                    UnsupportedOperationException.class,
                    WrongThreadException.class,
                    VerbenaException.class,
                    TimeoutException.class,
                    CancellationException.class,
                    InterruptedException.class);

    /** They wait without a deadline, or are of one thread, or of Object. */
    private static final Set<String> LEFT_OUT =
            Set.of("await", "run", "equals", "hashCode", "getClass", "wait", "notify", "notifyAll");

    private static final int MOST_OF_A_KIND = 6;
    private static final int[] NUMBERS = {-1, 0, 1, 2, 3, 8, 64, 100, 4096};

    private final Map<Class<?>, List<Object>> objects = new ConcurrentHashMap<>();
    private final Set<Object> roots = ConcurrentHashMap.newKeySet();
    private final List<String> wrong;
    private final Set<String> called = ConcurrentHashMap.newKeySet();
    private volatile boolean ended;

    RandomCalls(List<String> wrong) {
        this.wrong = wrong;
    }

    /** One that is closed at the end, as all others depend on it. */
    void root(Object object) {
        roots.add(object);
        kept(object);
    }

    /**
     * Keeps what a call returned, or a callback was given, for more calls. After {@link #closeAll},
     * it is closed at once.
     */
    void kept(Object object) {
        if (object instanceof CompletableFuture<?> future) {
            var _ = future.thenAccept(this::kept);
        } else if (object instanceof AutoCloseable && isOurs(object.getClass())) {
            List<Object> some =
                    objects.computeIfAbsent(object.getClass(), type -> new ArrayList<>());
            Object surplus = null;
            synchronized (some) {
                if (ended) {
                    surplus = object;
                } else if (some.stream().noneMatch(one -> one == object)) {
                    some.add(object);
                    surplus = some.size() > MOST_OF_A_KIND ? some.removeFirst() : null;
                }
            }
            if (surplus != null && surplus != object && roots.contains(surplus)) {
                kept(surplus);
            } else if (surplus != null) {
                close(surplus);
            }
        }
    }

    private static boolean isOurs(Class<?> type) {
        return type.getPackageName().equals("dev.verbena")
                || type.getPackageName().equals("dev.verbena.messaging");
    }

    private void close(Object object) {
        try {
            ((AutoCloseable) object).close();
        } catch (Throwable t) {
            check("close of " + object.getClass().getSimpleName(), t);
        }
    }

    /** All that are left; those that others are made of last. */
    void closeAll() {
        ended = true;
        List<Object> all = new ArrayList<>();
        for (List<Object> some : objects.values()) {
            synchronized (some) {
                all.addAll(some);
            }
        }
        all.sort(Comparator.comparing(roots::contains));
        all.forEach(this::close);
    }

    /** The methods that were called, as "QueuePair.send". */
    Set<String> called() {
        return called;
    }

    /** Makes so many calls. */
    void run(Random random, int calls) {
        try {
            for (int i = 0; i < calls; i++) {
                call(random);
            }
        } catch (Throwable t) {
            wrong.add("%s of the test itself at %s".formatted(t, top(t)));
        }
    }

    private void call(Random random) {
        Object target = pooled(Object.class, random);
        if (target == null) {
            return;
        }
        List<Method> methods =
                Arrays.stream(target.getClass().getMethods())
                        .filter(method -> !Modifier.isStatic(method.getModifiers()))
                        .filter(method -> !LEFT_OUT.contains(method.getName()))
                        .sorted(Comparator.comparing(Method::toString))
                        .toList();
        Method method = methods.get(random.nextInt(methods.size()));
        boolean ends = method.getName().startsWith("close") || method.getName().equals("stop");
        if (ends && roots.contains(target)) {
            return;
        }
        Object[] arguments = new Object[method.getParameterCount()];
        for (int i = 0; i < arguments.length; i++) {
            arguments[i] = some(method.getParameterTypes()[i], random);
            if (arguments[i] == null) {
                return;
            }
        }
        String name = target.getClass().getSimpleName() + "." + method.getName();
        called.add(name);
        try {
            method.setAccessible(true);
            kept(invoke(method, target, arguments));
        } catch (InvocationTargetException e) {
            check(name + Arrays.toString(method.getParameterTypes()), e.getCause());
        } catch (IllegalAccessException e) {
            throw new AssertionError(e);
        }
    }

    /** Posts to a queue, and polls and arms of a queue, are the caller's to serialize. */
    private static Object invoke(Method method, Object target, Object[] arguments)
            throws InvocationTargetException, IllegalAccessException {
        boolean serial =
                method.getName().startsWith("arm")
                        || Arrays.stream(method.getParameterTypes())
                                .anyMatch(
                                        type ->
                                                type == BufferList.class
                                                        || type == Completions.class)
                        || method.getReturnType().getSimpleName().equals("PostResult");
        if (serial && !(target instanceof MessageChannel)) {
            synchronized (target) {
                return method.invoke(target, arguments);
            }
        }
        return method.invoke(target, arguments);
    }

    private void check(String call, Throwable thrown) {
        if (DOCUMENTED.stream().noneMatch(type -> type.isInstance(thrown))) {
            wrong.add("%s: %s at %s".formatted(call, thrown, top(thrown)));
        }
    }

    private static List<StackTraceElement> top(Throwable thrown) {
        return Arrays.stream(thrown.getStackTrace()).limit(6).toList();
    }

    // ---- arguments

    /** Null if there is none. */
    private Object some(Class<?> type, Random random) {
        if (type == int.class) {
            return NUMBERS[random.nextInt(NUMBERS.length)];
        } else if (type == long.class) {
            return (long) NUMBERS[random.nextInt(NUMBERS.length)];
        } else if (type == boolean.class) {
            return random.nextBoolean();
        } else if (type == Duration.class) {
            return Duration.ofMillis(random.nextInt(-1, 20));
        } else if (type == MemorySegment.class) {
            return random.nextBoolean()
                    ? MemorySegment.ofArray(new byte[random.nextInt(200)])
                    : Arena.ofAuto().allocate(random.nextInt(200));
        } else if (type == BufferList.class) {
            return buffers(random);
        } else if (type == Completions.class) {
            return new Completions(random.nextInt(1, 9));
        } else if (type == RemoteMemory.class) {
            return some(MemoryRegion.class, random) instanceof MemoryRegion region
                            && region.remoteMemory() instanceof RemoteMemory memory
                    ? memory
                    : null;
        } else if (type == OpFlags.class || isOptions(type)) {
            return constant(type, type, random);
        } else if (MemoryLayout.class.isAssignableFrom(type)) {
            return constant(ValueLayout.class, type, random);
        } else if (type == Access[].class) {
            return new Access[] {Access.values()[random.nextInt(Access.values().length)]};
        } else if (type == QueuePairLimits.class) {
            return QueuePairLimits.depths(random.nextInt(1, 9), random.nextInt(1, 9));
        } else if (type == InetSocketAddress.class) {
            return FakeFabric.port(7480 + random.nextInt(4));
        } else if (type == InetAddress.class) {
            return FakeFabric.HERE;
        } else if (type == Object.class || type == String.class) {
            return "some";
        } else if (type == byte[].class) {
            return new byte[random.nextInt(100)];
        } else if (type.isArray()) {
            Object element = some(type.getComponentType(), random);
            Object array = element == null ? null : Array.newInstance(type.getComponentType(), 1);
            if (array != null) {
                Array.set(array, 0, element);
            }
            return array;
        } else if (type.isEnum()) {
            return type.getEnumConstants()[random.nextInt(type.getEnumConstants().length)];
        } else if (type == Executor.class) {
            return (Executor) Thread::startVirtualThread; // one that loses no task
        } else if (type.isInterface() && !AutoCloseable.class.isAssignableFrom(type)) {
            return callback(type);
        }
        return pooled(type, random);
    }

    /**
     * One of a random kind; null if there is none, or another thread is about to add the first of
     * that kind.
     */
    private Object pooled(Class<?> type, Random random) {
        List<List<Object>> kinds =
                objects.entrySet().stream()
                        .filter(entry -> type.isAssignableFrom(entry.getKey()))
                        .sorted(Comparator.comparing(entry -> entry.getKey().getName()))
                        .map(Map.Entry::getValue)
                        .toList();
        if (kinds.isEmpty()) {
            return null;
        }
        List<Object> some = kinds.get(random.nextInt(kinds.size()));
        synchronized (some) {
            return some.isEmpty() ? null : some.get(random.nextInt(some.size()));
        }
    }

    private BufferList buffers(Random random) {
        BufferList buffers = new BufferList(4);
        for (int i = random.nextInt(3); i > 0; i--) {
            if (pooled(MemoryRegion.class, random) instanceof MemoryRegion region) {
                try {
                    buffers.add(region, random.nextInt(3), random.nextInt(64));
                } catch (RuntimeException e) {
                    check("BufferList.add", e);
                }
            }
        }
        return buffers;
    }

    private static boolean isOptions(Class<?> type) {
        return isOurs(type) && type.getSimpleName().endsWith("Options");
    }

    /** A public constant of a class; null if it has none of this type. */
    private static Object constant(Class<?> of, Class<?> type, Random random) {
        List<Object> constants = new ArrayList<>();
        for (var field : of.getFields()) {
            if (Modifier.isStatic(field.getModifiers()) && type.isAssignableFrom(field.getType())) {
                try {
                    constants.add(field.get(null));
                } catch (IllegalAccessException e) {
                    throw new AssertionError(e);
                }
            }
        }
        return constants.isEmpty() ? null : constants.get(random.nextInt(constants.size()));
    }

    /** Does nothing but keep what it is given. */
    private Object callback(Class<?> type) {
        return Proxy.newProxyInstance(
                RandomCalls.class.getClassLoader(),
                new Class<?>[] {type},
                (proxy, method, arguments) -> {
                    switch (method.getName()) {
                        case "hashCode" -> {
                            return System.identityHashCode(proxy);
                        }
                        case "equals" -> {
                            return proxy == arguments[0];
                        }
                        case "toString" -> {
                            return "callback";
                        }
                        default -> {}
                    }
                    if (arguments != null) {
                        for (Object argument : arguments) {
                            if (!(argument instanceof Message)
                                    && !(argument instanceof RawMessage)) {
                                kept(argument);
                            }
                        }
                    }
                    Class<?> result = method.getReturnType();
                    return result == boolean.class
                            ? (Object) false
                            : result == int.class
                                    ? (Object) 0
                                    : result == long.class ? (Object) 0L : null;
                });
    }
}
