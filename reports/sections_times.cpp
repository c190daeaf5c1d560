// Where the time of a round goes: what each arm's kernels or ops add up to, and what a difference is made of.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.h"
#include "reports/escape.h"
#include "reports/numbers.h"
#include "reports/sections.h"
#include "reports/time_parts.h"
#include "reports/times_rows.h"

namespace tare::reports {
namespace {

constexpr int kDecimals = 2;
constexpr double kBytesPerMb = 1e6;

std::string micros(double us) {
  return micros_text(us);
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

// The pieces of the figure above it, arms side by side: a column adds up to its last row.
Table parts_table(const Times& times) {
  const TimeParts parts = time_parts(times, kColouredParts);
  Table table;
  table.id = "time-parts";
  table.caption = "What a round is made of: microseconds by part";
  table.columns = {{"In the figure"}, {"What"}};
  for (const ArmTimes& arm : times.arms) table.columns.push_back({visible_text(arm.arm), true});
  const auto add = [&](const std::string& mark, const std::string& name, const auto& value, bool emphasis = false) {
    Row row{.cells = {{mark}, {name}}, .emphasis = emphasis};
    for (std::size_t i = 0; i < times.arms.size(); ++i) row.cells.push_back({micros(value(i))});
    table.rows.push_back(std::move(row));
  };
  for (std::size_t k = 0; k < parts.parts.size(); ++k)
    add(fmt::format("{}", k + 1), parts.parts[k].name, [&](std::size_t i) { return parts.parts[k].us[i]; });
  if (parts.summed > 0) add("+", parts.others.name, [&](std::size_t i) { return parts.others.us[i]; });
  add("i", "idle", [&](std::size_t i) { return times.arms[i].idle_us; });
  add("h", "host", [&](std::size_t i) { return times.arms[i].host_us; });
  add(
      "", "timed round", [&](std::size_t i) { return times.arms[i].timed_us; }, true);
  return table;
}

// GB/s from declared bytes, and what that is of the read rate where one was measured.
Table rate_table(const Times& times) {
  const TimeParts parts = time_parts(times, kMostTimeRows);
  const bool measured = std::isfinite(times.read_gb_per_s);
  Table table;
  table.id = "time-rates";
  table.caption = "Declared bytes over time, by part";
  table.columns = {{"What"}};
  for (std::size_t i = 0; i < times.arms.size(); ++i) {
    if (!parts.profiled[i]) continue;
    const std::string name = visible_text(times.arms[i].arm);
    table.columns.push_back({name + ", MB", true});
    table.columns.push_back({name + ", GB/s", true});
    if (measured) table.columns.push_back({name + ", % of the read rate", true});
  }
  const auto add = [&](const TimePart& part) {
    Row row{.cells = {{part.name}}};
    bool any = false;
    for (std::size_t i = 0; i < times.arms.size(); ++i) {
      if (!parts.profiled[i]) continue;
      const double rate = gb_per_s(part.bytes[i], part.bytes_us[i]);
      any = any || std::isfinite(rate);
      row.cells.push_back({std::isnan(part.bytes[i]) ? kNotAvailable : fixed(part.bytes[i] / kBytesPerMb, 2)});
      row.cells.push_back({rate_text(rate)});
      if (measured)
        row.cells.push_back({std::isnan(rate) ? kNotAvailable : fixed(rate / times.read_gb_per_s * 100, 1)});
    }
    if (any) table.rows.push_back(std::move(row));
  };
  for (const TimePart& part : parts.parts) add(part);
  if (parts.summed > 0) add(parts.others);
  table.note = measured ? fmt::format("Read rate {} GB/s, measured by {}.", rate_text(times.read_gb_per_s),
                                      visible_text(times.read_rate_source))
                        : "No read rate of this machine is known here: tare ceiling --json measures one, and tare "
                          "report --ceiling FILE holds these rates against it.";
  return table;
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
  for (const TimeRow& row : shown_rows(difference)) table.rows.push_back(row_of(row, whole));
  table.rows.push_back(row_of(difference.idle, whole));
  table.rows.push_back(row_of(difference.host, whole));
  if (!std::isnan(difference.stalls.difference_us)) table.rows.push_back(row_of(difference.stalls, whole));
  table.rows.push_back(row_of(difference.residual, whole));
  table.rows.push_back(row_of(difference.timed, whole, true));
  const double share_of_round = std::abs(difference.residual.difference_us) / difference.timed.baseline_us;
  table.note = fmt::format(
      "95 % intervals, paired over {} prompts. Kernels or ops, idle and host (of the twin launches, all three) make up "
      "{} % of the difference; the residual, the timed round less the twin's, is {} of a round.",
      count_text(difference.prompts),
      std::isnan(difference.explained_share) ? kNotAvailable : fixed(difference.explained_share * 100, 1),
      std::isnan(share_of_round) ? kNotAvailable : share_text(share_of_round));
  if (difference.stalled)
    table.note +=
        " STALLED: much of the difference are rounds that something held up (more than three times the median of their "
        "walk), which came by chance to one arm more than to the other; what kernels or ops explain is the rest.";
  if (!difference.adds_up)
    table.note +=
        " THE PARTS DO NOT ADD UP: the residual is more than 5 % of the difference and more than 0.5 % of a round. The "
        "timed and the twin launches ran at different speeds (a machine that changes its own, clocks, neighbours); the "
        "rows are of the twin launches and say nothing about the rest.";
  return table;
}

// The same kernels may give other outputs, and other kernels the same.
std::string outputs_sentence(const TimeDifference& difference) {
  if (difference.outputs_compared == 0) return {};
  const bool same_launches = difference.only_arm.empty() && difference.only_baseline.empty();
  return fmt::format("{} and {}: both arms would have emitted the same tokens on {} of {} prompts.",
                     same_launches ? "The same kernels or ops" : "Other kernels or ops",
                     difference.outputs_equal == difference.outputs_compared ? "the same outputs" : "other outputs",
                     count_text(difference.outputs_equal), count_text(difference.outputs_compared));
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
    text += fmt::format("Only {} launches: {}. ", visible_text(baseline), names(difference.only_baseline));
  return text + outputs_sentence(difference);
}

}  // namespace

std::vector<TimeRow> shown_rows(const TimeDifference& difference) {
  const std::size_t kept = std::min(difference.rows.size(), kMostTimeRows);
  std::vector<TimeRow> rows(difference.rows.begin(), difference.rows.begin() + static_cast<std::ptrdiff_t>(kept));
  if (kept == difference.rows.size()) return rows;
  TimeRow others{.what = fmt::format("{} others", difference.rows.size() - kept),
                 .baseline_us = 0,
                 .arm_us = 0,
                 .difference_us = 0};
  for (std::size_t i = kept; i < difference.rows.size(); ++i) {
    others.baseline_us += difference.rows[i].baseline_us;
    others.arm_us += difference.rows[i].arm_us;
    others.difference_us += difference.rows[i].difference_us;
  }
  rows.push_back(std::move(others));
  return rows;
}

double explained_us(const TimeDifference& difference) {
  return difference.timed.difference_us - difference.residual.difference_us;
}

Section times_section(const Findings& findings) {
  Section section{"times", "Where the time goes", {}};
  const Times& times = findings.times;
  if (times.arms.empty()) return section;
  section.blocks.emplace_back(arm_table(times));
  if (time_parts(times, kColouredParts).any()) section.blocks.emplace_back(parts_table(times));
  const std::string& baseline = times.arms.front().arm;
  for (std::size_t i = 0; i < times.differences.size(); ++i) {
    const std::string audit = audit_sentence(times.differences[i], baseline);
    if (!audit.empty()) section.blocks.emplace_back(Paragraph{audit});
    section.blocks.emplace_back(difference_table(times.differences[i], baseline, i));
  }
  Table rates = rate_table(times);
  if (!rates.rows.empty()) section.blocks.emplace_back(std::move(rates));
  return section;
}

}  // namespace tare::reports
