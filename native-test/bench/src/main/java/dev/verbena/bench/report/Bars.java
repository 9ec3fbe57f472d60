package dev.verbena.bench.report;

import java.util.List;

/**
 * Panels side by side with a bar for each who does the same, as SVG: the median over forks, with a
 * line from the lowest to the highest.
 *
 * @param title what all panels show
 * @param subtitle on what it was measured
 * @param panels the panels
 */
record Bars(String title, String subtitle, List<Panel> panels) {
    private static final int WIDTH = 460;
    private static final int TOP = 84;
    private static final int STEP = 30;
    private static final int BOTTOM = 46;
    private static final int LEFT = 190;
    private static final int RIGHT = 60;

    /**
     * One diagram.
     *
     * @param title its title
     * @param unit what the horizontal axis is
     * @param bars from top to bottom
     */
    record Panel(String title, String unit, List<Bar> bars) {}

    /**
     * What the forks of one of them gave.
     *
     * @param who who it is
     * @param values the forks' values
     */
    record Bar(String who, Values values) {
        private String kind() {
            return who.equals("C") ? "c" : who.startsWith("Verbena") ? "java" : "other";
        }
    }

    /** The SVG. */
    @Override
    public String toString() {
        int width = WIDTH * Math.max(panels.size(), 2); // one panel has no room for the words above
        int rows = panels.stream().mapToInt(panel -> panel.bars.size()).max().orElse(0);
        int height = TOP + rows * STEP + BOTTOM;
        StringBuilder svg = new StringBuilder();
        svg.append(
                """
                <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %1$d %2$d" width="%1$d" height="%2$d" role="img">
                <title>%3$s</title>
                %4$s
                <rect class="paper" width="%1$d" height="%2$d"/>
                """
                        .formatted(width, height, Plot.escaped(title), Plot.STYLE));
        Plot.text(svg, "title", "start", 20, 28, title);
        Plot.text(svg, "subtitle", "start", 20, 47, subtitle);
        for (int i = 0; i < panels.size(); i++) {
            svg.append("<g transform=\"translate(%d 0)\">\n".formatted(i * WIDTH));
            panel(svg, panels.get(i));
            svg.append("</g>\n");
        }
        return svg.append("</svg>\n").toString();
    }

    private static void panel(StringBuilder svg, Panel panel) {
        double most = panel.bars.stream().mapToDouble(bar -> bar.values.most()).max().orElse(1);
        double tick = Plot.stepAbove(most / 5);
        double scale = (WIDTH - LEFT - RIGHT) / most;
        double bottom = TOP + (double) panel.bars.size() * STEP;
        Plot.text(svg, "panel", "start", LEFT, TOP - 12, panel.title);
        for (double at = 0; at <= most; at += tick) {
            double x = LEFT + at * scale;
            Plot.line(svg, at == 0 ? "axis" : "grid", x, TOP, x, bottom);
            Plot.text(svg, "tick", "middle", x, bottom + 16, Plot.label(at));
        }
        Plot.text(
                svg, "axis-title", "middle", (LEFT + WIDTH - RIGHT) / 2.0, bottom + 36, panel.unit);
        for (int i = 0; i < panel.bars.size(); i++) {
            bar(svg, panel.bars.get(i), TOP + i * STEP, scale);
        }
    }

    private static void bar(StringBuilder svg, Bar bar, int top, double scale) {
        double middle = top + STEP / 2.0;
        Values values = bar.values;
        Plot.text(svg, "who", "end", LEFT - 8, middle + 4, bar.who);
        svg.append(
                "<rect class=\"bar %s\" x=\"%d\" y=\"%d\" width=\"%s\" height=\"%d\"/>\n"
                        .formatted(
                                bar.kind(),
                                LEFT,
                                top + 5,
                                Plot.number(values.median() * scale),
                                STEP - 10));
        double from = LEFT + values.least() * scale;
        double to = LEFT + values.most() * scale;
        Plot.line(svg, "axis", from, middle, to, middle);
        Plot.text(svg, "value", "start", to + 6, middle + 4, Values.words(values.median()));
    }
}
