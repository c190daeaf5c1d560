#include "engine/cuda/head/screened_head.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "engine/cuda/product/row_fields.h"

namespace tare::engine {
namespace {

constexpr std::size_t kLargestBytes = sizeof(std::uint32_t) * kMostRoundTokens * kMostLogitChunks;
constexpr std::size_t kChosenBytes = sizeof(std::int32_t) * kMostRoundTokens * kMostCandidates;

}  // namespace

void CudaScreenedHead::check(const ModelConfig& config, const EngineOptions& options) {
  if (options.head.screen == HeadScreen::kNone) return;
  if (options.head.candidates > kMostCandidates) {
    throw input_error("head.candidates", fmt::format("backend cuda scores at most {} candidates a row, not {}",
                                                     kMostCandidates, options.head.candidates));
  }
  const WeightCodec head = options.codec_of(TensorClass::kHead, config.layer_count());
  if (!has_row_fields(head)) {
    throw input_error("head.screen",
                      fmt::format("backend cuda scores candidates with no head of {}{}", to_text(head.format),
                                  has_tensor_scale(head) ? " and E4M3 scales" : ""),
                      "set head.screen to none, or the head to bf16, q8, q4, q3 or fp8 with FP16 scales");
  }
  check_head_shape(config.vocab_size, config.hidden_size);
  if (!can_choose_from(head.format, config.hidden_size)) {
    throw input_error("hidden_size", fmt::format("{} is too large for head.screen on backend cuda", config.hidden_size),
                      "set head.screen to none");
  }
}

std::uint64_t CudaScreenedHead::work_bytes() {
  return kLargestBytes + kChosenBytes;
}

CudaScreenedHead::CudaScreenedHead(const CudaModelWeights& weights, const EngineOptions& options)
    : weights_(weights),
      candidates_(static_cast<int>(std::min(options.head.candidates, weights.head.matrix.rows))),
      rounded_(options.activations.format != ActivationFormat::kFP32),
      largest_(kLargestBytes, "largest logits of the screen"),
      chosen_(kChosenBytes, "candidates of the screen") {
  if (!weights.screen) throw internal_error("a screened head without a screen");
}

// As it lies in the tiles, without the row beside it that every line has too.
std::uint64_t CudaScreenedHead::row_bytes() const {
  const WeightMatrix& head = weights_.head.matrix;
  return static_cast<std::uint64_t>(units_a_row_block(head.columns) * unit_bytes(head.codec()) / kUnitRows);
}

void CudaScreenedHead::launch(const ProductResult& screened, const float* hidden, int tokens, RoundKeys* keys,
                              const CudaLaunch& launch) const {
  CudaLaunch here = launch;
  here.part = "logits";
  here.bytes = 0;
  launch_screen_chunks(screened, tokens, largest_.as<std::uint32_t>(), keys, here);
  here.part = weights_.head.names.front();
  here.bytes = row_bytes() * static_cast<std::uint64_t>(tokens * candidates_);
  launch_screen_choice({.screen = screened,
                        .tokens = tokens,
                        .largest = largest_.as<std::uint32_t>(),
                        .candidates = candidates_,
                        .head = weights_.head.matrix,
                        .hidden = hidden,
                        .rounded = rounded_,
                        .keys = keys,
                        .chosen = chosen_.as<std::int32_t>()},
                       here);
}

void CudaScreenedHead::account(InventoryAccount& account, std::int64_t width) const {
  const WeightMatrix& head = weights_.head.matrix;
  const std::string& name = weights_.head.names.front();
  const CudaProjection& screen = *weights_.screen;
  account.stream(name + " (screen)", stored_format(screen.matrix), screen.bytes(),
                 element_count(head.rows, head.columns));
  // The head itself, whose rows are taken from its tiles.
  account.add({name + " (candidates)", stored_format(head), AccessPattern::kGather, weights_.head.bytes(),
               row_bytes() * static_cast<std::uint64_t>(width * candidates_), element_count(head.rows, head.columns)});
}

}  // namespace tare::engine
