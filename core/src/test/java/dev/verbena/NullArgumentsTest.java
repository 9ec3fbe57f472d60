package dev.verbena;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.importer.ClassFileImporter;

import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

import java.lang.reflect.Constructor;
import java.lang.reflect.Executable;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Parameter;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Set;
import java.util.stream.Stream;

/** What a program calls first says which argument is null: static methods and constructors. */
class NullArgumentsTest {
    private static final Set<String> EXPORTED = Set.of("dev.verbena", "dev.verbena.messaging");

    @TestFactory
    Stream<DynamicTest> entryPointsNameTheArgumentThatIsNull() {
        return new ClassFileImporter()
                .importPath(Path.of("target/classes")).stream()
                        .filter(type -> EXPORTED.contains(type.getPackageName()))
                        .map(JavaClass::reflect)
                        .filter(type -> isPublic(type) && !type.isEnum() && !type.isRecord())
                        .flatMap(
                                type ->
                                        Stream.concat(
                                                Arrays.stream(type.getDeclaredMethods()),
                                                Arrays.stream(type.getDeclaredConstructors())))
                        .filter(NullArgumentsTest::takesAnObjectFromAProgram)
                        .map(
                                entry ->
                                        DynamicTest.dynamicTest(
                                                entry.toString(), () -> namesTheArgument(entry)));
    }

    private static boolean isPublic(Class<?> type) {
        return Modifier.isPublic(type.getModifiers());
    }

    private static boolean takesAnObjectFromAProgram(Executable entry) {
        boolean enters = !(entry instanceof Method) || Modifier.isStatic(entry.getModifiers());
        return enters
                && Modifier.isPublic(entry.getModifiers())
                && !entry.isSynthetic()
                && Arrays.stream(entry.getParameters()).anyMatch(NullArgumentsTest::isRequired);
    }

    private static boolean isRequired(Parameter parameter) {
        return !parameter.getType().isPrimitive()
                && !parameter.getAnnotatedType().isAnnotationPresent(Nullable.class);
    }

    private static void namesTheArgument(Executable entry) {
        Object[] arguments =
                Arrays.stream(entry.getParameterTypes()).map(NullArgumentsTest::some).toArray();
        assertThatThrownBy(() -> call(entry, arguments))
                .isInstanceOf(NullPointerException.class)
                .hasMessageMatching("\\w+ must not be null");
    }

    private static void call(Executable entry, Object[] arguments) throws Throwable {
        try {
            if (entry instanceof Method method) {
                method.invoke(null, arguments);
            } else {
                ((Constructor<?>) entry).newInstance(arguments);
            }
        } catch (InvocationTargetException e) {
            throw e.getCause();
        }
    }

    private static @Nullable Object some(Class<?> type) {
        return type == int.class
                ? (Object) 1
                : type == long.class ? (Object) 1L : type == boolean.class ? true : null;
    }
}
