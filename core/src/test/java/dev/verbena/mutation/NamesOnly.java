package dev.verbena.mutation;

import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.InvocationInterceptor;
import org.junit.jupiter.api.extension.ReflectiveInvocationContext;

import java.lang.reflect.Method;

/**
 * Skips the bodies of tests where PIT only wants to know which tests there are. It asks that in
 * each JVM that it starts, one for each change that hangs, by running all tests of the part. The
 * profile "mutation" turns this on, by the detection of extensions.
 */
public final class NamesOnly implements InvocationInterceptor {
    private static final boolean PIT_ASKS =
            StackWalker.getInstance().walk(f -> f.anyMatch(NamesOnly::isMutationJvm));

    private static boolean isMutationJvm(StackWalker.StackFrame frame) {
        return frame.getClassName().equals("org.pitest.mutationtest.execute.MutationTestMinion");
    }

    private static boolean isFinder(StackWalker.StackFrame frame) {
        return frame.getClassName().equals("org.pitest.junit5.JUnit5TestUnitFinder");
    }

    @Override
    public void interceptTestMethod(
            Invocation<Void> test,
            ReflectiveInvocationContext<Method> invoked,
            ExtensionContext context)
            throws Throwable {
        proceedOrSkip(test);
    }

    @Override
    public void interceptTestTemplateMethod(
            Invocation<Void> test,
            ReflectiveInvocationContext<Method> invoked,
            ExtensionContext context)
            throws Throwable {
        proceedOrSkip(test);
    }

    private static void proceedOrSkip(Invocation<Void> test) throws Throwable {
        if (PIT_ASKS && StackWalker.getInstance().walk(f -> f.anyMatch(NamesOnly::isFinder))) {
            test.skip();
        } else {
            test.proceed();
        }
    }
}
