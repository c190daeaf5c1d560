// Rounds of trees beside rounds of chains of the same width: 27B in q4, random weights. One round of each kind in turn,
// the order reversed every other time; a round is verify (tokens out, no logits) and commit, by the host's clock.
// tree_probe [NODES [CONTEXT [FORM [ROLLBACK]]]]: JSON lines to standard output.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <memory>
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
constexpr int kWarmUp = 6;
constexpr int kRepeats = 40;
constexpr std::int64_t kRoom = 2048;  // beyond the context, for what the rounds commit

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
  options.context = context + kRoom;
  const std::unique_ptr<engine::Backend> backend =
      engine::make_cuda_backend(*engine::open_checkpoint("synthetic:27b?seed=1"), options);
  const auto vocab = static_cast<std::uint64_t>(backend->config().vocab_size);
  Philox random(1);
  const auto token = [&] { return static_cast<std::int32_t>(random.below(vocab)); };
  std::vector<std::int32_t> prompt(static_cast<std::size_t>(context));
  for (std::int32_t& one : prompt) one = token();
  backend->prefill(prompt);

  const std::vector<Shape> shapes = {chain(nodes), interleaved(nodes), random_shape(nodes, 1), random_shape(nodes, 2)};
  std::vector<std::vector<double>> verify_us(shapes.size());
  std::vector<std::vector<double>> round_us(shapes.size());
  const auto round = [&](std::size_t which, bool keep) {
    const Shape& shape = shapes[which];
    TokenTree tree(token());
    for (const int parent : shape.parents) tree.add(parent, token());
    using Clock = std::chrono::steady_clock;
    const auto us = [](Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); };
    const Clock::time_point start = Clock::now();
    backend->verify(tree, {.logits = false, .hidden = false});
    const Clock::time_point verified = Clock::now();
    backend->commit(shape.path);
    const Clock::time_point end = Clock::now();
    if (!keep) return;
    verify_us[which].push_back(us(verified - start));
    round_us[which].push_back(us(end - start));
  };
  for (int repeat = 0; repeat < kWarmUp + kRepeats; ++repeat) {
    for (std::size_t i = 0; i < shapes.size(); ++i)
      round(repeat % 2 == 0 ? i : shapes.size() - 1 - i, repeat >= kWarmUp);
  }
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    std::vector<double> ratios;
    for (std::size_t r = 0; r < round_us[i].size(); ++r) ratios.push_back(round_us[i][r] / round_us[0][r]);
    fmt::print(R"({{"what": "tree_round", "form": "{}", "rollback": "{}", "nodes": {}, "context": {}, "shape": "{}", )"
               R"("path": {}, "verify_us": {:.1f}, "round_us": {:.1f}, "over_chain": {:.5f}}})"
               "\n",
               to_text(form), to_text(rollback), nodes, context, shapes[i].name, shapes[i].path.size(),
               median(verify_us[i]), median(round_us[i]), median(ratios));
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
