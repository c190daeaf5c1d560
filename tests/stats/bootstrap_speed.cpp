// How long 10,000 paired resamples of 480 prompts take, with 16 runs behind them; for scripts/bootstrap-speed, which
// holds it against scipy.stats.bootstrap in turns. Reads "round" lines from standard input, answers each with one line
// of JSON: milliseconds (totals over the runs included) and the interval.
//   bootstrap_speed --data FILE   writes the data as CSV (prompt, run, arm, tokens, seconds) and ends
//   bootstrap_speed THREADS
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <string>

#include "base/file.h"
#include "stats/bootstrap.h"
#include "stats/simulation.h"

namespace {

using namespace tare::stats;

constexpr std::size_t kPrompts = 480;
constexpr int kBlocks = 2;  // of eight runs

Observations observations() {
  ClockModel model;
  model.log_effects = {0, 0.003};
  model.reaction_sd = 0.004;
  model.launch_sd = 0.001;
  return simulate(model, make_schedule(2, kBlocks, 1), Granularity::kRun, kPrompts, 1).observations;
}

void write_data(const Observations& data, const char* file) {
  std::string csv = "prompt,run,arm,tokens,seconds\n";
  for (std::size_t prompt = 0; prompt < data.prompts; ++prompt) {
    for (std::size_t run = 0; run < data.runs.size(); ++run) {
      const std::size_t cell = data.at(prompt, run);
      csv += fmt::format("{},{},{},{},{}\n", prompt, run, data.runs[run].arm, data.numerator[cell],
                         data.denominator[cell]);
    }
  }
  tare::write_file_atomically(file, csv);
}

void time_once(const Observations& data, int threads) {
  const auto begin = std::chrono::steady_clock::now();
  const BootstrapResult result =
      bootstrap_ratio(prompt_totals(data, 0), prompt_totals(data, 1), {.resamples = 10'000, .threads = threads});
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - begin;
  const Interval& percentile = *result.estimate.interval;
  fmt::print("{{\"ms\": {:.4f}, \"low\": {}, \"high\": {}, \"standard_error\": {}}}\n", taken.count(), percentile.low,
             percentile.high, result.estimate.standard_error);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const Observations data = observations();
  if (argc == 3 && std::string(argv[1]) == "--data") {
    write_data(data, argv[2]);
    return 0;
  }
  if (argc != 2) {
    std::fprintf(stderr, "usage: bootstrap_speed --data FILE | THREADS\n");
    return 2;
  }
  const int threads = std::stoi(argv[1]);
  for (std::string line; std::getline(std::cin, line);) time_once(data, threads);
  return 0;
}
