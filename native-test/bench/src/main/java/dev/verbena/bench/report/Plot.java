package dev.verbena.bench.report;

import dev.verbena.bench.report.Measurement.Side;

import java.util.List;
import java.util.Locale;
import java.util.function.DoubleUnaryOperator;
import java.util.stream.Collectors;
import java.util.stream.DoubleStream;
import java.util.stream.Stream;

/**
 * Panels side by side, each with a curve for C and one for Java, as SVG. C's is broad and pale,
 * Java's thin on top of it: where the two are one, both are seen.
 *
 * @param title what all panels show
 * @param subtitle on what it was measured
 * @param logarithmic whether the vertical axis is; otherwise it begins with zero
 * @param other what C's curve is called; without a name, no curve has a legend
 * @param panels the panels
 */
record Plot(String title, String subtitle, boolean logarithmic, String other, List<Panel> panels) {
    private static final int WIDTH = 460;
    private static final int HEIGHT = 430;
    private static final int TOP = 104;
    private static final int BOTTOM = 56;
    private static final int LEFT = 68;
    private static final int RIGHT = 18;

    /** Colours for light and dark screens, of all plots. */
    static final String STYLE =
            """
            <style>
            svg { font: 12px sans-serif; --paper: #ffffff; --ink: #1f2328; --faint: #d8dee4; --c: #d4700f; --java: #0550ae }
            @media (prefers-color-scheme: dark) {
              svg { --paper: #0d1117; --ink: #e6edf3; --faint: #30363d; --c: #f0883e; --java: #79c0ff }
            }
            .paper { fill: #ffffff; fill: var(--paper) }
            text { fill: #1f2328; fill: var(--ink) }
            .title { font-size: 16px; font-weight: bold }
            .panel { font-size: 13px; font-weight: bold }
            .grid { stroke: #d8dee4; stroke: var(--faint); stroke-width: 1 }
            .axis { stroke: #1f2328; stroke: var(--ink); stroke-width: 1 }
            .line { fill: none; stroke-linejoin: round; stroke-linecap: round }
            .line.c { stroke: #d4700f; stroke: var(--c); stroke-width: 6; opacity: 0.55 }
            .line.java { stroke: #0550ae; stroke: var(--java); stroke-width: 2 }
            .band { stroke: none; opacity: 0.16 }
            .band.c { fill: #d4700f; fill: var(--c) }
            .band.java, .dot.java, .bar.java { fill: #0550ae; fill: var(--java) }
            .bar.c { fill: #d4700f; fill: var(--c); opacity: 0.7 }
            .bar.other { fill: #8c959f }
            </style>""";

    Plot(String title, String subtitle, boolean logarithmic, List<Panel> panels) {
        this(title, subtitle, logarithmic, "C", panels);
    }

    /**
     * One diagram.
     *
     * @param title its title
     * @param xTitle what the horizontal axis is
     * @param yTitle what the vertical axis is
     * @param x from a parameter to its place on the horizontal axis
     * @param xTicks parameters with a label
     * @param points C's and Java's
     */
    record Panel(
            String title,
            String xTitle,
            String yTitle,
            DoubleUnaryOperator x,
            List<Double> xTicks,
            List<Point> points) {

        Stream<Point> of(Side side) {
            return points.stream().filter(point -> point.side == side);
        }
    }

    /**
     * What the forks of a side gave for one parameter.
     *
     * @param side the side
     * @param parameter where it is on the horizontal axis
     * @param values the forks' values
     */
    record Point(Side side, double parameter, Values values) {}

    /** The SVG. */
    @Override
    public String toString() {
        int width = WIDTH * Math.max(panels.size(), 2); // one panel has no room for the words above
        StringBuilder svg = new StringBuilder();
        svg.append(
                """
                <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %1$d %2$d" width="%1$d" height="%2$d" role="img">
                <title>%3$s</title>
                %4$s
                <rect class="paper" width="%1$d" height="%2$d"/>
                """
                        .formatted(width, HEIGHT, escaped(title), STYLE));
        text(svg, "title", "start", LEFT, 28, title);
        text(svg, "subtitle", "start", LEFT, 47, subtitle);
        if (!other.isEmpty()) {
            legend(svg);
        }
        for (int i = 0; i < panels.size(); i++) {
            svg.append("<g transform=\"translate(%d 0)\">\n".formatted(i * WIDTH));
            panel(svg, panels.get(i));
            svg.append("</g>\n");
        }
        return svg.append("</svg>\n").toString();
    }

    private void legend(StringBuilder svg) {
        int y = 68;
        int java = LEFT + 60 + 6 * other.length();
        svg.append("<path class=\"line c\" d=\"M%d %dh26\"/>\n".formatted(LEFT, y - 4));
        text(svg, "key", "start", LEFT + 34, y, other);
        svg.append("<path class=\"line java\" d=\"M%d %dh26\"/>\n".formatted(java, y - 4));
        text(svg, "key", "start", java + 34, y, "Java (Verbena)");
        text(
                svg,
                "key",
                "start",
                java + 144,
                y,
                "lines: medians over forks; bands: lowest to highest fork");
    }

    private void panel(StringBuilder svg, Panel panel) {
        text(svg, "panel", "start", LEFT, TOP - 12, panel.title);
        DoubleUnaryOperator x = horizontal(panel);
        double[] ticks = ticks();
        DoubleUnaryOperator y = vertical(ticks);
        for (double tick : ticks) {
            line(svg, "grid", LEFT, y.applyAsDouble(tick), WIDTH - RIGHT, y.applyAsDouble(tick));
            text(svg, "tick", "end", LEFT - 8, y.applyAsDouble(tick) + 4, label(tick));
        }
        for (double tick : panel.xTicks) {
            double at = x.applyAsDouble(tick);
            line(svg, "grid", at, TOP, at, HEIGHT - BOTTOM);
            text(svg, "tick", "middle", at, HEIGHT - BOTTOM + 18, label(tick));
        }
        line(svg, "axis", LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM);
        line(svg, "axis", LEFT, TOP, LEFT, HEIGHT - BOTTOM);
        text(svg, "axis-title", "middle", (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 14, panel.xTitle);
        svg.append(
                "<text text-anchor=\"middle\" transform=\"translate(16 %d) rotate(-90)\">%s</text>\n"
                        .formatted((TOP + HEIGHT - BOTTOM) / 2, escaped(panel.yTitle)));
        for (Side side : Side.values()) {
            List<Point> points = panel.of(side).toList();
            if (!points.isEmpty()) {
                curve(svg, side, points, x, y);
            }
        }
    }

    private static void curve(
            StringBuilder svg,
            Side side,
            List<Point> points,
            DoubleUnaryOperator x,
            DoubleUnaryOperator y) {
        Stream<String> there = points.stream().map(p -> place(x, y, p.parameter, p.values.most()));
        Stream<String> back =
                points.reversed().stream().map(p -> place(x, y, p.parameter, p.values.least()));
        svg.append(
                "<path class=\"band %s\" d=\"M%sZ\"/>\n"
                        .formatted(
                                side, Stream.concat(there, back).collect(Collectors.joining("L"))));
        svg.append(
                "<path class=\"line %s\" d=\"M%s\"/>\n"
                        .formatted(
                                side,
                                points.stream()
                                        .map(p -> place(x, y, p.parameter, p.values.median()))
                                        .collect(Collectors.joining("L"))));
        if (side == Side.JAVA) {
            points.forEach(
                    p ->
                            svg.append(
                                    "<circle class=\"dot java\" r=\"2.5\" cx=\"%s\" cy=\"%s\"/>\n"
                                            .formatted(
                                                    number(x.applyAsDouble(p.parameter)),
                                                    number(y.applyAsDouble(p.values.median())))));
        }
    }

    private static String place(
            DoubleUnaryOperator x, DoubleUnaryOperator y, double parameter, double value) {
        return number(x.applyAsDouble(parameter)) + " " + number(y.applyAsDouble(value));
    }

    private static DoubleUnaryOperator horizontal(Panel panel) {
        double[] all =
                DoubleStream.concat(
                                panel.points.stream().mapToDouble(Point::parameter),
                                panel.xTicks.stream().mapToDouble(Double::doubleValue))
                        .map(panel.x)
                        .sorted()
                        .toArray();
        double from = all[0];
        double to = all[all.length - 1];
        double room = WIDTH - RIGHT - LEFT - 16;
        return parameter ->
                LEFT + 8 + (panel.x.applyAsDouble(parameter) - from) / (to - from) * room;
    }

    private DoubleUnaryOperator vertical(double[] ticks) {
        DoubleUnaryOperator scale = logarithmic ? Math::log : DoubleUnaryOperator.identity();
        double from = scale.applyAsDouble(ticks[0]);
        double to = scale.applyAsDouble(ticks[ticks.length - 1]);
        double room = HEIGHT - BOTTOM - TOP;
        return value -> HEIGHT - BOTTOM - (scale.applyAsDouble(value) - from) / (to - from) * room;
    }

    /** The same for all panels, so that they can be compared: 1, 2 and 5 with zeros behind. */
    private double[] ticks() {
        double least = values().mapToDouble(Values::least).min().orElse(1);
        double most = values().mapToDouble(Values::most).max().orElse(10);
        if (!logarithmic) {
            double step = stepAbove(most / 8);
            return DoubleStream.iterate(0, t -> t < most + step, t -> t + step).toArray();
        }
        double first = stepAbove(least);
        while (first > least) {
            first = stepBelow(first);
        }
        double start = first;
        return DoubleStream.iterate(start, t -> t < most * 2.5, t -> stepAbove(t * 1.01))
                .limit(
                        1
                                + DoubleStream.iterate(
                                                start, t -> t < most, t -> stepAbove(t * 1.01))
                                        .count())
                .toArray();
    }

    private Stream<Values> values() {
        return panels.stream().flatMap(panel -> panel.points.stream()).map(Point::values);
    }

    /** The next of 1, 2, 5, 10, 20, and so on, also below 1. */
    static double stepAbove(double value) {
        double power = Math.pow(10, Math.floor(Math.log10(value)));
        for (double digit : new double[] {1, 2, 5}) {
            if (digit * power >= value * 0.999) {
                return digit * power;
            }
        }
        return 10 * power;
    }

    private static double stepBelow(double value) {
        double tenth = value / 10;
        return DoubleStream.iterate(
                        stepAbove(tenth), t -> t < value * 0.99, t -> stepAbove(t * 1.01))
                .max()
                .orElse(tenth);
    }

    static void line(StringBuilder svg, String kind, double x1, double y1, double x2, double y2) {
        svg.append(
                "<path class=\"%s\" d=\"M%s %sL%s %s\"/>\n"
                        .formatted(kind, number(x1), number(y1), number(x2), number(y2)));
    }

    static void text(
            StringBuilder svg, String kind, String anchor, double x, double y, String words) {
        svg.append(
                "<text class=\"%s\" text-anchor=\"%s\" x=\"%s\" y=\"%s\">%s</text>\n"
                        .formatted(kind, anchor, number(x), number(y), escaped(words)));
    }

    static String label(double value) {
        String text = String.format(Locale.ROOT, "%.2f", value);
        return text.replaceFirst("\\.?0+$", "");
    }

    static String number(double value) {
        return String.format(Locale.ROOT, "%.1f", value);
    }

    static String escaped(String text) {
        return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;");
    }
}
