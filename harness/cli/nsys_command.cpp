#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/cli/commands.h"
#include "harness/cli/kernel_table.h"
#include "harness/cli/trace_arguments.h"
#include "harness/driver/log.h"
#include "profiles/nsys/nsys_import.h"
#include "profiles/nsys/nsys_tracks.h"
#include "stats/quantiles.h"

namespace tare::harness {
namespace {

constexpr double kHalf = 0.5;  // the median

struct Arguments {
  std::string file;
  profiles::NsysSettings settings;
  TraceArguments trace;
  bool json = false;
};

std::string source_text(const Arguments& arguments) {
  return arguments.settings.equal_rounds > 0 ? "equal parts"
                                             : fmt::format("range '{}'", arguments.settings.round_range);
}

Json phases_json(const profiles::NsysProfile& profile) {
  Json phases = Json::array();
  for (const profiles::PhaseRow& row : profiles::phases_of(profile))
    phases.push_back({{"phase", row.phase}, {"calls_per_round", row.calls}, {"us_per_round", row.us}});
  return phases;
}

Json to_json(const profiles::NsysProfile& profile, const Arguments& arguments) {
  return {{"file", arguments.file},
          {"schema_version", profile.schema_version},
          {"nsys_version", profile.nsys_version},
          {"device", profile.device},
          {"rounds_from", source_text(arguments)},
          {"rounds", profile.rounds.size()},
          {"span_us", profile.span_us},
          {"idle_us", profile.idle_us},
          {"idle_share", profile.idle_us / profile.span_us},
          {"kernels_per_round", profile.kernels_only},
          {"fewest_kernels", profile.fewest_kernels},
          {"most_kernels", profile.most_kernels},
          {"records", profile.records},
          {"records_outside", profile.outside},
          {"profiler_overhead_us", profile.overhead_us},
          {"phases", phases_json(profile)},
          {"rows", kernel_rows_json(profile)},
          {"range_us", profile.range_us},
          {"warnings", profile.warnings}};
}

// One line: the phases that take most; ranges may be as many as layers.
void print_phases(const profiles::NsysProfile& profile) {
  constexpr std::size_t kMostShown = 6;
  const std::vector<profiles::PhaseRow> phases = profiles::phases_of(profile);
  std::string line = "\nphases:";
  for (std::size_t i = 0; i < std::min(phases.size(), kMostShown); ++i)
    line += fmt::format("{} {} {:.1f} us", i == 0 ? "" : ",", phases[i].phase.empty() ? "(the round)" : phases[i].phase,
                        phases[i].us);
  if (phases.size() > kMostShown) line += fmt::format(", and {} more", phases.size() - kMostShown);
  fmt::print("{}", line);
}

void print(const profiles::NsysProfile& profile, const Arguments& arguments) {
  print_kernel_table(profile, "first kernel to last, under Nsight Systems");
  print_phases(profile);
  fmt::print("\n{} rounds ({}) on device {}, {:.1f} kernels a round", profile.rounds.size(), source_text(arguments),
             profile.device, profile.kernels_only);
  if (!profile.range_us.empty())
    fmt::print(", {:.1f} us on the host (median)", stats::quantile(profile.range_us, kHalf));
  fmt::print("\n{} kernels and copies outside of rounds; the profiler's own work {:.1f} us a round\n", profile.outside,
             profile.overhead_us);
  if (!profile.schema_version.empty())
    fmt::print("export schema {}, Nsight Systems {}\n", profile.schema_version,
               profile.nsys_version.empty() ? "of unknown version" : profile.nsys_version);
}

int import(const Arguments& arguments) {
  const profiles::NsysProfile profile = profiles::import_nsys(arguments.file, arguments.settings);
  for (const std::string& warning : profile.warnings) log_warning("{}", warning);
  if (arguments.json) {
    // Names come from elsewhere and may be no UTF-8.
    fmt::print("{}\n", to_json(profile, arguments).dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    print(profile, arguments);
  }
  if (!arguments.trace.file.empty())
    arguments.trace.write(profiles::nsys_tracks(profile, static_cast<std::size_t>(arguments.trace.rounds)),
                          {{"source", arguments.file},
                           {"rounds_from", source_text(arguments)},
                           {"rounds", profile.rounds.size()},
                           {"nsys_version", profile.nsys_version}});
  return 0;
}

}  // namespace

void add_nsys_command(CommandLine& line) {
  const auto arguments = std::make_shared<Arguments>();
  const Command command = line.add_command("nsys", "kernel tables from an export of Nsight Systems, of any engine");
  command.add_option("file", arguments->file, "what nsys export --type sqlite wrote").required();
  const Option range = command
                           .add_option("--round-range", arguments->settings.round_range,
                                       "NVTX range of a round; * at the end: names that begin so")
                           .show_default();
  command
      .add_option("--equal-rounds", arguments->settings.equal_rounds,
                  "without ranges: cut all kernels into so many rounds of equally many")
      .positive()
      .not_with(range);
  command.add_option("--skip-rounds", arguments->settings.skip_rounds, "leave out so many at the beginning")
      .not_negative()
      .show_default();
  command.add_option("--device", arguments->settings.device, "whose kernels count, where rounds use several");
  command
      .add_option("--least-kernels", arguments->settings.least_kernels,
                  "fewer a round are refused: whole graphs were recorded then")
      .not_negative()
      .show_default();
  arguments->trace.add_to(command);
  command.add_flag("--json", arguments->json, "every kernel and every round as JSON");
  command.set_footer(
      "Record with: scripts/nsys-run --out capture PROGRAM ...\nExample: tare nsys capture.sqlite --trace "
      "capture.json");
  command.set_action([arguments] { return import(*arguments); });
}

}  // namespace tare::harness
