// Building blocks of gnuplot scripts: a canvas in pixels with panels, labels and data blocks.
#pragma once

#include <string>
#include <string_view>

#include "reports/palette.h"

namespace tare::reports {

// Where a panel's axes stand on the canvas, in pixels from the top left.
struct PanelBox {
  double left = 0;
  double right = 0;
  double top = 0;
  double bottom = 0;
};

enum class Align { kLeft, kCentre, kRight };

struct TextStyle {
  Colour colour = kInk;
  bool bold = false;
  double size = 13;
  Align align = Align::kLeft;
  double room = 0;         // pixels the text may take; longer text is cut with an ellipsis; 0: any
  bool both_ends = false;  // cut in the middle: names that differ at either end
};

// A number as gnuplot reads it: "NaN" for what is missing.
[[nodiscard]] std::string gnuplot_number(double value);

class PlotScript {
 public:
  PlotScript(const std::string& name, double width, double height);

  void line(std::string_view text);
  // Starts a panel: axes at `box`, earlier labels, arrows, ranges and tics forgotten. Only the bottom axis is drawn.
  void panel(const PanelBox& box);
  // Text at a place in pixels of the canvas.
  void label(double x, double y, std::string_view text, const TextStyle& style = {});
  // Text at a pixel column, beside a value of the panel's y axis.
  void label_beside(double x, double axis_y, std::string_view text, const TextStyle& style = {});
  // A rectangle in pixels of the canvas; `behind`: under labels.
  void rectangle(double left, double top, double right, double bottom, Colour fill, bool behind = false);
  // A vertical line at an x of the panel.
  void vertical(double axis_x, Colour colour, double width, bool dashed = false);
  // A horizontal line at a y of the panel.
  void horizontal(double axis_y, Colour colour, double width, bool dashed = false);
  // Range of an axis ('x' or 'y') with some tics at round numbers, all with the same decimals.
  void axis(char name, double low, double high, double tics = 6);
  // A panel of labels and shapes alone, without axes: what was placed so far is drawn.
  void plot_annotations();
  [[nodiscard]] std::string done() const;
  [[nodiscard]] double height() const { return height_; }

 private:
  std::string text_;
  double width_;
  double height_;

  void text_at(const std::string& place, std::string_view text, const TextStyle& style);
};

}  // namespace tare::reports
