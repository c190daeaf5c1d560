// Makes gnuplot's SVG fit for a page: inline or alone, light or dark, read aloud or seen.
#pragma once

#include <string>
#include <string_view>

namespace tare::reports {

// From gnuplot's SVG text: without XML prologue; ids made unique by `name`; colours normalised to #rrggbb; a style
// sheet that changes the palette's colours on a dark screen; `title` and `description` for those who do not see it;
// class "tare-figure" and role "img". Throws Error (internal) when the text is no SVG of gnuplot's.
[[nodiscard]] std::string finished_svg(std::string_view gnuplot_svg, std::string_view name, std::string_view title,
                                       std::string_view description);

}  // namespace tare::reports
