#include <fmt/format.h>

#include <memory>
#include <vector>

#include "base/error.h"
#include "base/json_reader.h"
#include "harness/cli/commands.h"
#include "harness/cli/kernel_table.h"
#include "harness/cli/model_arguments.h"
#include "harness/cli/trace_arguments.h"
#include "profiles/replay_profile.h"
#include "profiles/round_profile.h"
#include "profiles/timeline/profiler_present.h"
#include "stats/quantiles.h"

namespace tare::harness {
namespace {

constexpr double kHalf = 0.5;  // the median
constexpr double kPercent = 100;

struct Arguments {
  ModelArguments model;
  profiles::RoundProfileSettings settings;
  TraceArguments trace;
  bool json = false;
};

// Of the median round, as a share of it.
double collector_cost(const profiles::RoundProfile& profile) {
  return stats::quantile(profile.profiled_us, kHalf) / stats::quantile(profile.timed_us, kHalf) - 1;
}

Json to_json(const profiles::RoundProfile& profile, const profiles::RoundProfileSettings& settings,
             const engine::Backend& backend) {
  return {{"width", settings.width},
          {"rounds", settings.rounds},
          {"prompt_tokens", settings.context},
          {"prefill_us", profile.prefill_us},
          {"first_context", profile.first_context},
          {"round_us", stats::quantile(profile.timed_us, kHalf)},
          {"profiled_round_us", stats::quantile(profile.profiled_us, kHalf)},
          {"span_us", profile.span_us},
          {"idle_us", profile.idle_us},
          {"idle_share", profile.idle_us / profile.span_us},
          {"residual_us", profile.residual_us()},
          {"collector_cost", collector_cost(profile)},
          {"kernels_per_round", profile.rounds.front().size()},
          {"records", profile.records},
          {"unmatched", profile.unmatched},
          {"rows", kernel_rows_json(profile)},
          {"timed_us", profile.timed_us},
          {"profiled_us", profile.profiled_us},
          {"backend", backend.description()},
          {"options", engine::to_json(backend.options())}};
}

void print(const profiles::RoundProfile& profile, const profiles::RoundProfileSettings& settings) {
  const double round_us = stats::quantile(profile.timed_us, kHalf);
  const double profiled_us = stats::quantile(profile.profiled_us, kHalf);
  if (profile.of_ops) {
    print_kernel_table(profile, "first op to last, under the collector", "host, between ops");
  } else {
    print_kernel_table(profile, "first kernel to last, under the collector");
  }
  fmt::print("\n");
  fmt::print(
      "round {:.1f} us (median of {}, {} tokens wide, {} in the caches), {:.1f} us under the collector ({:+.1f} %)\n",
      round_us, settings.rounds, settings.width, profile.first_context, profiled_us,
      collector_cost(profile) * kPercent);
  fmt::print("{:+.1f} us of the mean timed round are outside of that span\n", profile.residual_us());
  fmt::print("prefill of {} tokens {:.2f} ms\n", settings.context, profile.prefill_us / 1e3);
  if (!profile.unmatched.empty()) fmt::print("kernels carry no bytes: {}\n", profile.unmatched);
}

int profile(const Arguments& arguments) {
  const engine::EngineOptions options = arguments.model.options();
  const OpenModel opened = open_model(arguments.model.model, options);
  if (const std::string other = profiles::profiler_present();
      options.backend == engine::BackendKind::kCpu && !other.empty())
    fmt::print(stderr, "warning: this process runs under {} already: what that costs is in every round\n", other);
  profiles::RoundProfileSettings settings = arguments.settings;
  settings.alternate = options.backend == engine::BackendKind::kCpu;
  const profiles::RoundProfile result =
      profiles::profile_rounds(*opened.backend, settings, [&] { return profiles::make_collector_of(*opened.backend); });
  if (arguments.json) {
    fmt::print("{}\n", to_json(result, arguments.settings, *opened.backend).dump(2));
  } else {
    print(result, arguments.settings);
  }
  if (!arguments.trace.file.empty())
    arguments.trace.write(profiles::profile_tracks(result, static_cast<std::size_t>(arguments.trace.rounds)),
                          {{"width", arguments.settings.width},
                           {"first_context", result.first_context},
                           {"backend", opened.backend->description()},
                           {"options", engine::to_json(opened.backend->options())}});
  return 0;
}

}  // namespace

void add_profile_command(CommandLine& line) {
  const auto arguments = std::make_shared<Arguments>();
  const Command command = line.add_command("profile", "where a round's time goes, kernel by kernel or op by op");
  arguments->model.add_to(command);
  command.add_option("--prompt-tokens", arguments->settings.context, "random tokens in the caches at the start")
      .show_default();
  command.add_option("--width", arguments->settings.width, "tokens a round verifies and commits").show_default();
  command.add_option("--rounds", arguments->settings.rounds, "timed, and as many again under the collector")
      .show_default();
  command.add_option("--seed", arguments->settings.seed, "of the random tokens").show_default();
  arguments->trace.add_to(command);
  command.add_flag("--json", arguments->json, "every kernel or op and every round as JSON");
  command.set_footer(
      "Examples: tare profile --model models/embedded --set weights.format=q4\n"
      "          tare profile --model 'synthetic:27b?seed=1' --set backend=cuda --set weights.format=q4 --width 16");
  command.set_action([arguments] { return profile(*arguments); });
}

}  // namespace tare::harness
