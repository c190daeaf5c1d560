#include "engine/cpu/gdn_cache.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "engine/backend/options.h"

namespace tare::engine {
namespace {

constexpr auto kFloatBytes = static_cast<std::int64_t>(sizeof(float));

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
    : key_product(floats(shape.stride)),
      query_product(floats(shape.stride)),
      update(floats(shape.stride)),
      key_dots(floats(kGdnBlock)),
      query_dots(floats(kGdnBlock)),
      weights(floats(kGdnBlock)),
      path_keys(floats(shape.dk * kGdnBlock)),
      path_values(floats(kGdnBlock * shape.stride)) {
  reserve_states(shape, 1);
  committed = floats(shape.state_elements());
  after = floats(shape.state_elements());
}

void GdnScratch::reserve_states(const GdnShape& shape, std::int64_t places) {
  const std::int64_t elements = places * shape.state_elements();
  if (static_cast<std::int64_t>(states.size()) < elements) states = floats(elements);
}

RollbackCost rollback_cost(const GdnShape& shape, Rollback rollback, std::int64_t nodes, StateFormat format) {
  const std::int64_t state = shape.heads * state_bytes_of(format, shape.dk, shape.stride);
  const std::int64_t key = round_up(shape.dk, kRowPadding);
  const std::int64_t log = rollback == Rollback::kTreeChunk ? static_cast<std::int64_t>(sizeof(double)) : 0;
  const std::int64_t held_record = shape.heads * ((key + shape.stride + 1) * kFloatBytes + log);
  const std::int64_t moved_record =
      shape.heads * ((shape.dk + shape.stride) * kFloatBytes + (rollback == Rollback::kTreeChunk ? log : kFloatBytes));
  // A record is written by the verify and read by the fold that follows.
  const std::int64_t records = 2 * nodes * moved_record;
  const auto cost = [](std::int64_t held, std::int64_t moved) {
    return RollbackCost{static_cast<std::uint64_t>(held), static_cast<std::uint64_t>(moved)};
  };
  // ring and tree_chunk: the state is read once and, with what was committed before, written once; records of the
  // verify in hand lie beside those of the last. snapshot: the state is read, and one a node written; commit only
  // renames.
  if (rollback == Rollback::kSnapshot) return cost(nodes * (state + held_record), (1 + nodes) * state + records);
  return cost(2 * nodes * held_record, 2 * state + records);
}

GdnCache::GdnCache(const ModelConfig& config, GdnForm form, Rollback rollback, StateFormat format)
    : shape_(config),
      form_(form),
      rollback_(rollback),
      key_stride_(round_up(shape_.dk, kRowPadding)),
      state_(format, shape_.heads, shape_.dk, shape_.stride) {
  if (form == GdnForm::kChunked && rollback != Rollback::kRing)
    throw internal_error("GdnCache: the chunk form has no rollback " + to_text(rollback));
  reset();
}

StateStore GdnCache::make_store() const {
  return {state_.format(), shape_.heads, shape_.dk, shape_.stride};
}

void GdnCache::open(std::int64_t head, GdnScratch& scratch) const {
  if (!in_place()) state_.load(head, scratch.committed.span());
}

void GdnCache::close(std::int64_t head, const GdnScratch& scratch) {
  if (!in_place()) state_.store(head, scratch.committed.span());
}

void GdnCache::round(float* state) const {
  round_state(state_.format(), {state, static_cast<std::size_t>(shape_.state_elements())}, shape_.stride);
}

void GdnCache::reset() {
  state_.clear();
  past_.live.clear();
  fresh_.live.clear();
  filled_ = 0;
  may_commit_ = false;
}

void GdnCache::reserve(Records& records, std::int64_t slots) const {
  if (slots <= records.slots) return;
  records.keys = floats(slots * shape_.heads * key_stride_);
  records.values = floats(slots * shape_.heads * shape_.stride);
  records.decays = floats(slots * shape_.heads);
  if (rollback_ == Rollback::kTreeChunk)
    records.logs = AlignedBuffer<double>(static_cast<std::size_t>(slots * shape_.heads));
  records.slots = slots;
}

void GdnCache::reserve_blocks(std::int64_t blocks) {
  while (static_cast<std::int64_t>(blocks_.size()) < blocks)
    blocks_.push_back({floats(shape_.heads * shape_.dk * kGdnBlock), floats(shape_.heads * kGdnBlock * shape_.stride),
                       floats(shape_.heads * 2 * kGdnBlock)});
}

void GdnCache::begin_absorb(std::int64_t tokens) {
  mode_ = PassMode::kAbsorb;
  pass_tokens_ = tokens;
  may_commit_ = false;
  if (form_ == GdnForm::kRecurrent) {
    // The last two records are enough: the one just folded and the one being made.
    reserve(fresh_, std::min<std::int64_t>(tokens, 2));
  } else {
    reserve_blocks(1);
  }
}

void GdnCache::begin_verify(const TreeWalk& walk) {
  mode_ = PassMode::kVerify;
  pass_tokens_ = walk.size();
  may_commit_ = true;
  walk_ = &walk;
  if (form_ == GdnForm::kChunked) return reserve_blocks((filled_ + pass_tokens_ + kGdnBlock - 1) / kGdnBlock);
  reserve(fresh_, pass_tokens_);
  while (rollback_ == Rollback::kSnapshot && static_cast<std::int64_t>(snapshots_.size()) < pass_tokens_)
    snapshots_.push_back(make_store());
}

void GdnCache::step(const Kernels& kernels, std::int64_t head, std::int64_t token, const GdnTokenInput& input,
                    GdnScratch& scratch, float* output) {
  if (form_ == GdnForm::kChunked) {
    step_chunked(kernels, head, token, input, scratch, output);
  } else if (rollback_ == Rollback::kTreeChunk && mode_ == PassMode::kVerify) {
    step_tree_chunk(kernels, head, token, input, scratch, output);
  } else {
    step_recurrent(kernels, head, token, input, scratch, output);
  }
}

// Folds the first `count` of the past's records, one by one.
void GdnCache::fold_past(const Kernels& kernels, std::int64_t head, std::size_t count, float* state) const {
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t at = record(past_.live[i], head);
    kernels.gdn.fold_state(state, state, shape_.dk, shape_.stride, past_.decays.data()[at],
                           past_.keys.data() + at * key_stride_, past_.values.data() + at * shape_.stride);
    round(state);
  }
}

// Folds the past's records, a path of a tree_chunk verify, as one update: the state is read and written once for
// each 64.
void GdnCache::fold_path(const Kernels& kernels, std::int64_t head, float* state, GdnScratch& scratch) const {
  const auto log = [&](std::int32_t slot) { return past_.logs.data()[record(slot, head)]; };
  const double last = log(past_.live.back());
  const auto length = static_cast<std::int64_t>(past_.live.size());
  for (std::int64_t first = 0; first < length; first += kGdnBlock) {
    const std::int64_t count = std::min(length - first, kGdnBlock);
    for (std::int64_t j = 0; j < count; ++j) {
      const std::int32_t slot = past_.live[static_cast<std::size_t>(first + j)];
      const float* key = past_.keys.data() + record(slot, head) * key_stride_;
      for (std::int64_t i = 0; i < shape_.dk; ++i) scratch.path_keys.data()[i * kGdnBlock + j] = key[i];
      std::copy_n(past_.values.data() + record(slot, head) * shape_.stride, shape_.stride,
                  scratch.path_values.data() + j * shape_.stride);
      scratch.weights.data()[j] = exponential(last - log(slot));
    }
    kernels.gdn.fold_block(state, state, shape_.dk, shape_.stride, first == 0 ? exponential(last) : 1.0F,
                           scratch.path_keys.data(), scratch.weights.data(), scratch.path_values.data(), count);
  }
  round(state);
}

// Folds the past's records into the state and reads it for the pass's first token.
void GdnCache::read_past(const Kernels& kernels, std::int64_t head, const GdnTokenInput& input, GdnScratch& scratch) {
  float* state = head_state(head, scratch);
  if (past_.live.empty() || past_.as_path) {
    if (!past_.live.empty()) fold_path(kernels, head, state, scratch);
    kernels.gdn.read_state(state, shape_.dk, shape_.stride, input.key, input.query, scratch.key_product.data(),
                           scratch.query_product.data());
    return;
  }
  fold_past(kernels, head, past_.live.size() - 1, state);
  fold_and_read(kernels, past_, record(past_.live.back(), head), state, state, input, scratch);
}

void GdnCache::fold_and_read(const Kernels& kernels, const Records& records, std::int64_t at, const float* in,
                             float* out, const GdnTokenInput& input, GdnScratch& scratch) const {
  if (!in_place()) {  // what is read is the rounded state
    kernels.gdn.fold_state(in, out, shape_.dk, shape_.stride, records.decays.data()[at],
                           records.keys.data() + at * key_stride_, records.values.data() + at * shape_.stride);
    round(out);
    kernels.gdn.read_state(out, shape_.dk, shape_.stride, input.key, input.query, scratch.key_product.data(),
                           scratch.query_product.data());
    return;
  }
  kernels.gdn.fold_and_read_state(in, out, shape_.dk, shape_.stride, records.decays.data()[at],
                                  records.keys.data() + at * key_stride_, records.values.data() + at * shape_.stride,
                                  input.key, input.query, scratch.key_product.data(), scratch.query_product.data());
}

// The state after `node` of a verify, or where it is to be made: its own place when all are kept as they are, else
// `place`.
float* GdnCache::state_after(std::int64_t head, std::int32_t node, std::int32_t place, GdnScratch& scratch) {
  if (node == kNoNode) return head_state(head, scratch);
  return rollback_ == Rollback::kSnapshot && in_place() ? snapshots_[static_cast<std::size_t>(node)].in_place(head)
                                                        : scratch.states.data() + place * shape_.state_elements();
}

// Reads the state that a node of a verify continues, after making it if the node is the first of its parent's children.
void GdnCache::read_parent(const Kernels& kernels, std::int64_t head, const TreeWalk::Node& node,
                           const GdnTokenInput& input, GdnScratch& scratch) {
  float* state = state_after(head, node.parent, node.place, scratch);
  if (node.folds_parent) {
    const std::int32_t before = walk_->node(node.parent).parent;
    fold_and_read(kernels, fresh_, record(node.parent, head), state_after(head, before, node.from, scratch), state,
                  input, scratch);
    if (rollback_ == Rollback::kSnapshot && !in_place())
      snapshots_[static_cast<std::size_t>(node.parent)].store(
          head, {state, static_cast<std::size_t>(shape_.state_elements())});
  } else {
    kernels.gdn.read_state(state, shape_.dk, shape_.stride, input.key, input.query, scratch.key_product.data(),
                           scratch.query_product.data());
  }
}

void GdnCache::step_recurrent(const Kernels& kernels, std::int64_t head, std::int64_t token, const GdnTokenInput& input,
                              GdnScratch& scratch, float* output) {
  const bool verify = mode_ == PassMode::kVerify;
  const auto slot_of = [verify](std::int64_t t) { return verify ? t : t % 2; };
  if (token == 0) {
    open(head, scratch);
    read_past(kernels, head, input, scratch);
    if (verify) close(head, scratch);
  } else if (verify) {
    read_parent(kernels, head, walk_->node(token), input, scratch);
  } else {
    float* const state = head_state(head, scratch);
    fold_and_read(kernels, fresh_, record(slot_of(token - 1), head), state, state, input, scratch);
  }
  const float decay = exponential(static_cast<double>(input.log_decay));
  const std::int64_t at = record(slot_of(token), head);
  float* const update = fresh_.values.data() + at * shape_.stride;
  kernels.gdn.recurrent_output(input.value, scratch.key_product.data(), scratch.query_product.data(), shape_.stride,
                               input.beta, decay, input.key_query, update, output);
  std::copy_n(input.key, key_stride_, fresh_.keys.data() + at * key_stride_);
  fresh_.decays.data()[at] = decay;
  if (!verify && token == pass_tokens_ - 1) close(head, scratch);
  // The state after a leaf is nobody's to continue, but may be committed.
  if (verify && rollback_ == Rollback::kSnapshot && !walk_->node(token).has_children) {
    const TreeWalk::Node& node = walk_->node(token);
    StateStore& snapshot = snapshots_[static_cast<std::size_t>(token)];
    float* const leaf = in_place() ? snapshot.in_place(head) : scratch.after.data();
    kernels.gdn.fold_state(state_after(head, node.parent, node.place, scratch), leaf, shape_.dk, shape_.stride, decay,
                           fresh_.keys.data() + at * key_stride_, update);
    if (!in_place()) snapshot.store(head, scratch.after.span());
  }
}

void GdnCache::step_tree_chunk(const Kernels& kernels, std::int64_t head, std::int64_t node, const GdnTokenInput& input,
                               GdnScratch& scratch, float* output) {
  float* const key_product = scratch.key_product.data();
  float* const query_product = scratch.query_product.data();
  if (node == 0) {
    open(head, scratch);
    read_past(kernels, head, input, scratch);
    close(head, scratch);
  } else {
    kernels.gdn.read_state(head_state(head, scratch), shape_.dk, shape_.stride, input.key, input.query, key_product,
                           query_product);
  }
  const auto log = [&](std::int32_t slot) -> double& { return fresh_.logs.data()[record(slot, head)]; };
  const std::int32_t parent = walk_->node(node).parent;
  const double log_decay = (parent == kNoNode ? 0.0 : log(parent)) + static_cast<double>(input.log_decay);
  const float decay = exponential(log_decay);
  kernels.vectors.scale(key_product, decay, shape_.stride);
  kernels.vectors.scale(query_product, decay, shape_.stride);
  if (parent != kNoNode) {
    walk_->path_to(parent, scratch.path);
    for (const std::int32_t ancestor : scratch.path) {
      const float* key = fresh_.keys.data() + record(ancestor, head) * key_stride_;
      const float* update = fresh_.values.data() + record(ancestor, head) * shape_.stride;
      const float weight = exponential(log_decay - log(ancestor));
      const float by_key = weight * kernels.vectors.dot(key, input.key, shape_.dk);
      const float by_query = weight * kernels.vectors.dot(key, input.query, shape_.dk);
      kernels.gdn.add_weighted_rows(update, &by_key, 1, shape_.stride, key_product);
      kernels.gdn.add_weighted_rows(update, &by_query, 1, shape_.stride, query_product);
    }
  }
  // The products already carry their decays; what is left is u and the node's own term of o.
  const std::int64_t at = record(node, head);
  kernels.gdn.recurrent_output(input.value, key_product, query_product, shape_.stride, input.beta, 1.0F,
                               input.key_query, fresh_.values.data() + at * shape_.stride, output);
  std::copy_n(input.key, key_stride_, fresh_.keys.data() + at * key_stride_);
  fresh_.decays.data()[at] = decay;
  fresh_.logs.data()[at] = log_decay;
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
  round(out);
}

void GdnCache::step_chunked(const Kernels& kernels, std::int64_t head, std::int64_t token, const GdnTokenInput& input,
                            GdnScratch& scratch, float* output) {
  const bool verify = mode_ == PassMode::kVerify;
  const std::int64_t slot = filled_ + token;
  const std::int64_t index = slot % kGdnBlock;
  const std::int64_t block_index = verify ? slot / kGdnBlock : 0;
  Block& block = blocks_[static_cast<std::size_t>(block_index)];
  if (token == 0) open(head, scratch);
  const float* state = head_state(head, scratch);
  if (block_index > 0) {
    if (index == 0)
      fold_block(kernels, head, blocks_[static_cast<std::size_t>(block_index - 1)], kGdnBlock,
                 block_index == 1 ? state : scratch.states.data(), scratch.states.data());
    state = scratch.states.data();
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
  if (verify || index < kGdnBlock - 1) return;
  fold_block(kernels, head, block, kGdnBlock, state, head_state(head, scratch));
  close(head, scratch);
}

void GdnCache::end_pass() {
  walk_ = nullptr;
  if (form_ == GdnForm::kRecurrent) {
    past_.live.clear();  // folded by the pass's first token
    if (mode_ == PassMode::kAbsorb) {
      std::swap(past_, fresh_);
      past_.live = {static_cast<std::int32_t>((pass_tokens_ - 1) % 2)};
      past_.as_path = false;
    }
  } else if (mode_ == PassMode::kAbsorb) {
    filled_ = (filled_ + pass_tokens_) % kGdnBlock;
  }
}

void GdnCache::commit(const Kernels& kernels, std::span<const std::int32_t> path, ThreadPool& pool) {
  const auto count = static_cast<std::int64_t>(path.size());
  if (!may_commit_ || count > pass_tokens_) throw internal_error("GdnCache: commit without a verify of as many tokens");
  may_commit_ = false;
  if (count == 0) return;
  if (form_ == GdnForm::kRecurrent) {
    if (rollback_ == Rollback::kSnapshot) return std::swap(state_, snapshots_[static_cast<std::size_t>(path.back())]);
    std::swap(past_, fresh_);
    past_.live.assign(path.begin(), path.end());
    // The root's record is the recurrent form's: alone, it is folded while the next token reads.
    past_.as_path = rollback_ == Rollback::kTreeChunk && count > 1;
    return;
  }
  filled_ += count;
  for (; filled_ >= kGdnBlock; filled_ -= kGdnBlock) {
    pool.parallel_for(static_cast<std::size_t>(shape_.heads), 1, [&](int, std::size_t begin, std::size_t end) {
      AlignedBuffer<float> copy;
      if (!in_place()) copy = floats(shape_.state_elements());
      for (auto head = static_cast<std::int64_t>(begin); head < static_cast<std::int64_t>(end); ++head) {
        if (!in_place()) state_.load(head, copy.span());
        float* const state = in_place() ? state_.in_place(head) : copy.data();
        fold_block(kernels, head, blocks_.front(), kGdnBlock, state, state);
        if (!in_place()) state_.store(head, copy.span());
      }
    });
    std::rotate(blocks_.begin(), blocks_.begin() + 1, blocks_.end());
  }
}

std::vector<float> GdnCache::state(const Kernels& kernels) const {
  std::vector<float> result;
  result.reserve(static_cast<std::size_t>(shape_.heads * shape_.dk * shape_.dv));
  AlignedBuffer<float> state = floats(shape_.state_elements());
  GdnScratch scratch(shape_);
  for (std::int64_t head = 0; head < shape_.heads; ++head) {
    state_.load(head, state.span());
    if (form_ == GdnForm::kChunked) {
      if (filled_ > 0) fold_block(kernels, head, blocks_.front(), filled_, state.data(), state.data());
    } else if (past_.as_path && !past_.live.empty()) {
      fold_path(kernels, head, state.data(), scratch);
    } else {
      fold_past(kernels, head, past_.live.size(), state.data());
    }
    for (std::int64_t i = 0; i < shape_.dk; ++i)
      result.insert(result.end(), state.data() + i * shape_.stride, state.data() + i * shape_.stride + shape_.dv);
  }
  return result;
}

void GdnCache::set_state(std::span<const float> state) {
  if (static_cast<std::int64_t>(state.size()) != shape_.heads * shape_.dk * shape_.dv)
    throw internal_error("GdnCache: not the size of a state");
  reset();
  AlignedBuffer<float> padded = floats(shape_.state_elements());
  for (std::int64_t head = 0; head < shape_.heads; ++head) {
    for (std::int64_t row = 0; row < shape_.dk; ++row)
      std::copy_n(state.data() + (head * shape_.dk + row) * shape_.dv, shape_.dv, padded.data() + row * shape_.stride);
    state_.store(head, padded.span());
  }
}

std::uint64_t GdnCache::bytes_held(std::int64_t tokens) const {
  if (form_ == GdnForm::kRecurrent) return rollback_cost(shape_, rollback_, tokens, state_.format()).held;
  // As many blocks as the tokens fill when the past's unfinished block is as full as can be.
  const std::int64_t blocks = (kGdnBlock - 1 + tokens + kGdnBlock - 1) / kGdnBlock;
  const std::int64_t block = shape_.heads * kGdnBlock * (shape_.dk + shape_.stride + 2) * kFloatBytes;
  return static_cast<std::uint64_t>(blocks * block);
}

std::uint64_t GdnCache::bytes_per_pass(PassMode mode, std::int64_t past, std::int64_t tokens) const {
  // A pass that absorbs is the ring's: the state is read and written once, and each token leaves a record.
  if (form_ == GdnForm::kRecurrent)
    return rollback_cost(shape_, mode == PassMode::kVerify ? rollback_ : Rollback::kRing, tokens, state_.format())
        .moved;
  // The state and the block's records are read for each token; a token writes its record. Folds are one in 64 tokens.
  const auto state = static_cast<std::int64_t>(state_.bytes());
  const std::int64_t record = shape_.heads * (shape_.dk + shape_.stride + 1) * kFloatBytes;
  std::int64_t bytes = state + tokens * record;
  const std::int64_t filled = past % kGdnBlock;
  bytes += std::min(filled + tokens - 1, kGdnBlock - 1) * record;
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace tare::engine
