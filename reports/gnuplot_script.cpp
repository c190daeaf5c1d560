#include "reports/gnuplot_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "reports/escape.h"

namespace tare::reports {

namespace {

// Mean width of a letter of common sans-serif faces in units of the size; figures are drawn before the face is known.
constexpr double kLetterWidth = 0.58;
constexpr double kBoldWider = 1.1;

// A pixel is a 96th of an inch (CSS). The cairo terminals measure fonts each in its own way; with these factors a text
// is as wide as in the SVG, found by drawing it.
constexpr double kPixelsPerInch = 96;
constexpr double kPdfFontScale = 0.56;
constexpr double kPdfLineWidth = 0.75;
constexpr double kPngDensity = 2;  // pixels of the file for one of the canvas
constexpr double kPngFontScale = 1.5;

}  // namespace

std::string gnuplot_number(double value) {
  return std::isfinite(value) ? shortest(value) : "NaN";
}

PlotScript::PlotScript(const std::string& name, double width, double height) : width_(width), height_(height) {
  line(fmt::format("# Draws {0}.svg from {0}.dat: cd figures && gnuplot {0}.gp", name));
  line(fmt::format("# or as PDF, or as PNG: gnuplot -e \"kind='pdf'\" {}.gp", name));
  line("set encoding utf8");
  line("set minussign");
  line("if (!exists('kind')) kind = 'svg'");
  line(
      fmt::format("if (kind eq 'svg') set terminal svg noenhanced size {},{} dynamic font 'sans-serif,13' name '{}' "
                  "linewidth 1",
                  width, height, name));
  line(
      fmt::format("if (kind eq 'pdf') set terminal pdfcairo noenhanced size {:.4f}in,{:.4f}in font 'sans-serif,13' "
                  "fontscale {} linewidth {} pointscale {} rounded",
                  width / kPixelsPerInch, height / kPixelsPerInch, kPdfFontScale, kPdfLineWidth, kPdfFontScale));
  line(
      fmt::format("if (kind eq 'png') set terminal pngcairo noenhanced size {},{} font 'sans-serif,13' fontscale {} "
                  "linewidth {} pointscale {}",
                  kPngDensity * width, kPngDensity * height, kPngFontScale, kPngDensity, kPngDensity));
  line(fmt::format("set output '{}.'.kind", name));
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
  std::string shown = visible_text(text);
  if (style.room > 0) {
    const double letter = kLetterWidth * style.size * (style.bold ? kBoldWider : 1.0);
    const auto most = static_cast<std::size_t>(std::max(3.0, style.room / letter));
    shown = style.both_ends ? shortened_middle(shown, most) : shortened(shown, most);
  }
  line(fmt::format("set label {} at {} {} font 'sans-serif{},{}' tc rgb '{}'", gnuplot_string(shown), place, align,
                   style.bold ? ":Bold" : "", style.size, style.colour.light));
}

void PlotScript::label(double x, double y, std::string_view text, const TextStyle& style) {
  text_at(fmt::format("screen {:.5f},{:.5f}", x / width_, 1.0 - y / height_), text, style);
}

void PlotScript::label_beside(double x, double axis_y, std::string_view text, const TextStyle& style) {
  text_at(fmt::format("screen {:.5f}, first {}", x / width_, gnuplot_number(axis_y)), text, style);
}

void PlotScript::rectangle(double left, double top, double right, double bottom, Colour fill, bool behind) {
  line(
      fmt::format("set object rectangle from screen {:.5f},{:.5f} to screen {:.5f},{:.5f} {} fs solid 1.0 noborder "
                  "fc rgb '{}'",
                  left / width_, 1.0 - bottom / height_, right / width_, 1.0 - top / height_,
                  behind ? "behind" : "front", fill.light));
}

void PlotScript::vertical(double axis_x, Colour colour, double width, bool dashed) {
  line(fmt::format("set arrow from first {0}, graph 0 to first {0}, graph 1 nohead back lc rgb '{1}' lw {2} dt {3}",
                   gnuplot_number(axis_x), colour.light, width, dashed ? "'-'" : "1"));
}

void PlotScript::horizontal(double axis_y, Colour colour, double width, bool dashed) {
  line(fmt::format("set arrow from graph 0, first {0} to graph 1, first {0} nohead back lc rgb '{1}' lw {2} dt {3}",
                   gnuplot_number(axis_y), colour.light, width, dashed ? "'-'" : "1"));
}

void PlotScript::axis(char name, double low, double high, double tics) {
  const double rough = (high - low) / tics;
  const double power = std::floor(std::log10(rough));
  const double lead = rough / std::pow(10.0, power);
  const double step = (lead < 1.5 ? 1.0 : lead < 3.5 ? 2.0 : lead < 7.5 ? 5.0 : 10.0);
  const int decimals = std::max(0, -static_cast<int>(step == 10.0 ? power + 1 : power));
  line(fmt::format("set {}range [{}:{}]", name, gnuplot_number(low), gnuplot_number(high)));
  line(fmt::format("set {}tics {} format '%.{}f'", name, gnuplot_number(step * std::pow(10.0, power)), decimals));
}

void PlotScript::plot_annotations() {
  line("set border 0");
  line("unset tics");
  line("unset logscale");
  line("set xrange [0:1]");
  line("set yrange [0:1]");
  line("plot NaN notitle");
}

std::string PlotScript::done() const {
  return text_ + "\nunset multiplot\nunset output\n";
}

}  // namespace tare::reports
