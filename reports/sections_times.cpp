// Where the time of a round goes: what each arm's kernels or ops add up to, and what a difference is made of.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "reports/escape.h"
#include "reports/numbers.h"
#include "reports/sections.h"

namespace tare::reports {
namespace {

constexpr std::size_t kMostRows = 20;  // findings.json has all
constexpr int kDecimals = 2;

std::string micros(double us) {
  return std::isnan(us) ? kNotAvailable : fixed(us, kDecimals);
}

Table arm_table(const Times& times) {
  Table table;
  table.id = "arm-times";
  table.caption =
      "A round in microseconds: what was timed, and what the twin launch under the collector says it is made of";
  table.columns = {{"Arm"},          {"timed", true},          {"kernels or ops", true},
                   {"idle", true},   {"host, residual", true}, {"under the collector", true},
                   {"prompts", true}};
  std::vector<std::string> faults;
  for (const ArmTimes& arm : times.arms) {
    const bool known = arm.fault.empty();
    table.rows.push_back({.cells = {{visible_text(arm.arm)},
                                    {micros(arm.timed_us)},
                                    {micros(arm.busy_us)},
                                    {micros(arm.idle_us)},
                                    {micros(arm.host_us)},
                                    {micros(arm.profiled_us)},
                                    {known ? count_text(arm.prompts) : kNotAvailable}}});
    if (!known) faults.push_back(fmt::format("{}: {}", visible_text(arm.arm), running_text(arm.fault)));
  }
  table.note =
      "timed = kernels or ops + idle + host. Host is what of the timed round the profile does not cover; timed "
      "and profiled rounds are of different launches, so it has either sign.";
  if (!faults.empty()) table.note += fmt::format(" Not profiled: {}.", fmt::join(faults, "; "));
  return table;
}

Row row_of(const TimeRow& row, double whole, bool emphasis = false) {
  return {.cells = {{visible_text(row.what)},
                    {micros(row.baseline_us)},
                    {micros(row.arm_us)},
                    {std::isnan(row.difference_us) ? kNotAvailable : signed_fixed(row.difference_us, kDecimals)},
                    {std::isnan(row.low_us) ? kNotAvailable : signed_fixed(row.low_us, kDecimals)},
                    {std::isnan(row.high_us) ? kNotAvailable : signed_fixed(row.high_us, kDecimals)},
                    {whole == 0 || std::isnan(whole) ? kNotAvailable : fixed(row.difference_us / whole * 100, 1)}},
          .emphasis = emphasis};
}

Table difference_table(const TimeDifference& difference, const std::string& baseline, std::size_t index) {
  Table table;
  table.id = fmt::format("time-difference-{}", index + 1);
  table.caption = fmt::format("{} less {}: microseconds a round by kernel or op", visible_text(difference.arm),
                              visible_text(baseline));
  table.columns = {{"What"},
                   {visible_text(baseline), true},
                   {visible_text(difference.arm), true},
                   {"difference", true},
                   {"from", true},
                   {"to", true},
                   {"of the whole, %", true}};
  const double whole = difference.timed.difference_us;
  TimeRow others{.what = "", .baseline_us = 0, .arm_us = 0, .difference_us = 0};
  std::size_t other_rows = 0;
  for (std::size_t i = 0; i < difference.rows.size(); ++i) {
    const TimeRow& row = difference.rows[i];
    if (i < kMostRows) {
      table.rows.push_back(row_of(row, whole));
      continue;
    }
    ++other_rows;
    others.baseline_us += row.baseline_us;
    others.arm_us += row.arm_us;
    others.difference_us += row.difference_us;
  }
  if (other_rows > 0) {
    others.what = fmt::format("{} others", other_rows);
    table.rows.push_back(row_of(others, whole));
  }
  table.rows.push_back(row_of(difference.idle, whole));
  table.rows.push_back(row_of(difference.host, whole));
  table.rows.push_back(row_of(difference.timed, whole, true));
  const double share_of_round = std::abs(difference.host.difference_us) / difference.timed.baseline_us;
  table.note = fmt::format(
      "95 % intervals, paired over {} prompts. Kernels or ops and idle make up {} % of the difference; the residual, "
      "host, "
      "is {} of a round.",
      count_text(difference.prompts),
      std::isnan(difference.explained_share) ? kNotAvailable : fixed(difference.explained_share * 100, 1),
      std::isnan(share_of_round) ? kNotAvailable : share_text(share_of_round));
  if (!difference.adds_up)
    table.note +=
        " THE PARTS DO NOT ADD UP: the residual is more than 5 % of the difference and more than 0.5 % of a round. The "
        "timed and the twin launches ran at different speeds (a machine that changes its own, clocks, neighbours); the "
        "rows are of the twin launches and say nothing about the rest.";
  return table;
}

std::string audit_sentence(const TimeDifference& difference, const std::string& baseline) {
  const auto names = [](const std::vector<std::string>& list) {
    std::vector<std::string> visible;
    for (const std::string& name : list) visible.push_back(visible_text(name));
    return fmt::format("{}", fmt::join(visible, ", "));
  };
  std::string text;
  if (!difference.only_arm.empty())
    text += fmt::format("Only {} launches: {}. ", visible_text(difference.arm), names(difference.only_arm));
  if (!difference.only_baseline.empty())
    text += fmt::format("Only {} launches: {}.", visible_text(baseline), names(difference.only_baseline));
  return text;
}

}  // namespace

Section times_section(const Findings& findings) {
  Section section{"times", "Where the time goes", {}};
  const Times& times = findings.times;
  if (times.arms.empty()) return section;
  section.blocks.emplace_back(arm_table(times));
  const std::string& baseline = times.arms.front().arm;
  for (std::size_t i = 0; i < times.differences.size(); ++i) {
    const std::string audit = audit_sentence(times.differences[i], baseline);
    if (!audit.empty()) section.blocks.emplace_back(Paragraph{audit});
    section.blocks.emplace_back(difference_table(times.differences[i], baseline, i));
  }
  return section;
}

}  // namespace tare::reports
