#include "forced/forced_passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/philox.h"

namespace tare::forced {
namespace {

constexpr std::int64_t kMostLogitBytes = std::int64_t{256} << 20;
constexpr std::int64_t kUsualChunk = 128;  // of the CPU when option prefill.chunk is 0; CUDA's is a multiple

std::int64_t piece_tokens(const engine::Backend& backend) {
  const std::int64_t row_bytes = backend.config().vocab_size * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t chunk = backend.options().prefill.chunk > 0 ? backend.options().prefill.chunk : kUsualChunk;
  return std::max(kMostLogitBytes / row_bytes / chunk, std::int64_t{1}) * chunk;
}

// Rows that lie on the accepted path, moved together.
class PathRows {
 public:
  PathRows(const engine::VerifyOutput& output, std::span<const std::int32_t> path, std::int64_t vocab,
           std::int64_t hidden_size) {
    for (const std::int32_t node : path) {
      best_.push_back(output.best[static_cast<std::size_t>(node)]);
      append(logits_, output.logits, node, vocab);
      append(hidden_, output.hidden, node, hidden_size);
    }
  }
  [[nodiscard]] PassRows at(std::int64_t first) const {
    return {first, static_cast<std::int64_t>(best_.size()), logits_, best_, hidden_};
  }

 private:
  std::vector<float> logits_, hidden_;
  std::vector<std::int32_t> best_;

  static void append(std::vector<float>& rows, std::span<const float> values, std::int32_t node, std::int64_t width) {
    if (values.empty()) return;
    const auto row = values.subspan(static_cast<std::size_t>(node * width), static_cast<std::size_t>(width));
    rows.insert(rows.end(), row.begin(), row.end());
  }
};

struct ForcedTree {
  engine::TokenTree tree;
  std::vector<std::int32_t> path;
};

// `accepted` nodes hold the text from `position` on; the other nodes are siblings of these, one at every depth in turn.
// The nodes of a depth come together, the path's first or last in turn, so that paths are no prefix of the rows.
ForcedTree forced_tree(std::span<const std::int32_t> tokens, std::int64_t position, std::int64_t accepted,
                       std::int64_t nodes, std::int64_t vocab) {
  ForcedTree forced{engine::TokenTree(tokens[static_cast<std::size_t>(position)]), {0}};
  const std::int64_t rejected = nodes - accepted;
  const auto other = [&](std::int64_t depth, std::int64_t sibling) {
    const auto index = static_cast<std::size_t>(
        std::min<std::int64_t>(position + depth, static_cast<std::int64_t>(tokens.size()) - 1));
    return static_cast<std::int32_t>((tokens[index] + 1 + sibling) % vocab);
  };
  // Depth 1 .. accepted: below the last accepted node hang only rejected ones.
  for (std::int64_t depth = 1; depth <= accepted; ++depth) {
    const int parent = forced.path.back();
    const std::int64_t siblings = rejected / accepted + (depth <= rejected % accepted ? 1 : 0);
    const bool path_first = depth % 2 == 0;
    if (depth < accepted && path_first)
      forced.path.push_back(forced.tree.add(parent, tokens[static_cast<std::size_t>(position + depth)]));
    for (std::int64_t sibling = 0; sibling < siblings; ++sibling) (void)forced.tree.add(parent, other(depth, sibling));
    if (depth < accepted && !path_first)
      forced.path.push_back(forced.tree.add(parent, tokens[static_cast<std::size_t>(position + depth)]));
  }
  return forced;
}

}  // namespace

void prefill_window(engine::Backend& backend, std::span<const std::int32_t> tokens, const PassRequest& request,
                    const TakeRows& take) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  const std::int64_t piece = std::min(piece_tokens(backend), count);
  const engine::ModelConfig& config = backend.config();
  std::vector<float> logits(request.logits ? static_cast<std::size_t>(piece * config.vocab_size) : 0);
  std::vector<float> hidden(request.hidden ? static_cast<std::size_t>(piece * config.hidden_size) : 0);
  backend.reset();
  for (std::int64_t first = 0; first < count; first += piece) {
    const std::int64_t rows = std::min(piece, count - first);
    PassRows result{.first = first, .rows = rows, .logits = {}, .best = {}, .hidden = {}};
    engine::PrefillCapture capture;
    if (request.logits) {
      capture.logits = std::span(logits).first(static_cast<std::size_t>(rows * config.vocab_size));
      result.logits = capture.logits;
    }
    if (request.hidden) {
      capture.hidden.resize(static_cast<std::size_t>(config.layer_count()) + 1);
      capture.hidden.back() = std::span(hidden).first(static_cast<std::size_t>(rows * config.hidden_size));
      result.hidden = capture.hidden.back();
    }
    (void)backend.prefill(tokens.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(rows)), capture);
    take(result);
  }
}

void decode_window(engine::Backend& backend, std::span<const std::int32_t> tokens, std::int64_t nodes,
                   std::uint64_t stream, const PassRequest& request, const TakeRows& take) {
  if (nodes < 1) throw input_error("round nodes", fmt::format("must be at least 1, is {}", nodes));
  prefill_window(backend, tokens.first(1), {.logits = true, .hidden = request.hidden}, take);
  const engine::ModelConfig& config = backend.config();
  const bool screened = backend.options().head.screen != engine::HeadScreen::kNone;
  const engine::VerifyRequest wanted{.logits = request.logits && !screened, .hidden = request.hidden};
  Philox random(static_cast<std::uint64_t>(nodes), stream);
  const auto last = static_cast<std::int64_t>(tokens.size()) - 1;
  for (std::int64_t position = 1; position < last;) {
    const std::int64_t drawn = 1 + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(nodes)));
    const std::int64_t accepted = std::min(drawn, last - position);
    const ForcedTree round = forced_tree(tokens, position, accepted, nodes, config.vocab_size);
    const engine::VerifyOutput output = backend.verify(round.tree, wanted);
    if (round.tree.size() == 1) {
      take({position, 1, output.logits, output.best, output.hidden});
    } else {
      take(PathRows(output, round.path, config.vocab_size, config.hidden_size).at(position));
    }
    backend.commit(round.path);
    position += accepted;
  }
}

}  // namespace tare::forced
