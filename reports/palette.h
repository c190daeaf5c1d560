// Colours of the figures, light and dark. The series are those of Okabe and Ito ("Color universal design", 2008), which
// people with any common colour blindness tell apart, with the yellow darkened to be seen on white. A shape goes with
// every colour, so nothing depends on colour alone.
#pragma once

#include <array>
#include <cstddef>

namespace tare::reports {

struct Colour {
  const char* light;
  const char* dark;
};

// Every value is used once only: svg.cpp finds what to change for a dark page by the light value.
inline constexpr Colour kPaper = {"#fffffe", "#16191d"};
inline constexpr Colour kInk = {"#1c2126", "#e4e7ea"};
inline constexpr Colour kMuted = {"#5b6670", "#a3adb6"};
inline constexpr Colour kRule = {"#c8cfd5", "#3d454d"};
inline constexpr Colour kBand = {"#e6eaed", "#293038"};

inline constexpr std::array<Colour, 7> kSeries = {{{"#0072b2", "#5cb0ea"},
                                                   {"#d55e00", "#ff9350"},
                                                   {"#009e73", "#38c9a0"},
                                                   {"#cc79a7", "#ea9fc7"},
                                                   {"#a08300", "#e3cc4a"},
                                                   {"#56b4e9", "#9ad6f7"},
                                                   {"#6b4fa0", "#b39be6"}}};

// Parts of a whole: the series and one more, then what is summed up, idle time, and the host.
inline constexpr std::array<Colour, 8> kParts = {
    {kSeries[0], kSeries[1], kSeries[2], kSeries[3], kSeries[4], kSeries[5], kSeries[6], {"#7d4b32", "#c69a80"}}};
inline constexpr Colour kOtherParts = {"#8b959e", "#747f89"};
inline constexpr Colour kIdle = {"#dfe4e8", "#343c45"};
inline constexpr Colour kHost = {"#b9a6a0", "#5f5450"};

// Cells of a heat map: slightly to much slower, slightly to much faster, and no difference shown. kInk is read
// on all of them, light and dark.
inline constexpr std::array<Colour, 4> kSlower = {
    {{"#fdebdf", "#38281c"}, {"#fad6bd", "#513018"}, {"#f6bd94", "#6d3a14"}, {"#f2a36b", "#8a4410"}}};
inline constexpr std::array<Colour, 4> kFaster = {
    {{"#dcebf7", "#1c2f3f"}, {"#b8d6ef", "#1d4059"}, {"#8fbfe5", "#1c5276"}, {"#66a6d9", "#1b6595"}}};
inline constexpr Colour kNotShown = {"#f1f2f3", "#22282e"};

// gnuplot point types: filled circle, square, triangle, diamond, triangle down; then open ones.
inline constexpr std::array<int, 9> kPointTypes = {7, 5, 9, 13, 11, 6, 4, 8, 12};

[[nodiscard]] constexpr Colour series_colour(std::size_t i) {
  return kSeries[i % kSeries.size()];
}
[[nodiscard]] constexpr int point_type(std::size_t i) {
  return kPointTypes[i % kPointTypes.size()];
}

}  // namespace tare::reports
