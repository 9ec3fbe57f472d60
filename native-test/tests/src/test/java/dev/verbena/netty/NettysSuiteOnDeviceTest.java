package dev.verbena.netty;

import static org.assertj.core.api.Assumptions.assumeThat;

import dev.verbena.nativetest.NeedsDevices;
import dev.verbena.trust.Trust;

import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;

/** Netty's tests of sockets, on the first device. Minutes, so in the whole suite only. */
@NeedsDevices
@Tag("trust")
class NettysSuiteOnDeviceTest extends NettysSuite {
    @BeforeAll
    static void onlyInTheWholeSuite() {
        assumeThat(Trust.WHOLE).as(Trust.ONLY_WHOLE).isTrue();
    }
}
