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
  bool optional = false;    // left out of the report when there is nothing to draw
  std::string section;      // of the report that it stands in; empty: the one of its name
  std::string before;       // id of the table of that section that it stands before; empty: the section's begin
};

// Effects of every arm on the effect's measure: all on one scale, then each on its own with the intervals and the
// question each answers.
[[nodiscard]] Plot effects_plot(const Findings& findings);
// A matrix (Findings::matrix); left out of experiments without factors.
// Heat map: a cell a combination, or a factor's level.
[[nodiscard]] Plot matrix_plot(const Findings& findings);
// What single levels do, and interactions, with intervals.
[[nodiscard]] Plot factors_plot(const Findings& findings);
// The measure by two factors at a time; left out of designs that tell no interactions.
[[nodiscard]] Plot interactions_plot(const Findings& findings);
// Divergence over the effect, with the non-dominated front; left out when no arm has a score of fidelity.
[[nodiscard]] Plot front_plot(const Findings& findings);
// Runs in order of start: the measure itself, and each run's deviation from its arm's level with the fitted drift.
[[nodiscard]] Plot runs_plot(const Findings& findings);
// Each prompt's ratio to the baseline, sorted, one panel an arm, coloured by category.
[[nodiscard]] Plot prompts_plot(const Findings& findings);

// The machine during every counted run: clocks, temperature, power, what others used; one panel a quantity.
[[nodiscard]] Plot conditions_plot(const Findings& findings);

// Where the time of a round goes (Findings::times); left out when nothing was profiled.
// A bar an arm, as long as its timed round, made of its largest parts, the rest, idle time and the host.
[[nodiscard]] Plot times_plot(const Findings& findings);
// Every difference of an arm to the baseline by kernel or op, with intervals; last the timed one and what adds up to
// it.
[[nodiscard]] Plot time_differences_plot(const Findings& findings);
// One round of every arm, a lane a kind of kernel or op; left out when no profile holds one.
[[nodiscard]] Plot round_plot(const Findings& findings);
// Declared bytes over time, by part, against the measured read rate; left out when that is not known.
[[nodiscard]] Plot rates_plot(const Findings& findings);

// How far drafts are accepted, position by position; left out when no draft was decided on.
[[nodiscard]] Plot acceptance_plot(const Findings& findings);

// All figures of a report, in the order in which they are drawn.
[[nodiscard]] std::vector<Plot> report_plots(const Findings& findings);

}  // namespace tare::reports
