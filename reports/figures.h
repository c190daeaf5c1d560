// The figures as gnuplot sources. A figure's script and data are files that anybody can draw again:
// `cd figures && gnuplot effects.gp`.
#pragma once

#include <string>
#include <vector>

#include "reports/findings.h"

namespace tare::reports {

struct Plot {
  std::string name;         // of the files: NAME.gp, NAME.dat, NAME.svg
  std::string title;        // short
  std::string caption;      // what is seen and how to read it
  std::string description;  // for those who do not see it: the figures' own numbers in words
  std::string script;       // gnuplot 5.4, reads NAME.dat, writes NAME.svg
  std::string data;         // NAME.dat: blocks separated by two blank lines, with comments that name the columns
  std::string nothing;      // why there is nothing to draw; script and data are empty then
};

// Effects of every arm on the effect's measure: all on one scale, then each on its own with the intervals and the
// question each answers.
[[nodiscard]] Plot effects_plot(const Findings& findings);
// Runs in order of start: the measure itself, and each run's deviation from its arm's level with the fitted drift.
[[nodiscard]] Plot runs_plot(const Findings& findings);
// Each prompt's ratio to the baseline, sorted, one panel an arm, coloured by category.
[[nodiscard]] Plot prompts_plot(const Findings& findings);

// The machine during every counted run: clocks, temperature, power, what others used; one panel a quantity.
[[nodiscard]] Plot conditions_plot(const Findings& findings);

}  // namespace tare::reports
