#include "engine/cpu/gdn_cache.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace tare::engine {
namespace {

float exponential(double x) {
  return static_cast<float>(std::exp(x));
}

AlignedBuffer<float> floats(std::int64_t count) {
  return AlignedBuffer<float>(static_cast<std::size_t>(count));
}

}  // namespace

GdnShape::GdnShape(const ModelConfig& config)
    : heads(config.linear_value_heads),
      dk(config.linear_key_head_dim),
      dv(config.linear_value_head_dim),
      stride(round_up(dv, kStateColumnPadding)) {}

GdnScratch::GdnScratch(const GdnShape& shape)
    : state(floats(shape.state_elements())),
      key_product(floats(shape.stride)),
      query_product(floats(shape.stride)),
      update(floats(shape.stride)),
      key_dots(floats(kGdnBlock)),
      query_dots(floats(kGdnBlock)),
      weights(floats(kGdnBlock)) {}

GdnCache::GdnCache(const ModelConfig& config, GdnForm form)
    : shape_(config), form_(form), state_(floats(shape_.heads * shape_.state_elements())) {
  reset();
}

void GdnCache::reset() {
  std::fill_n(state_.data(), state_.size(), 0.0F);
  past_.count = fresh_.count = 0;
  filled_ = 0;
}

void GdnCache::reserve(Records& records, std::int64_t slots) const {
  if (slots <= records.slots) return;
  records.keys = floats(slots * shape_.heads * shape_.dk);
  records.values = floats(slots * shape_.heads * shape_.stride);
  records.decays = floats(slots * shape_.heads);
  records.slots = slots;
}

void GdnCache::begin_pass(PassMode mode, std::int64_t tokens) {
  mode_ = mode;
  pass_tokens_ = tokens;
  fresh_.first = fresh_.count = 0;
  if (form_ == GdnForm::kRecurrent) {
    // An absorbing pass needs its last two records only: the one just folded and the one being made.
    reserve(fresh_, mode == PassMode::kVerify ? tokens : std::min<std::int64_t>(tokens, 2));
    return;
  }
  const std::int64_t blocks = mode == PassMode::kVerify ? (filled_ + tokens + kGdnBlock - 1) / kGdnBlock : 1;
  while (static_cast<std::int64_t>(blocks_.size()) < blocks)
    blocks_.push_back({floats(shape_.heads * shape_.dk * kGdnBlock), floats(shape_.heads * kGdnBlock * shape_.stride),
                       floats(shape_.heads * 2 * kGdnBlock)});
}

void GdnCache::step(const Kernels& kernels, std::int64_t head, std::int64_t token, const GdnTokenInput& input,
                    GdnScratch& scratch, float* output) {
  if (form_ == GdnForm::kRecurrent) {
    step_recurrent(kernels, head, token, input, scratch, output);
  } else {
    step_chunked(kernels, head, token, input, scratch, output);
  }
}

// Folds the past's records into the state and reads it for the pass's first token.
void GdnCache::read_past(const Kernels& kernels, std::int64_t head, const GdnTokenInput& input, GdnScratch& scratch) {
  float* state = head_state(head);
  for (std::int64_t i = 0; i < past_.count; ++i) {
    const std::int64_t at = (past_.first + i) * shape_.heads + head;
    const float decay = past_.decays.data()[at];
    const float* key = past_.keys.data() + at * shape_.dk;
    const float* value = past_.values.data() + at * shape_.stride;
    if (i + 1 < past_.count) {
      kernels.gdn.fold_state(state, state, shape_.dk, shape_.stride, decay, key, value);
    } else {
      kernels.gdn.fold_and_read_state(state, state, shape_.dk, shape_.stride, decay, key, value, input.key, input.query,
                                      scratch.key_product.data(), scratch.query_product.data());
    }
  }
  if (past_.count == 0)
    kernels.gdn.read_state(state, shape_.dk, shape_.stride, input.key, input.query, scratch.key_product.data(),
                           scratch.query_product.data());
}

void GdnCache::step_recurrent(const Kernels& kernels, std::int64_t head, std::int64_t token, const GdnTokenInput& input,
                              GdnScratch& scratch, float* output) {
  const auto slot_of = [this](std::int64_t t) { return mode_ == PassMode::kVerify ? t : t % 2; };
  if (token == 0) {
    read_past(kernels, head, input, scratch);
  } else {
    // A verify leaves the committed state alone: from the first of its own records on it works on a copy.
    float* const committed = head_state(head);
    float* const working = mode_ == PassMode::kVerify ? scratch.state.data() : committed;
    const std::int64_t at = slot_of(token - 1) * shape_.heads + head;
    kernels.gdn.fold_and_read_state(token == 1 ? committed : working, working, shape_.dk, shape_.stride,
                                    fresh_.decays.data()[at], fresh_.keys.data() + at * shape_.dk,
                                    fresh_.values.data() + at * shape_.stride, input.key, input.query,
                                    scratch.key_product.data(), scratch.query_product.data());
  }
  const float decay = exponential(static_cast<double>(input.log_decay));
  const std::int64_t at = slot_of(token) * shape_.heads + head;
  kernels.gdn.recurrent_output(input.value, scratch.key_product.data(), scratch.query_product.data(), shape_.stride,
                               input.beta, decay, input.key_query, fresh_.values.data() + at * shape_.stride, output);
  std::copy_n(input.key, shape_.dk, fresh_.keys.data() + at * shape_.dk);
  fresh_.decays.data()[at] = decay;
}

void GdnCache::fold_block(const Kernels& kernels, std::int64_t head, const Block& block, std::int64_t count,
                          const float* in, float* out) const {
  const float* high = block.logs.data() + head * 2 * kGdnBlock;
  const float* low = high + kGdnBlock;
  std::array<float, kGdnBlock> weights{};
  kernels.gdn.decay_weights(high, low, count - 1, count, weights.data());
  kernels.gdn.fold_block(in, out, shape_.dk, shape_.stride,
                         exponential(static_cast<double>(high[count - 1]) + static_cast<double>(low[count - 1])),
                         block.keys.data() + head * shape_.dk * kGdnBlock, weights.data(),
                         block.values.data() + head * kGdnBlock * shape_.stride, count);
}

void GdnCache::step_chunked(const Kernels& kernels, std::int64_t head, std::int64_t token, const GdnTokenInput& input,
                            GdnScratch& scratch, float* output) {
  const bool verify = mode_ == PassMode::kVerify;
  const std::int64_t slot = filled_ + token;
  const std::int64_t index = slot % kGdnBlock;
  const std::int64_t block_index = verify ? slot / kGdnBlock : 0;
  Block& block = blocks_[static_cast<std::size_t>(block_index)];
  const float* state = head_state(head);
  if (block_index > 0) {
    if (index == 0)
      fold_block(kernels, head, blocks_[static_cast<std::size_t>(block_index - 1)], kGdnBlock,
                 block_index == 1 ? state : scratch.state.data(), scratch.state.data());
    state = scratch.state.data();
  }

  float* keys = block.keys.data() + head * shape_.dk * kGdnBlock;
  float* values = block.values.data() + head * kGdnBlock * shape_.stride;
  float* high = block.logs.data() + head * 2 * kGdnBlock;
  float* low = high + kGdnBlock;
  const double before = index == 0 ? 0.0 : static_cast<double>(high[index - 1]) + static_cast<double>(low[index - 1]);
  const double log_decay = before + static_cast<double>(input.log_decay);
  high[index] = static_cast<float>(log_decay);
  low[index] = static_cast<float>(log_decay - static_cast<double>(high[index]));

  float* key_product = scratch.key_product.data();
  float* query_product = scratch.query_product.data();
  kernels.gdn.read_state(state, shape_.dk, shape_.stride, input.key, input.query, key_product, query_product);
  const float decay = exponential(log_decay);
  kernels.vectors.scale(key_product, decay, shape_.stride);
  kernels.vectors.scale(query_product, decay, shape_.stride);
  if (index > 0) {
    float* key_dots = scratch.key_dots.data();
    float* query_dots = scratch.query_dots.data();
    kernels.gdn.block_dots(keys, shape_.dk, input.key, index, key_dots);
    kernels.gdn.block_dots(keys, shape_.dk, input.query, index, query_dots);
    kernels.gdn.decay_weights(high, low, index, index, scratch.weights.data());
    for (std::int64_t j = 0; j < index; ++j) {
      key_dots[j] *= scratch.weights.data()[j];
      query_dots[j] *= scratch.weights.data()[j];
    }
    kernels.gdn.add_weighted_rows(values, key_dots, index, shape_.stride, key_product);
    kernels.gdn.add_weighted_rows(values, query_dots, index, shape_.stride, query_product);
  }
  // The products already carry their decays; what is left is u and the token's own term of o.
  kernels.gdn.recurrent_output(input.value, key_product, query_product, shape_.stride, input.beta, 1.0F,
                               input.key_query, values + index * shape_.stride, output);
  for (std::int64_t i = 0; i < shape_.dk; ++i) keys[i * kGdnBlock + index] = input.key[i];
  if (!verify && index == kGdnBlock - 1) fold_block(kernels, head, block, kGdnBlock, state, head_state(head));
}

void GdnCache::end_pass() {
  if (form_ == GdnForm::kRecurrent) {
    past_.count = 0;  // folded by the pass's first token
    if (mode_ == PassMode::kAbsorb) {
      std::swap(past_, fresh_);
      past_.first = (pass_tokens_ - 1) % 2;
      past_.count = 1;
      fresh_.count = 0;
    }
  } else if (mode_ == PassMode::kAbsorb) {
    filled_ = (filled_ + pass_tokens_) % kGdnBlock;
  }
}

void GdnCache::commit(const Kernels& kernels, std::int64_t count, ThreadPool& pool) {
  if (mode_ != PassMode::kVerify || count < 0 || count > pass_tokens_)
    throw internal_error("GdnCache: commit without a verify of as many tokens");
  if (form_ == GdnForm::kRecurrent) {
    if (count == 0) return;
    std::swap(past_, fresh_);
    past_.first = 0;
    past_.count = count;
    return;
  }
  filled_ += count;
  for (; filled_ >= kGdnBlock; filled_ -= kGdnBlock) {
    pool.parallel_for(static_cast<std::size_t>(shape_.heads), 1, [&](int, std::size_t begin, std::size_t end) {
      for (auto head = static_cast<std::int64_t>(begin); head < static_cast<std::int64_t>(end); ++head)
        fold_block(kernels, head, blocks_.front(), kGdnBlock, head_state(head), head_state(head));
    });
    std::rotate(blocks_.begin(), blocks_.begin() + 1, blocks_.end());
  }
}

std::vector<float> GdnCache::state(const Kernels& kernels) const {
  std::vector<float> result;
  result.reserve(static_cast<std::size_t>(shape_.heads * shape_.dk * shape_.dv));
  AlignedBuffer<float> state = floats(shape_.state_elements());
  for (std::int64_t head = 0; head < shape_.heads; ++head) {
    std::copy_n(state_.data() + head * shape_.state_elements(), shape_.state_elements(), state.data());
    for (std::int64_t i = 0; form_ == GdnForm::kRecurrent && i < past_.count; ++i) {
      const std::int64_t at = (past_.first + i) * shape_.heads + head;
      kernels.gdn.fold_state(state.data(), state.data(), shape_.dk, shape_.stride, past_.decays.data()[at],
                             past_.keys.data() + at * shape_.dk, past_.values.data() + at * shape_.stride);
    }
    if (form_ == GdnForm::kChunked && filled_ > 0)
      fold_block(kernels, head, blocks_.front(), filled_, state.data(), state.data());
    for (std::int64_t i = 0; i < shape_.dk; ++i)
      result.insert(result.end(), state.data() + i * shape_.stride, state.data() + i * shape_.stride + shape_.dv);
  }
  return result;
}

std::uint64_t GdnCache::bytes_per_pass(std::int64_t past, std::int64_t tokens) const {
  const auto float_bytes = static_cast<std::int64_t>(sizeof(float));
  const std::int64_t state = shape_.heads * shape_.state_elements() * float_bytes;
  if (form_ == GdnForm::kRecurrent) {
    // The state is read once and written once; each token leaves a record that is read once.
    const std::int64_t record = shape_.heads * (shape_.dk + shape_.stride + 1) * float_bytes;
    return static_cast<std::uint64_t>(2 * state + 2 * tokens * record);
  }
  // The state and the block's records are read for each token; a token writes its record. Folds are one in 64 tokens.
  const std::int64_t record = shape_.heads * (shape_.dk + shape_.stride + 1) * float_bytes;
  std::int64_t bytes = state + tokens * record;
  const std::int64_t filled = past % kGdnBlock;
  bytes += std::min(filled + tokens - 1, kGdnBlock - 1) * record;
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace tare::engine
