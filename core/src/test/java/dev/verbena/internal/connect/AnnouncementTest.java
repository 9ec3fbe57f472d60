package dev.verbena.internal.connect;

import static org.assertj.core.api.Assertions.assertThat;

import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.Size;

import org.junit.jupiter.api.Test;

import java.util.Arrays;
import java.util.HexFormat;

/** The bytes in front of private data. */
class AnnouncementTest {
    @Test
    void isWhatTheDocumentationSays() {
        byte[] bytes = new Announcement(true, false, 16, 258, new byte[] {7, 8}).bytes();
        assertThat(HexFormat.of().formatHex(bytes)).isEqualTo("56626e6101010c02001001020708");
        byte[] shared = new Announcement(false, true, 0, 0, new byte[0]).bytes();
        assertThat(shared[5]).isEqualTo((byte) 2);
    }

    @Property(tries = 200)
    void comesBackFromBehindThePadding(
            @ForAll boolean invalidatable,
            @ForAll boolean shared,
            @ForAll @IntRange(max = 65535) int inbound,
            @ForAll @IntRange(max = 65535) int outbound,
            @ForAll @Size(max = 184) byte[] data) {
        byte[] sent = new Announcement(invalidatable, shared, inbound, outbound, data).bytes();
        Announcement read = Announcement.read(Arrays.copyOf(sent, 196));
        assertThat(read.data()).isEqualTo(data);
        assertThat(read.invalidatable()).isEqualTo(invalidatable);
        assertThat(read.sharedReceives()).isEqualTo(shared);
        assertThat(read.inboundReads()).isEqualTo(inbound);
        assertThat(read.outboundReads()).isEqualTo(outbound);
    }

    @Property(tries = 500)
    void whateverComesIsReadOrNot(@ForAll @Size(max = 196) byte[] received) {
        byte[] hostile = received.clone();
        if (hostile.length > 4) {
            System.arraycopy(HexFormat.of().parseHex("56626e61"), 0, hostile, 0, 4);
        }
        Announcement read = Announcement.read(hostile);
        assertThat(read == null || read.data().length <= hostile.length - 12).isTrue();
    }

    @Test
    void standsAloneWhereTheNetworkDoesNotPad() {
        byte[] alone = new Announcement(true, false, 1, 2, new byte[0]).bytes();
        assertThat(alone).hasSize(12);
        assertThat(Announcement.read(alone).outboundReads()).isEqualTo(2);
    }

    @Test
    void laterVersionsMayAddToIt() {
        byte[] later = HexFormat.of().parseHex("56626e6102010e0200100102aabb0708");
        assertThat(Announcement.read(later).data()).containsExactly(7, 8);
    }

    @Test
    void othersAreOfAnotherMake() {
        for (String foreign :
                new String[] {
                    "",
                    "56626e61",
                    "56626e6001010c00001000100000",
                    "56626e6100010c00001000100000",
                    "56626e6101010b00001000100000",
                    "56626e6101010c03001000100000"
                }) {
            assertThat(Announcement.read(HexFormat.of().parseHex(foreign))).as(foreign).isNull();
        }
    }
}
