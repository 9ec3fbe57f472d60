package dev.verbena.tools;

import java.util.Locale;
import java.util.Map;

/** Writes maps, lists, numbers, booleans, null and texts as JSON, in one line. */
final class Json {
    private Json() {}

    static String of(Map<String, ?> object) {
        StringBuilder text = new StringBuilder();
        append(text, object);
        return text.toString();
    }

    private static void append(StringBuilder text, Object value) {
        switch (value) {
            case Map<?, ?> map -> {
                String separator = "{";
                for (Map.Entry<?, ?> entry : map.entrySet()) {
                    text.append(separator);
                    quote(text, entry.getKey().toString());
                    text.append(':');
                    append(text, entry.getValue());
                    separator = ",";
                }
                text.append(map.isEmpty() ? "{}" : "}");
            }
            case Iterable<?> list -> {
                String separator = "";
                text.append('[');
                for (Object one : list) {
                    text.append(separator);
                    append(text, one);
                    separator = ",";
                }
                text.append(']');
            }
            case Double number -> text.append(String.format(Locale.ROOT, "%.6f", number));
            case Number number -> text.append(number);
            case Boolean truth -> text.append(truth);
            case null -> text.append("null");
            default -> quote(text, value.toString());
        }
    }

    private static void quote(StringBuilder text, String words) {
        text.append('"');
        for (int i = 0; i < words.length(); i++) {
            char one = words.charAt(i);
            if (one == '"' || one == '\\') {
                text.append('\\').append(one);
            } else if (one < ' ') {
                text.append(String.format(Locale.ROOT, "\\u%04x", (int) one));
            } else {
                text.append(one);
            }
        }
        text.append('"');
    }
}
