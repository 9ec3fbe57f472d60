package dev.verbena.internal.verbs;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

class LibrariesTest {
    @Test
    void aMissingLibraryIsOneSentenceWithThePackagesToInstall() {
        assertThat(
                        Libraries.problemWith(
                                "libnot-there.so.1", "any", "some-debian-package", "some-fedora"))
                .isEqualTo(
                        "libnot-there.so.1, a library of rdma-core, cannot be loaded: install it with"
                                + " \"apt install some-debian-package\" (Debian, Ubuntu) or \"dnf install some-fedora\" (Fedora)");
    }

    @Test
    void aPresentLibraryIsNoProblem() {
        assertThat(Libraries.problemWith("libc.so.6", "malloc", "libc6", "glibc")).isEmpty();
    }

    /** A class that calls a function that is not there could never be initialized. */
    @Test
    void aLibraryThatIsTooOldIsOneSentence() {
        assertThat(Libraries.problemWith("libc.so.6", "new_function", "libc6", "glibc"))
                .isEqualTo(
                        "libc.so.6 is too old, it has no new_function: rdma-core 44 or newer is needed");
    }
}
