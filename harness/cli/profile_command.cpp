#include <fmt/format.h>

#include <memory>
#include <vector>

#include "base/error.h"
#include "base/json_reader.h"
#include "harness/cli/commands.h"
#include "harness/cli/model_arguments.h"
#include "profiles/round_profile.h"
#include "profiles/timeline/cupti_collector.h"
#include "stats/quantiles.h"

namespace tare::harness {
namespace {

constexpr double kHalf = 0.5;  // the median
constexpr double kPercent = 100;
constexpr double kBytesPerUsToGb = 1e-3;

struct Arguments {
  ModelArguments model;
  profiles::RoundProfileSettings settings;
  bool json = false;
};

double rate_gbps(const profiles::KernelRow& row) {
  return row.us > 0 ? row.declared_bytes / row.us * kBytesPerUsToGb : 0;
}

Json to_json(const profiles::RoundProfile& profile, const profiles::RoundProfileSettings& settings,
             const engine::Backend& backend) {
  Json rows = Json::array();
  for (const profiles::KernelRow& row : profile.rows)
    rows.push_back({{"kernel", row.kernel},
                    {"launch", row.launch},
                    {"part", row.part},
                    {"calls_per_round", row.calls},
                    {"us_per_round", row.us},
                    {"duration_us_per_round", row.duration_us},
                    {"declared_bytes_per_round", row.declared_bytes},
                    {"gb_per_s", rate_gbps(row)},
                    {"share_of_span", row.us / profile.span_us}});
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
          {"kernels_per_round", profile.kernels},
          {"records", profile.records},
          {"unmatched", profile.unmatched},
          {"rows", rows},
          {"timed_us", profile.timed_us},
          {"profiled_us", profile.profiled_us},
          {"backend", backend.description()},
          {"options", engine::to_json(backend.options())}};
}

void print(const profiles::RoundProfile& profile, const profiles::RoundProfileSettings& settings) {
  const double round_us = stats::quantile(profile.timed_us, kHalf);
  const double profiled_us = stats::quantile(profile.profiled_us, kHalf);
  fmt::print("{:>10} {:>6} {:>10} {:>8} {:>7}  {}\n", "us/round", "calls", "MB/round", "GB/s", "share", "what");
  for (const profiles::KernelRow& row : profile.rows) {
    const std::string what = row.launch.empty() ? row.kernel : fmt::format("{}  {}", row.launch, row.part);
    const bool known = row.declared_bytes > 0;
    fmt::print("{:10.2f} {:6.1f} {:>10} {:>8} {:6.1f}%  {}\n", row.us, row.calls,
               known ? fmt::format("{:.2f}", row.declared_bytes / 1e6) : "-",
               known ? fmt::format("{:.0f}", rate_gbps(row)) : "-", row.us / profile.span_us * kPercent, what);
  }
  fmt::print("{:10.2f} {:>6} {:>10} {:>8} {:6.1f}%  idle between kernels\n", profile.idle_us, "", "", "",
             profile.idle_us / profile.span_us * kPercent);
  fmt::print("{:10.2f} {:6}                               first kernel to last, under the collector\n\n",
             profile.span_us, profile.kernels);
  fmt::print(
      "round {:.1f} us (median of {}, {} tokens wide, {} in the caches), {:.1f} us under the collector ({:+.1f} %)\n",
      round_us, settings.rounds, settings.width, profile.first_context, profiled_us,
      (profiled_us / round_us - 1) * kPercent);
  fmt::print("prefill of {} tokens {:.2f} ms\n", settings.context, profile.prefill_us / 1e3);
  if (!profile.unmatched.empty()) fmt::print("kernels carry no bytes: {}\n", profile.unmatched);
}

int profile(const Arguments& arguments) {
  const engine::EngineOptions options = arguments.model.options();
  if (options.backend != engine::BackendKind::kCuda)
    throw input_error("backend", "is cpu, which launches no kernels to record", "--set backend=cuda");
  const OpenModel opened = open_model(arguments.model.model, options);
  const profiles::RoundProfile result =
      profiles::profile_rounds(*opened.backend, arguments.settings, profiles::make_cupti_collector);
  if (arguments.json) {
    fmt::print("{}\n", to_json(result, arguments.settings, *opened.backend).dump(2));
  } else {
    print(result, arguments.settings);
  }
  return 0;
}

}  // namespace

void add_profile_command(CLI::App& app, Chosen& chosen) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("profile", "where a round's time goes on a GPU, kernel by kernel");
  arguments->model.add_to(*command);
  command->add_option("--prompt-tokens", arguments->settings.context, "random tokens in the caches at the start")
      ->capture_default_str();
  command->add_option("--width", arguments->settings.width, "tokens a round verifies and commits")
      ->capture_default_str();
  command->add_option("--rounds", arguments->settings.rounds, "timed, and as many again under the collector")
      ->capture_default_str();
  command->add_option("--seed", arguments->settings.seed, "of the random tokens")->capture_default_str();
  command->add_flag("--json", arguments->json, "every kernel and every round as JSON");
  command->footer(
      "Example: tare profile --model 'synthetic:27b?seed=1' --set backend=cuda --set weights.format=q4 --width 16");
  command->callback([arguments, &chosen] { chosen.action = [arguments] { return profile(*arguments); }; });
}

}  // namespace tare::harness
