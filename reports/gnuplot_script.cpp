#include "reports/gnuplot_script.h"

#include <fmt/format.h>

#include <cmath>

#include "base/text.h"
#include "reports/escape.h"

namespace tare::reports {

std::string gnuplot_number(double value) {
  return std::isfinite(value) ? shortest(value) : "NaN";
}

PlotScript::PlotScript(const std::string& name, double width, double height) : width_(width), height_(height) {
  line(fmt::format("# Draws {0}.svg from {0}.dat: cd figures && gnuplot {0}.gp", name));
  line("set encoding utf8");
  line("set minussign");
  line(fmt::format("set terminal svg noenhanced size {},{} dynamic font 'sans-serif,13' name '{}' linewidth 1", width,
                   height, name));
  line(fmt::format("set output '{}.svg'", name));
  line("set multiplot");
}

void PlotScript::line(std::string_view text) {
  text_ += text;
  text_ += '\n';
}

void PlotScript::panel(const PanelBox& box) {
  line("");
  line("reset");
  line("set encoding utf8");
  line("set minussign");
  line(fmt::format("set lmargin at screen {:.5f}", box.left / width_));
  line(fmt::format("set rmargin at screen {:.5f}", box.right / width_));
  line(fmt::format("set tmargin at screen {:.5f}", 1.0 - box.top / height_));
  line(fmt::format("set bmargin at screen {:.5f}", 1.0 - box.bottom / height_));
  line(fmt::format("set border 1 lc rgb '{}' lw 1", kRule.light));
  line(fmt::format("set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '{}'", kMuted.light));
  line("unset key");
}

void PlotScript::text_at(const std::string& place, std::string_view text, const TextStyle& style) {
  const char* align = style.align == Align::kLeft ? "left" : style.align == Align::kRight ? "right" : "center";
  line(fmt::format("set label {} at {} {} font 'sans-serif{},{}' tc rgb '{}'", gnuplot_string(text), place, align,
                   style.bold ? ":Bold" : "", style.size, style.colour.light));
}

void PlotScript::label(double x, double y, std::string_view text, const TextStyle& style) {
  text_at(fmt::format("screen {:.5f},{:.5f}", x / width_, 1.0 - y / height_), text, style);
}

void PlotScript::label_beside(double x, double axis_y, std::string_view text, const TextStyle& style) {
  text_at(fmt::format("screen {:.5f}, first {}", x / width_, gnuplot_number(axis_y)), text, style);
}

void PlotScript::vertical(double axis_x, Colour colour, double width, bool dashed) {
  line(fmt::format("set arrow from first {0}, graph 0 to first {0}, graph 1 nohead back lc rgb '{1}' lw {2} dt {3}",
                   gnuplot_number(axis_x), colour.light, width, dashed ? "'-'" : "1"));
}

void PlotScript::horizontal(double axis_y, Colour colour, double width, bool dashed) {
  line(fmt::format("set arrow from graph 0, first {0} to graph 1, first {0} nohead back lc rgb '{1}' lw {2} dt {3}",
                   gnuplot_number(axis_y), colour.light, width, dashed ? "'-'" : "1"));
}

std::string PlotScript::done() const {
  return text_ + "\nunset multiplot\nunset output\n";
}

}  // namespace tare::reports
