// Rounds of a random 27B in q4 at 1,024 positions, of one token, of 16 and of 32 (chains, four committed), by the
// host's clock around verify and commit. Each argument is an arm: engine options as path=value[,path=value...], or "-"
// for the defaults. Arms take turns in blocks of rounds, in the other order every second time.
//   round_probe ARM...    JSON lines to standard output
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/philox.h"
#include "engine/cuda/cuda_backend.h"

namespace tare::micro {
namespace {

constexpr int kWidths[] = {1, 16, 32};
constexpr int kMostTokens = 32;
constexpr int kCommitted = 4;  // tokens a round, at most
constexpr std::int64_t kPositions = 1024;
constexpr int kBlocks = 8;  // of each arm; even, so that both orders are as frequent
constexpr int kWarmUp = 3;  // rounds of a block that do not count: another arm ran before
constexpr int kRounds = 20;

struct Arm {
  std::string option;
  std::unique_ptr<engine::Backend> backend;
  std::vector<double> medians = {};  // of a width's blocks
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Arm open(const std::string& text) {
  engine::EngineOptions options;
  for (std::size_t at = 0; text != "-" && at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    engine::apply_option(options, text.substr(at, end - at));
    at = end + 1;
  }
  options.backend = engine::BackendKind::kCuda;
  options.weights.format = engine::WeightFormat::kQ4;
  options.context =
      kPositions + std::int64_t{(kWarmUp + kRounds) * kBlocks} * std::ssize(kWidths) * kCommitted + kMostTokens;
  Arm arm{.option = text,
          .backend = engine::make_cuda_backend(*engine::open_checkpoint("synthetic:27b?seed=1"), options)};
  const auto vocab = static_cast<std::uint64_t>(arm.backend->config().vocab_size);
  Philox random(1);
  std::vector<std::int32_t> prompt(kPositions);
  for (std::int32_t& token : prompt) token = static_cast<std::int32_t>(random.below(vocab));
  arm.backend->prefill(prompt);
  return arm;
}

double round_us(engine::Backend& backend, int width) {
  engine::TokenTree tree(1);
  std::vector<std::int32_t> path = {0};
  for (int node = 1; node < width; ++node) {
    tree.add(node - 1, node + 1);
    if (node < kCommitted) path.push_back(node);
  }
  const auto start = std::chrono::steady_clock::now();
  backend.verify(tree, {.logits = false, .hidden = false});
  backend.commit(path);
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

void probe(std::vector<Arm>& arms, int width) {
  for (Arm& arm : arms) arm.medians.clear();
  for (int block = 0; block < kBlocks; ++block) {
    for (std::size_t i = 0; i < arms.size(); ++i) {
      Arm& arm = arms[block % 2 == 0 ? i : arms.size() - 1 - i];
      std::vector<double> times;
      for (int round = 0; round < kWarmUp + kRounds; ++round) {
        const double us = round_us(*arm.backend, width);
        if (round >= kWarmUp) times.push_back(us);
      }
      arm.medians.push_back(median(times));
    }
  }
  for (const Arm& arm : arms) {
    const auto [least, most] = std::minmax_element(arm.medians.begin(), arm.medians.end());
    fmt::print(R"({{"what": "round", "tokens": {}, "arm": "{}", "round_us": {:.1f}, "least_us": {:.1f}, )"
               R"("most_us": {:.1f}}})"
               "\n",
               width, arm.option, median(arm.medians), *least, *most);
  }
}

}  // namespace
}  // namespace tare::micro

int main(int count, char** arguments) {
  if (count < 2) {
    fmt::print(stderr, "usage: round_probe ARM...\n");
    return 2;
  }
  try {
    std::vector<tare::micro::Arm> arms;
    for (int i = 1; i < count; ++i) arms.push_back(tare::micro::open(arguments[i]));
    for (const int width : tare::micro::kWidths) tare::micro::probe(arms, width);
  } catch (const tare::Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return tare::exit_code(error.kind());
  }
  return 0;
}
