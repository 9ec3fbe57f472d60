package dev.verbena;

import static com.tngtech.archunit.core.domain.JavaClass.Predicates.resideInAPackage;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.resideInAnyPackage;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.type;
import static com.tngtech.archunit.core.domain.JavaModifier.FINAL;
import static com.tngtech.archunit.core.domain.JavaModifier.STATIC;
import static com.tngtech.archunit.core.domain.properties.HasModifiers.Predicates.modifier;
import static com.tngtech.archunit.lang.conditions.ArchConditions.be;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.classes;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.fields;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static com.tngtech.archunit.library.dependencies.SlicesRuleDefinition.slices;

import static org.assertj.core.api.Assertions.assertThat;

import com.tngtech.archunit.base.DescribedPredicate;
import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.domain.JavaClasses;
import com.tngtech.archunit.core.domain.JavaCodeUnit;
import com.tngtech.archunit.core.domain.JavaModifier;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.lang.ArchRule;

import dev.verbena.internal.verbs.CoarseClock;

import org.junit.jupiter.api.Test;

import java.lang.foreign.Linker;
import java.lang.foreign.SymbolLookup;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;

/** Which package may see which: the API the internal ones, and only one of those native code. */
class ArchitectureTest {
    private static final String API = "dev.verbena";
    private static final String CHANNELS = "dev.verbena.messaging";
    private static final String DEVICE = "dev.verbena.internal.device";
    private static final String QUEUE = "dev.verbena.internal.queue";
    private static final String CONNECTIONS = "dev.verbena.internal.connect";
    private static final String RUNTIME = "dev.verbena.internal.runtime";
    private static final String EVENTS = "dev.verbena.internal.events";
    private static final String FLIGHT_RECORDER = "jdk.jfr";
    private static final String UTIL = "dev.verbena.internal.util";
    private static final String VERBS = "dev.verbena.internal.verbs";
    private static final String BINDINGS = "dev.verbena.bindings";

    private final JavaClasses all = new ClassFileImporter().importPath(Path.of("target/classes"));

    private void check(ArchRule rule) {
        rule.check(all);
    }

    /** What internal packages know of the API: values, and no object that has a state. */
    private static final Set<String> VALUE_TYPES =
            Set.of(
                    "AdapterEvent$Registration",
                    "AdapterEvent$Type",
                    "AdapterInfo",
                    "CompletionQueueCounters",
                    "ConnectionCounters",
                    "ConnectionData",
                    "ConnectionInfo",
                    "Gid",
                    "GidChoice",
                    "HugePages",
                    "LocalEndpoint",
                    "MemoryOptions",
                    "NotifyType",
                    "OnDemandPaging",
                    "OperationType",
                    "Peer",
                    "Port",
                    "PostResult",
                    "QueuePairAddress",
                    "QueuePairLimits",
                    "QueuePairState",
                    "RequestCounters",
                    "Status",
                    "VerbenaException");

    private static final DescribedPredicate<JavaClass> VALUES =
            DescribedPredicate.describe(
                    "are value types of the API", type -> isValue(type.getBaseComponentType()));

    private static boolean isValue(JavaClass type) {
        String name = type.getName().substring(type.getPackageName().length() + 1);
        return type.getPackageName().equals(API)
                && VALUE_TYPES.stream().anyMatch(one -> (name + "$").startsWith(one + "$"));
    }

    private static ArchRule onlySees(String one, String... others) {
        List<String> allowed = new ArrayList<>(List.of(others));
        allowed.add(one);
        allowed.add("java..");
        allowed.add("com.google.errorprone.annotations"); // not there at run time
        allowed.add("org.jspecify.annotations");
        allowed.add(UTIL); // knows nothing of what a package does
        return classes()
                .that()
                .resideInAPackage(one)
                .should()
                .onlyDependOnClassesThat(
                        resideInAnyPackage(allowed.toArray(String[]::new)).or(VALUES));
    }

    @Test
    void arrowsPointDownwards() {
        // Nothing internal but a clock: the API suffices.
        check(onlySees(CHANNELS, API, FLIGHT_RECORDER, VERBS));
        check(
                noClasses()
                        .that(resideInAPackage(CHANNELS))
                        .should()
                        .dependOnClassesThat(
                                resideInAPackage(VERBS)
                                        .and(DescribedPredicate.not(type(CoarseClock.class)))));
        check(onlySees(UTIL));
        check(onlySees(API, DEVICE, QUEUE, CONNECTIONS, RUNTIME, VERBS, EVENTS));
        check(onlySees(EVENTS, FLIGHT_RECORDER));
        check(onlySees(DEVICE, QUEUE, CONNECTIONS, RUNTIME, VERBS, EVENTS));
        check(onlySees(QUEUE, RUNTIME, VERBS, EVENTS));
        check(onlySees(CONNECTIONS, RUNTIME, VERBS));
        check(onlySees(RUNTIME, VERBS, EVENTS));
        check(onlySees(VERBS, BINDINGS));
        check(slices().matching("dev.verbena.(**)").should().beFreeOfCycles());
    }

    @Test
    void onePackageCallsNativeCode() {
        check(
                noClasses()
                        .that(resideInAPackage("dev.verbena..").and(not(VERBS)))
                        .should()
                        .dependOnClassesThat()
                        .belongToAnyOf(Linker.class, SymbolLookup.class));
    }

    private static DescribedPredicate<JavaClass> not(String one) {
        return DescribedPredicate.not(resideInAPackage(one));
    }

    @Test
    void nobodyKeepsStateInStaticFields() {
        check(fields().that(modifier(STATIC)).should(be(modifier(FINAL))));
    }

    @Test
    void nothingIsReflectedAndNothingOfTheJdkIsOpenedUp() {
        check(
                noClasses()
                        .should()
                        .dependOnClassesThat(
                                resideInAnyPackage("sun..", "jdk..", "java.lang.reflect..")
                                        .and(not(FLIGHT_RECORDER))));
    }

    /** Users would see types that are not exported. */
    @Test
    void theApiNamesNoInternalType() {
        List<String> leaks = new ArrayList<>();
        for (JavaCodeUnit member : publicMembersOf(API)) {
            List<JavaClass> named = new ArrayList<>(member.getRawParameterTypes());
            named.add(member.getRawReturnType());
            named.stream()
                    .filter(one -> one.getPackageName().startsWith("dev.verbena.internal"))
                    .forEach(one -> leaks.add(member.getFullName() + ": " + one.getName()));
        }
        assertThat(leaks).isEmpty();
    }

    /** With a queue of a poller, the program of one channel could harm all others. */
    @Test
    void channelsGiveOutNoQueues() {
        assertThat(publicMembersOf(CHANNELS))
                .isNotEmpty()
                .extracting(JavaCodeUnit::getRawReturnType)
                .extracting(JavaClass::getName)
                .doesNotContain(
                        QueuePair.class.getName(),
                        CompletionQueue.class.getName(),
                        CompletionChannel.class.getName(),
                        SharedReceiveQueue.class.getName());
    }

    private List<JavaCodeUnit> publicMembersOf(String packageName) {
        return all.stream()
                .filter(type -> type.getPackageName().equals(packageName))
                .filter(type -> type.getModifiers().contains(JavaModifier.PUBLIC))
                .flatMap(type -> type.getCodeUnits().stream())
                .filter(
                        member ->
                                member.getModifiers().contains(JavaModifier.PUBLIC)
                                        || member.getModifiers().contains(JavaModifier.PROTECTED))
                .toList();
    }
}
