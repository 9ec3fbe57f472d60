package dev.verbena;

import org.jspecify.annotations.Nullable;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.NetworkInterface;
import java.net.SocketException;

/** The network interfaces of this machine, and its routes. */
final class LocalNetwork implements AdapterLookup.Network {
    private static final int DISCARD = 9; // any port: connecting a UDP socket sends nothing

    @Override
    public AdapterLookup.@Nullable Interface interfaceOf(InetAddress address) {
        try {
            NetworkInterface found = NetworkInterface.getByInetAddress(address);
            return found == null
                    ? null
                    : new AdapterLookup.Interface(found.getIndex(), found.getName());
        } catch (SocketException e) {
            return null;
        }
    }

    @Override
    public String name(int index) {
        try {
            NetworkInterface found = index == 0 ? null : NetworkInterface.getByIndex(index);
            return found == null ? "" : found.getName();
        } catch (SocketException e) {
            return "";
        }
    }

    @Override
    public @Nullable InetAddress sourceTowards(InetAddress peer) {
        try (DatagramSocket socket = new DatagramSocket()) {
            socket.connect(new InetSocketAddress(peer, DISCARD));
            return socket.getLocalAddress();
        } catch (IOException | UncheckedIOException e) {
            return null;
        }
    }
}
