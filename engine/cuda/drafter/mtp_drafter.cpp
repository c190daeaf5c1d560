#include "engine/cuda/drafter/mtp_drafter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/json_reader.h"
#include "base/text.h"
#include "engine/backend/rope.h"
#include "engine/backend/sequence_checks.h"
#include "engine/cuda/attention/attention_kernels.h"
#include "engine/cuda/device/cuda_check.h"
#include "engine/cuda/drafter/drafter_sizes.h"
#include "engine/cuda/elementwise.h"
#include "engine/cuda/model_shapes.h"

namespace tare::engine {
namespace {

constexpr std::int64_t kMostSteps = kMostRoundTokens - 1;
// Operands of FP16 panels are numbers times 2^exponent, as in cuda_forward.cpp.
constexpr std::array<int, 4> kExponents = {4, 4, 2, 0};
std::size_t position_of_width(int width) {
  return width == 8 ? 0 : width == 16 ? 1 : 2;
}

}  // namespace

void CudaMtpDrafter::check(const ModelConfig& config, const EngineOptions& options) {
  if (config.mtp_layers == 0) {
    throw input_error("speculate.drafter", "mtp needs a checkpoint with an MTP head, and this one has none",
                      "text-only exports drop it: use the original release, or another drafter");
  }
  if (config.mtp_layers > 1) {
    throw input_error(
        "speculate.drafter",
        fmt::format("mtp: the checkpoint's MTP head has {} layers, only one is supported", config.mtp_layers));
  }
  check_head_shape(config.vocab_size, config.hidden_size);
  if (2 * config.hidden_size > kMostJoinedColumns) {
    throw input_error("hidden_size", fmt::format("{} is too large for mtp on backend cuda", config.hidden_size));
  }
  if (options.speculate.candidates > kMostCandidates) {
    throw input_error("speculate.candidates", fmt::format("backend cuda drafts at most {} candidates a row, not {}",
                                                          kMostCandidates, options.speculate.candidates));
  }
  if (options.speculate.draft_tokens > kMostSteps) {
    throw input_error("speculate.draft_tokens", fmt::format("backend cuda drafts at most {} tokens ahead, not {}",
                                                            kMostSteps, options.speculate.draft_tokens));
  }
}

std::vector<MemoryPart> CudaMtpDrafter::plan(const ModelConfig& config, const EngineOptions& options,
                                             std::int64_t capacity, const CudaDevice& device,
                                             const ProposalPlan& proposals) {
  const MtpSizes sizes = mtp_sizes(config, options, capacity, device, proposals.rows(config.vocab_size));
  const MtpPlan plan(config, options);
  return {{"drafter", plan.weight_bytes() + proposals.bytes()},
          {"drafter's staging", std::max(plan.staging_bytes(), proposals.staging_bytes())},
          {"drafter's key-value cache", sizes.cache},
          {"drafter's work space", sizes.work()}};
}

CudaMtpDrafter::CudaMtpDrafter(const Checkpoint& checkpoint, const EngineOptions& options, std::int64_t capacity,
                               const CudaDevice& device, const MtpTarget& target, cudaStream_t stream)
    : config_(checkpoint.config()),
      options_(options),
      capacity_(capacity),
      target_(target),
      stream_(stream),
      settings_(drafter_product_settings(options, device, options.cuda.blocks_per_sm)),
      out_settings_(drafter_product_settings(options, device, options.cuda.out_blocks_per_sm)),
      gate_up_(config_.intermediate_size, config_.hidden_size, options, device) {
  check(config_, options);
  weights_ = load_mtp_weights(checkpoint, options);
  const MtpSizes sizes = mtp_sizes(config_, options, capacity, device, target.head->rows());
  const std::int64_t slots = mtp_slots(capacity);
  cache_.emplace(attention_shape_of(config_), options.kv.key, options.kv.value, slots);
  control_ = DeviceBuffer(sizeof(DraftControl), "draft control");
  controls_ = DeviceBuffer(kMostRoundTokens * sizeof(StepControl), "controls of a draft's steps");
  copy_to_device(controls_, std::span<const StepControl>(std::vector<StepControl>(kMostRoundTokens)));
  best_ = DeviceBuffer(sizeof(std::int32_t), "drafted token");
  states_ = DeviceBuffer(sizes.states, "hidden states for the drafter");
  prefill_hidden_ = DeviceBuffer(sizes.prefill_hidden, "hidden states of a prefill chunk");
  x_ = DeviceBuffer(sizes.x, "drafter's residual stream");
  normed_ = DeviceBuffer(sizes.x, "drafter's hidden states");
  results_ = DeviceBuffer(sizes.results, "drafter's products");
  workspace_ = DeviceBuffer(sizes.workspace, "drafter's attention");
  chunk_largest_ = DeviceBuffer(sizes.chunks, "largest logits");
  stretch_ends_ = DeviceBuffer(sizes.stretch_ends, "sums of exponentials");
  row_operand_ = DeviceBuffer(sizes.row_operand, "drafter's activations");
  for (const auto& kind : sizes.panels)
    for (const std::size_t bytes : kind) {
      DeviceBuffer& panels = panels_.emplace_back(bytes, "drafter's activations");
      if (bytes > 0) fill_device(panels.data(), bytes, 0);
    }
  const RopeTable rope(slots, config_.rotary_dim, config_.rope_theta);
  cosines_ = DeviceBuffer(rope.cosines().size() * sizeof(float), "drafter's rotary table");
  sines_ = DeviceBuffer(rope.sines().size() * sizeof(float), "drafter's rotary table");
  copy_to_device(cosines_, rope.cosines());
  copy_to_device(sines_, rope.sines());
  if (!target.head->ids().empty()) {
    ids_ = DeviceBuffer(target.head->ids().size_bytes(), "shortlist");
    copy_to_device(ids_, target.head->ids());
  }
}

void CudaMtpDrafter::reset() {
  kept_rows_ = 0;
  waiting_.clear();
  drafted_anchor_.reset();
}

Operand CudaMtpDrafter::operand(MtpOperand kind, int tokens, const WeightMatrix& reader) const {
  const auto index = static_cast<std::size_t>(kind);
  Operand result;
  result.columns = reader.columns;
  if (exact()) {
    result.layout = OperandLayout::kFP32Rows;
    result.width = tokens;
    result.data = row_operand_.data();
    return result;
  }
  const bool bf16 = reader.format == WeightFormat::kBF16;
  result.layout = bf16 ? OperandLayout::kBF16Panels : OperandLayout::kFP16Panels;
  result.width = operand_width(tokens);
  result.exponent = bf16 ? 0 : kExponents[index];
  result.data = panels_[index * kDrafterWidths.size() + position_of_width(result.width)].data();
  return result;
}

ProductResult CudaMtpDrafter::multiply(const CudaProjection& projection, const Operand& operand,
                                       const ProductSettings& settings, const CudaLaunch& launch) const {
  CudaLaunch here = launch;
  here.part = projection.names.front();
  here.bytes = projection.bytes();
  auto* results = results_.as<float>();
  if (exact()) return launch_reference_product(projection.matrix, operand, {}, results, here);
  return launch_product(projection.matrix, operand, {}, results, settings, here);
}

void CudaMtpDrafter::norm(int tokens, const ProductResult& increment, const DeviceBuffer& gain, const Operand& out,
                          float* normed, const char* part, const CudaLaunch& launch) const {
  CudaLaunch here = launch;
  here.part = part;
  launch_residual_norm({.increment = increment,
                        .tokens = tokens,
                        .hidden = static_cast<int>(config_.hidden_size),
                        .eps = config_.rms_norm_eps,
                        .x = x_.as<float>(),
                        .gain = gain.as<float>(),
                        .out = out,
                        .normed = normed},
                       here);
}

// What a step begins with: tokens and states in, queries, keys and values out.
ProductResult CudaMtpDrafter::launch_input(const Pass& pass, int step, int tokens) const {
  const bool first = step == 0;
  CudaLaunch launch = pass.launch;
  launch.part = "mtp.embed_tokens.weight";
  const Operand joined = operand(MtpOperand::kJoined, tokens, weights_.fc.matrix);
  JoinRowsArguments join{.embedding = target_.embedding,
                         .hidden = static_cast<int>(config_.hidden_size),
                         .eps = config_.rms_norm_eps,
                         .embedding_gain = weights_.embedding_norm.as<float>(),
                         .hidden_gain = weights_.hidden_norm.as<float>(),
                         .states = first ? states_.as<float>() : normed_.as<float>(),
                         .rows = tokens,
                         .out = joined,
                         .x = x_.as<float>(),
                         .control = control()};
  if (first) {
    launch_take_mtp_control(host_control_.get(), control(), controls_.as<StepControl>(), std::max(pass.steps, 1),
                            launch);
  } else {
    join.tokens = best_.as<std::int32_t>();
    join.of_last_feature = step == 1;
  }
  launch_join_rows(join, launch);
  const ProductResult projected = multiply(weights_.fc, joined, settings_, pass.launch);
  const Operand normed = operand(MtpOperand::kNormed, tokens, weights_.attention.qkv.matrix);
  norm(tokens, projected, weights_.input_norm, normed, nullptr, "mtp.layers.0.input_layernorm.weight", pass.launch);
  return multiply(weights_.attention.qkv, normed, settings_, pass.launch);
}

// Keys and values of rows, to the cache.
void CudaMtpDrafter::launch_keys(const ProductResult& qkv, int tokens, const RoundControl* control, std::int64_t first,
                                 const CudaLaunch& launch) const {
  CudaLaunch here = launch;
  here.part = "mtp.layers.0.self_attn";
  here.bytes = static_cast<std::uint64_t>(tokens * cache_->bytes_a_position());
  launch_attention_begin({.shape = cache_->shape,
                          .weights = weights_.attention.view(),
                          .rope = {cosines_.as<float>(), sines_.as<float>()},
                          .keys = cache_->keys(),
                          .values = cache_->values(),
                          .key_format = cache_->key_format,
                          .value_format = cache_->value_format,
                          .slots = cache_slots(cache_->capacity),
                          .qkv = qkv,
                          .positions = {.control = control, .first = static_cast<int>(first), .tokens = tokens},
                          .query_form = QueryForm::kFP32Rows,
                          .columns = {},
                          .queries = workspace_.data()},
                         here);
}

void CudaMtpDrafter::launch_step(const Pass& pass, int step, int tokens) const {
  const ProductResult qkv = launch_input(pass, step, tokens);
  const CudaAttentionLayerWeights& attention = weights_.attention;
  const Operand mixed = operand(MtpOperand::kMixed, tokens, attention.out.matrix);
  CudaLaunch launch = pass.launch;
  launch.part = "mtp.layers.0.self_attn";
  launch_attention_round(attention.view(), {cosines_.as<float>(), sines_.as<float>()}, *cache_, qkv, tokens,
                         pass.context_bound, control_of(step), workspace_.data(), mixed, {}, launch);
  ProductResult increment = multiply(attention.out, mixed, out_settings_, pass.launch);
  const Operand normed = operand(MtpOperand::kNormed, tokens, weights_.gate_up.matrix);
  norm(tokens, increment, weights_.post_norm, normed, nullptr, "mtp.layers.0.post_attention_layernorm.weight",
       pass.launch);
  const Operand activated = operand(MtpOperand::kActivated, tokens, weights_.down.matrix);
  if (gate_up_.takes(normed)) {
    launch.part = weights_.gate_up.names.front();
    launch.bytes = weights_.gate_up.bytes();
    gate_up_.launch(weights_.gate_up.matrix, normed, activated, results_.as<float>(), settings_, launch);
    launch.bytes = 0;
  } else {
    const ProductResult gate_up = multiply(weights_.gate_up, normed, settings_, pass.launch);
    launch.part = "mtp.layers.0.mlp";
    launch_mlp_activation(gate_up, tokens, static_cast<int>(config_.intermediate_size), activated, launch);
  }
  increment = multiply(weights_.down, activated, settings_, pass.launch);
  const CudaProjection& proposals = target_.head->projection();
  const Operand input = operand(MtpOperand::kNormed, tokens, proposals.matrix);
  norm(tokens, increment, weights_.final_norm, input, normed_.as<float>(), "mtp.norm.weight", pass.launch);
  const ProductResult head = multiply(proposals, input, settings_, pass.launch);
  launch.part = "mtp.candidates";
  const DraftChunks chunks{chunk_largest_.as<std::uint32_t>(), stretch_ends_.as<float2>()};
  const DraftRows rows{.first = 0, .count = 1, .out = step + 1, .of_last_feature = step == 0};
  launch_draft_chunks(head, tokens, rows, control(), chunks, launch);
  const DraftChain chain{ids_.as<std::int32_t>(), best_.as<std::int32_t>()};
  launch_draft_candidates(head, rows, control(), chunks, chain, outcome_.get(), launch);
}

void CudaMtpDrafter::launch_pass(const Pass& pass) const {
  if (pass.steps == 0) {
    launch_keys(launch_input(pass, 0, pass.width), pass.width, control_of(0), 0, pass.launch);
    return;
  }
  for (int step = 0; step < pass.steps; ++step) launch_step(pass, step, step == 0 ? pass.width : 1);
}

// The next free place of the ring.
void CudaMtpDrafter::push(std::int32_t token) {
  waiting_.push_back({next_slot_, token});
  next_slot_ = (next_slot_ + 1) % kMtpRing;
}

void CudaMtpDrafter::put_waiting() {
  host_control_->features = static_cast<std::int32_t>(waiting_.size());
  host_control_->first_feature = static_cast<std::int32_t>(kept_rows_);
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    host_control_->rows[i] = waiting_[i].slot;
    host_control_->tokens[i] = waiting_[i].token;
  }
}

// Runs all that waits, whose tokens are known: their keys and values are in the cache for good.
void CudaMtpDrafter::keep_all() {
  if (waiting_.empty()) return;
  put_waiting();
  host_control_->frontier = static_cast<std::int32_t>(kept_rows_) + host_control_->features;
  launch_pass({.width = operand_width(static_cast<int>(waiting_.size())),
               .launch = {.stream = stream_, .programmatic = options_.cuda.programmatic}});
  check_cuda(cudaStreamSynchronize(stream_), "the GPU's work");  // it reads the control
  kept_rows_ += static_cast<std::int64_t>(waiting_.size());
  waiting_.clear();
}

void CudaMtpDrafter::absorb(std::span<const std::int32_t> rows, std::span<const std::int32_t> tokens,
                            std::int64_t first) {
  if (kept_rows_ + static_cast<std::int64_t>(waiting_.size()) != first)
    throw internal_error("the MTP head missed absorbed tokens");
  if (rows.empty()) return;
  if (waiting_.size() == 1 && drafted_anchor_ == tokens.front()) {
    ++kept_rows_;
    waiting_.clear();
  }
  drafted_anchor_.reset();
  if (!waiting_.empty()) waiting_.back().token = tokens.front();
  if (waiting_.size() + rows.size() > kMostRoundTokens) keep_all();
  const auto row_bytes = static_cast<std::size_t>(config_.hidden_size) * sizeof(float);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    push(i + 1 < tokens.size() ? tokens[i + 1] : -1);
    check_cuda(
        cudaMemcpyAsync(states_.data() + static_cast<std::size_t>(waiting_.back().slot) * row_bytes,
                        target_.normed + rows[i] * config_.hidden_size, row_bytes, cudaMemcpyDeviceToDevice, stream_),
        "cudaMemcpyAsync");
  }
}

void CudaMtpDrafter::absorb_prefill(std::span<const std::int32_t> tokens, const std::int32_t* device_tokens,
                                    std::int64_t first) {
  if (exact()) throw internal_error("prefill chunks are for bf16 activations");
  if (kept_rows_ + static_cast<std::int64_t>(waiting_.size()) != first)
    throw internal_error("the MTP head missed absorbed tokens");
  drafted_anchor_.reset();
  if (!waiting_.empty()) waiting_.back().token = tokens.front();
  keep_all();
  // Every row but the last, whose token is not known yet.
  const auto count = static_cast<std::int64_t>(tokens.size()) - 1;
  const CudaLaunch launch{.stream = stream_};
  const auto rows_of = [&](int width, const WeightMatrix& reader) {
    return Operand{
        .layout = OperandLayout::kBF16Rows, .width = width, .columns = reader.columns, .data = row_operand_.data()};
  };
  for (std::int64_t begin = 0; begin < count; begin += kDrafterPrefillSlice) {
    const auto slice = static_cast<int>(std::min(kDrafterPrefillSlice, count - begin));
    const Operand joined = rows_of(slice, weights_.fc.matrix);
    launch_join_rows({.embedding = target_.embedding,
                      .hidden = static_cast<int>(config_.hidden_size),
                      .eps = config_.rms_norm_eps,
                      .embedding_gain = weights_.embedding_norm.as<float>(),
                      .hidden_gain = weights_.hidden_norm.as<float>(),
                      .states = prefill_hidden_.as<float>() + begin * config_.hidden_size,
                      .rows = slice,
                      .out = joined,
                      .x = x_.as<float>(),
                      .tokens = device_tokens + begin + 1},
                     launch);
    const ProductResult projected =
        target_.products->multiply(weights_.fc.matrix, joined, slice, results_.as<float>(), launch);
    const Operand normed = rows_of(slice, weights_.attention.qkv.matrix);
    norm(slice, projected, weights_.input_norm, normed, nullptr, "mtp.layers.0.input_layernorm.weight", launch);
    const ProductResult qkv =
        target_.products->multiply(weights_.attention.qkv.matrix, normed, slice, results_.as<float>(), launch);
    launch_keys(qkv, slice, nullptr, first + begin, launch);
  }
  kept_rows_ += count;
  const auto row_bytes = static_cast<std::size_t>(config_.hidden_size) * sizeof(float);
  push(-1);
  check_cuda(cudaMemcpyAsync(states_.data() + static_cast<std::size_t>(waiting_.back().slot) * row_bytes,
                             prefill_hidden_.as<float>() + count * config_.hidden_size, row_bytes,
                             cudaMemcpyDeviceToDevice, stream_),
             "cudaMemcpyAsync");
}

DraftOutput CudaMtpDrafter::draft(const DraftRequest& request, std::int64_t frontier) {
  if (waiting_.empty() || kept_rows_ + static_cast<std::int64_t>(waiting_.size()) != frontier)
    throw internal_error("the MTP head missed absorbed tokens");
  if (request.tokens < 1 || request.candidates < 1) throw internal_error("a draft of no tokens or candidates");
  if (request.tokens > kMostSteps || request.candidates > kMostCandidates) {
    throw input_error("speculate", fmt::format("backend cuda drafts at most {} tokens ahead and {} candidates a row, "
                                               "not {} and {}",
                                               kMostSteps, kMostCandidates, request.tokens, request.candidates));
  }
  if (request.anchor < 0 || request.anchor >= config_.vocab_size) {
    throw input_error("anchor",
                      fmt::format("token {} is outside the vocabulary of {}", request.anchor, config_.vocab_size));
  }
  if (request.temperature <= 0) throw internal_error("a draft's temperature must be above 0");
  const std::int64_t rows = std::min(request.tokens, capacity_ - frontier - 1);
  if (rows < 1) return {0, request.candidates, {}, {}};
  const std::int64_t count = std::min(request.candidates, target_.head->rows());

  waiting_.back().token = request.anchor;
  put_waiting();
  DraftControl& control = *host_control_.get();
  control.frontier = static_cast<std::int32_t>(frontier);
  control.candidates = static_cast<std::int32_t>(count);
  control.inverse_temperature = static_cast<float>(1 / request.temperature);
  const int width = operand_width(static_cast<int>(waiting_.size()));
  const std::int64_t last = std::max(kept_rows_ + width, frontier + rows) - 1;
  run(width, static_cast<int>(rows), attention_bound(last, mtp_slots(capacity_)));
  check_cuda(cudaStreamSynchronize(stream_), "the GPU's work");
  // All but the last have their tokens for good; the anchor may yet be another.
  kept_rows_ += static_cast<std::int64_t>(waiting_.size()) - 1;
  waiting_.erase(waiting_.begin(), waiting_.end() - 1);
  drafted_anchor_ = request.anchor;

  const auto candidates = static_cast<std::size_t>(count);
  tokens_.clear();
  log_probabilities_.clear();
  for (std::int64_t row = 1; row <= rows; ++row) {
    if (outcome_->fault[row] != 0) throw not_finite(frontier + row);
    for (std::size_t i = 0; i < candidates; ++i) tokens_.push_back(target_.head->token_of(outcome_->tokens[row][i]));
    log_probabilities_.insert(log_probabilities_.end(), outcome_->log_probabilities[row],
                              outcome_->log_probabilities[row] + candidates);
  }
  return {rows, count, tokens_, log_probabilities_};
}

void CudaMtpDrafter::run(int width, int steps, std::int64_t context_bound) {
  const GraphKey key{width, steps, context_bound};
  if (options_.cuda.graph) {
    if (!graphs_.contains(key)) capture_all(steps);
    graphs_.at(key).launch(stream_);
    launched_ = records_.at(key);
    return;
  }
  launched_.clear();
  launch_pass({.width = width,
               .steps = steps,
               .context_bound = context_bound,
               .launch = {.stream = stream_, .programmatic = options_.cuda.programmatic, .records = &launched_}});
}

// Of all widths and context bounds at once: none may fall into a timed draft later on.
void CudaMtpDrafter::capture_all(int steps) {
  const std::int64_t slots = mtp_slots(capacity_);
  for (const int width : kDrafterWidths) {
    for (std::int64_t bound = attention_bound(0, slots);; bound = attention_bound(bound, slots)) {
      std::vector<LaunchRecord> records;
      RoundGraph graph(
          stream_,
          [&] {
            launch_pass(
                {.width = width,
                 .steps = steps,
                 .context_bound = bound,
                 .launch = {.stream = stream_, .programmatic = options_.cuda.programmatic, .records = &records}});
          },
          cut_);
      const GraphKey key{width, steps, bound};
      graphs_.insert_or_assign(key, std::move(graph));
      records_[key] = std::move(records);
      if (bound >= slots) break;
    }
  }
}

void CudaMtpDrafter::account(InventoryAccount& account, std::int64_t context, std::int64_t width,
                             std::int64_t tokens) const {
  const auto passes = static_cast<std::uint64_t>(tokens);
  const auto stream = [&](const std::string& name, const std::string& format, std::uint64_t bytes,
                          std::uint64_t elements) {
    account.add({name, format, AccessPattern::kStream, bytes, passes * bytes, elements});
  };
  const auto projection = [&](const CudaProjection& weights) {
    stream(join(weights.names, " + "), stored_format(weights.matrix), weights.bytes(),
           element_count(weights.matrix.rows, weights.matrix.columns));
  };
  const auto vector = [&](const std::string& name, const DeviceBuffer& values) {
    stream(name, "fp32", values.bytes(), values.bytes() / sizeof(float));
  };
  const std::string prefix = "mtp.layers.0.";
  vector("mtp.pre_fc_norm_embedding.weight", weights_.embedding_norm);
  vector("mtp.pre_fc_norm_hidden.weight", weights_.hidden_norm);
  projection(weights_.fc);
  vector(prefix + "input_layernorm.weight", weights_.input_norm);
  vector(prefix + "post_attention_layernorm.weight", weights_.post_norm);
  vector(prefix + "self_attn.q_norm.weight", weights_.attention.q_norm);
  vector(prefix + "self_attn.k_norm.weight", weights_.attention.k_norm);
  projection(weights_.attention.qkv);
  projection(weights_.attention.out);
  projection(weights_.gate_up);
  projection(weights_.down);
  vector("mtp.norm.weight", weights_.final_norm);
  // Every step reads the past; the first writes the rows of the last commit, the others one each.
  const std::int64_t rows = tokens > 0 ? width + tokens - 1 : 0;
  const std::int64_t positions = tokens * context + 2 * rows;
  account.add({prefix + "kv cache", to_text(cache_->key_format) + " keys, " + to_text(cache_->value_format) + " values",
               AccessPattern::kCache, cache_->bytes(),
               static_cast<std::uint64_t>(positions * cache_->bytes_a_position()),
               element_count(2 * (context + rows), config_.key_value_channels())});
  account.add({"embed_tokens.weight (draft)", "bf16", AccessPattern::kGather, 0,
               element_count(rows, config_.hidden_size) * sizeof(std::uint16_t), 0});
  target_.head->account(account, passes);
}

Json CudaMtpDrafter::description() const {
  return {{"kind", "mtp"}, {"weights", stored_format(weights_.fc.matrix)}, {"head", target_.head->description()}};
}

void CudaMtpDrafter::cut_graphs(RoundCut cut) {
  if (cut_ == cut) return;
  check_cuda(cudaStreamSynchronize(stream_), "the GPU's work");
  cut_ = cut;
  graphs_.clear();
}

}  // namespace tare::engine
