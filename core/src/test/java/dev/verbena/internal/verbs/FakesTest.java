package dev.verbena.internal.verbs;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Arrays;
import java.util.List;

/** A method that a fake does not override would call native code with the address of nothing. */
class FakesTest {
    private static List<String> publicMethods(Class<?> type) {
        return Arrays.stream(type.getDeclaredMethods())
                .filter(method -> Modifier.isPublic(method.getModifiers()))
                .filter(method -> !method.isBridge())
                .map(FakesTest::signature)
                .toList();
    }

    private static String signature(Method method) {
        return method.getName() + Arrays.toString(method.getParameterTypes());
    }

    @Test
    void theFakeDeviceOverridesEveryControlCall() {
        assertThat(publicMethods(FakeDevice.class)).containsAll(publicMethods(DeviceControl.class));
    }

    @Test
    void theFakeNetworkOverridesEveryCallOfTheConnectionManager() {
        assertThat(publicMethods(FakeConnections.class))
                .containsAll(publicMethods(ConnectionControl.class));
    }
}
