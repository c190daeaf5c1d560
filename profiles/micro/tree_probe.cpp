// Rounds of trees beside rounds of chains of the same width: 27B in q4, random weights. Blocks of rounds of each kind
// in turn, the order reversed every other time; a round is verify (tokens out, no logits) and commit, by the host's
// clock. tree_probe [NODES [CONTEXT [FORM [ROLLBACK]]]]: JSON lines to standard output.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/philox.h"
#include "engine/cuda/cuda_backend.h"

namespace tare::micro {
namespace {

using engine::TokenTree;

constexpr int kCommitted = 4;   // tokens a round
constexpr int kLeastNodes = 7;  // a path of so many and as many siblings
constexpr int kBlocks = 8;      // of each kind; even, so that both orders are as frequent
constexpr int kWarmUp = 4;      // rounds of a block that do not count: another graph ran before
constexpr int kRounds = 20;     // that do

struct Shape {
  std::string name;
  std::vector<int> parents;        // of nodes 1..
  std::vector<std::int32_t> path;  // that is committed
};

// A path of kCommitted nodes that is not in place: the even nodes are it, the odd ones siblings.
Shape interleaved(int nodes) {
  Shape shape{"interleaved", {}, {0}};
  for (int node = 1; node < nodes; ++node) shape.parents.push_back(node - 2 + node % 2);
  while (static_cast<int>(shape.path.size()) < kCommitted) shape.path.push_back(shape.path.back() + 2);
  return shape;
}
Shape random_shape(int nodes, std::uint64_t seed) {
  Shape shape{fmt::format("random {}", seed), {}, {}};
  Philox random(seed);
  TokenTree tree(0);
  int deepest = 0;
  for (int node = 1; node < nodes; ++node) {
    shape.parents.push_back(static_cast<int>(random.below(static_cast<std::uint64_t>(node))));
    tree.add(shape.parents.back(), 0);
    if (tree.depths()[static_cast<std::size_t>(node)] > tree.depths()[static_cast<std::size_t>(deepest)])
      deepest = node;
  }
  shape.path = tree.path_to(deepest);
  if (shape.path.size() > kCommitted) shape.path.resize(kCommitted);
  return shape;
}
Shape chain(int nodes) {
  Shape shape{"chain", {}, {}};
  for (int node = 1; node < nodes; ++node) shape.parents.push_back(node - 1);
  for (int node = 0; node < kCommitted; ++node) shape.path.push_back(node);
  return shape;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void probe(int nodes, std::int64_t context, engine::GdnForm form, engine::Rollback rollback) {
  if (nodes < kLeastNodes) throw input_error("nodes", fmt::format("{}; at least {}", nodes, kLeastNodes));
  engine::EngineOptions options;
  options.backend = engine::BackendKind::kCuda;
  options.weights.format = engine::WeightFormat::kQ4;
  options.gdn.form = form;
  options.rollback = rollback;
  const std::vector<Shape> shapes = {chain(nodes), interleaved(nodes), random_shape(nodes, 1), random_shape(nodes, 2)};
  options.context =
      context + static_cast<std::int64_t>(shapes.size() * kBlocks * (kWarmUp + kRounds) * kCommitted) + nodes;
  const std::unique_ptr<engine::Backend> backend =
      engine::make_cuda_backend(*engine::open_checkpoint("synthetic:27b?seed=1"), options);
  const auto vocab = static_cast<std::uint64_t>(backend->config().vocab_size);
  Philox random(1);
  const auto token = [&] { return static_cast<std::int32_t>(random.below(vocab)); };
  std::vector<std::int32_t> prompt(static_cast<std::size_t>(context));
  for (std::int32_t& one : prompt) one = token();
  backend->prefill(prompt);

  const auto round_us = [&](const Shape& shape) {
    TokenTree tree(token());
    for (const int parent : shape.parents) tree.add(parent, token());
    const auto start = std::chrono::steady_clock::now();
    backend->verify(tree, {.logits = false, .hidden = false});
    backend->commit(shape.path);
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  };
  std::vector<std::vector<double>> medians(shapes.size());  // of each block
  for (int block = 0; block < kBlocks; ++block) {
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const std::size_t which = block % 2 == 0 ? i : shapes.size() - 1 - i;
      std::vector<double> times;
      for (int round = 0; round < kWarmUp + kRounds; ++round) {
        const double us = round_us(shapes[which]);
        if (round >= kWarmUp) times.push_back(us);
      }
      medians[which].push_back(median(times));
    }
  }
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    std::vector<double> ratios;
    for (std::size_t block = 0; block < medians[i].size(); ++block)
      ratios.push_back(medians[i][block] / medians[0][block]);
    const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
    fmt::print(R"({{"what": "tree_round", "form": "{}", "rollback": "{}", "nodes": {}, "context": {}, "shape": "{}", )"
               R"("path": {}, "round_us": {:.1f}, "over_chain": {:.5f}, "least": {:.5f}, "most": {:.5f}}})"
               "\n",
               to_text(form), to_text(rollback), nodes, context, shapes[i].name, shapes[i].path.size(),
               median(medians[i]),
               std::accumulate(ratios.begin(), ratios.end(), 0.0) / static_cast<double>(ratios.size()), *least, *most);
  }
}

}  // namespace
}  // namespace tare::micro

int main(int count, char** arguments) {
  const auto text = [&](int index, const char* otherwise) {
    return std::string(index < count ? arguments[index] : otherwise);
  };
  const std::string rollback = text(4, "tree_chunk");
  try {
    tare::micro::probe(
        std::atoi(text(1, "16").c_str()), std::atoll(text(2, "1024").c_str()),
        text(3, "chunked") == "recurrent" ? tare::engine::GdnForm::kRecurrent : tare::engine::GdnForm::kChunked,
        rollback == "snapshot" ? tare::engine::Rollback::kSnapshot
        : rollback == "ring"   ? tare::engine::Rollback::kRing
                               : tare::engine::Rollback::kTreeChunk);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
  return 0;
}
