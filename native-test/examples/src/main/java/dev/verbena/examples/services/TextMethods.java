package dev.verbena.examples.services;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;

/** What protoc generates from a service's description, by hand: this build runs no protoc. */
final class TextMethods {
    static final String SERVICE = "verbena.Texts";
    static final MethodDescriptor<String, String> UPPER = method("Upper", MethodType.UNARY);
    static final MethodDescriptor<String, String> COUNT =
            method("Count", MethodType.SERVER_STREAMING);
    static final MethodDescriptor<String, String> JOIN =
            method("Join", MethodType.CLIENT_STREAMING);
    static final MethodDescriptor<String, String> CHAT = method("Chat", MethodType.BIDI_STREAMING);

    private static final class Text implements MethodDescriptor.Marshaller<String> {
        @Override
        public InputStream stream(String text) {
            return new ByteArrayInputStream(text.getBytes(UTF_8));
        }

        @Override
        public String parse(InputStream stream) {
            try {
                return new String(stream.readAllBytes(), UTF_8);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }

    private TextMethods() {}

    private static MethodDescriptor<String, String> method(String name, MethodType type) {
        return MethodDescriptor.newBuilder(new Text(), new Text())
                .setType(type)
                .setFullMethodName(MethodDescriptor.generateFullMethodName(SERVICE, name))
                .build();
    }
}
