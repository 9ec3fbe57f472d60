package dev.verbena.bench.report;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Reads what JMH and Perf write: objects become maps, arrays lists, numbers doubles. One JSON text
 * may hold several values, one after the other.
 */
final class Json {
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** All values of a text. */
    static List<Object> values(String text) {
        Json json = new Json(text);
        List<Object> values = new ArrayList<>();
        while (json.peek() != 0) {
            values.add(json.value());
        }
        return values;
    }

    private Object value() {
        return switch (peek()) {
            case '{' -> object();
            case '[' -> array();
            case '"' -> string();
            default -> word();
        };
    }

    private Map<String, Object> object() {
        Map<String, Object> members = new LinkedHashMap<>();
        expect('{');
        while (peek() != '}') {
            if (!members.isEmpty()) {
                expect(',');
            }
            peek();
            String name = string();
            expect(':');
            members.put(name, value());
        }
        expect('}');
        return members;
    }

    private List<Object> array() {
        List<Object> elements = new ArrayList<>();
        expect('[');
        while (peek() != ']') {
            if (!elements.isEmpty()) {
                expect(',');
            }
            elements.add(value());
        }
        expect(']');
        return elements;
    }

    private String string() {
        expect('"');
        StringBuilder string = new StringBuilder();
        while (next() != '"') {
            char c = text.charAt(at++);
            if (c == '\\') {
                c = next();
                at++;
                switch (c) {
                    case 'b' -> c = '\b';
                    case 'f' -> c = '\f';
                    case 'n' -> c = '\n';
                    case 'r' -> c = '\r';
                    case 't' -> c = '\t';
                    case 'u' -> {
                        at += 4;
                        next(); // throws if the text ends here
                        c = (char) Integer.parseInt(text.substring(at - 4, at), 16);
                    }
                    default -> {} // itself
                }
            }
            string.append(c);
        }
        at++;
        return string.toString();
    }

    /** A number, true, false or null. */
    private Object word() {
        int start = at;
        while (at < text.length() && ",]}".indexOf(text.charAt(at)) < 0 && !blank()) {
            at++;
        }
        String word = text.substring(start, at);
        return switch (word) {
            case "true" -> true;
            case "false" -> false;
            case "null" -> "";
            default -> {
                try {
                    yield Double.valueOf(word);
                } catch (NumberFormatException e) {
                    throw wrong("no JSON value begins with \"" + word + '"', start);
                }
            }
        };
    }

    private boolean blank() {
        return Character.isWhitespace(text.charAt(at));
    }

    private void expect(char expected) {
        if (peek() != expected) {
            throw wrong("JSON wants a " + expected, at);
        }
        at++;
    }

    /** The next character that is not blank; 0 at the end. */
    private char peek() {
        while (at < text.length() && blank()) {
            at++;
        }
        return at < text.length() ? text.charAt(at) : 0;
    }

    private char next() {
        if (at >= text.length()) {
            throw wrong("JSON ends in the middle of a string", text.length());
        }
        return text.charAt(at);
    }

    private static IllegalArgumentException wrong(String what, int where) {
        return new IllegalArgumentException(what + " at character " + where);
    }
}
