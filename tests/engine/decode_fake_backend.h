// A backend whose logits are a pure function of the absorbed tokens, for tests of sessions and policies: cheap, and
// strict about the order of calls (verify, then commit; nothing else).
#pragma once

#include <algorithm>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <vector>

#include "base/json_reader.h"
#include "base/philox.h"
#include "engine/backend/argmax.h"
#include "engine/backend/backend.h"

namespace tare::engine {

class FakeBackend : public Backend {
 public:
  FakeBackend(std::int64_t vocab_size, std::int64_t capacity, EngineOptions options = {})
      : capacity_(capacity), options_(std::move(options)) {
    config_.vocab_size = vocab_size;
    config_.hidden_size = 1;
  }

  const ModelConfig& config() const override { return config_; }
  const EngineOptions& options() const override { return options_; }
  void reset() override {
    absorbed_.clear();
    tree_.reset();
  }
  std::int64_t frontier() const override { return static_cast<std::int64_t>(absorbed_.size()); }
  std::int64_t capacity() const override { return capacity_; }

  std::span<const float> prefill(std::span<const std::int32_t> tokens, const PrefillCapture&) override {
    absorbed_.insert(absorbed_.end(), tokens.begin(), tokens.end());
    fill(absorbed_);
    return logits_;
  }
  using Backend::prefill;
  using Backend::verify;
  VerifyOutput verify(const TokenTree& tree, const VerifyRequest& request) override {
    if (tree_) throw std::logic_error("verify before commit");
    tree_ = tree;
    last_request_ = request;
    ++verifies_;
    best_.clear();
    node_logits_.clear();
    for (int node = 0; node < tree.size(); ++node) {
      std::vector<std::int32_t> text = absorbed_;
      append(text, tree.path_to(node));
      fill(text);
      best_.push_back(argmax(logits_));
      node_logits_.insert(node_logits_.end(), logits_.begin(), logits_.end());
    }
    return {best_, request.logits ? std::span<const float>(node_logits_) : std::span<const float>(), {}};
  }
  using Backend::commit;
  void commit(std::span<const std::int32_t> path) override {
    check_path(*tree_, path);
    append(absorbed_, path);
    tree_.reset();
  }
  // Drafts what this backend will choose, but for one row in `wrong_every`, whose first two candidates are exchanged:
  // a chain then stops there and a tree need not. 0: no drafter.
  void draft_well_but_every(std::int64_t wrong_every) { wrong_every_ = wrong_every; }
  bool has_drafter() const override { return wrong_every_ > 0; }
  DraftOutput draft(const DraftRequest& request) override {
    if (tree_) throw std::logic_error("draft before commit");
    if (frontier() + request.tokens >= capacity_) throw std::logic_error("a draft beyond the context");
    ++drafts_;
    std::vector<std::int32_t> text = absorbed_;
    text.push_back(request.anchor);
    draft_tokens_.clear();
    draft_log_probabilities_.clear();
    for (std::int64_t row = 0; row < request.tokens; ++row) {
      fill(text);
      std::vector<std::int32_t> order(logits_.size());
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [this](std::int32_t a, std::int32_t b) {
        return logits_[static_cast<std::size_t>(a)] > logits_[static_cast<std::size_t>(b)];
      });
      text.push_back(order[0]);
      if (static_cast<std::int64_t>(text.size()) % wrong_every_ == 0) std::swap(order[0], order[1]);
      for (std::int64_t rank = 0; rank < request.candidates; ++rank) {
        draft_tokens_.push_back(order[static_cast<std::size_t>(rank)]);
        draft_log_probabilities_.push_back(-0.5F * static_cast<float>(rank + 1));
      }
    }
    return {request.tokens, request.candidates, draft_tokens_, draft_log_probabilities_};
  }
  [[nodiscard]] std::int64_t drafts() const { return drafts_; }
  std::vector<float> recurrent_state(std::int64_t) const override { return {}; }
  WeightInventory inventory(std::int64_t, std::int64_t) const override {
    return {{{"weights", "fp32", AccessPattern::kStream, claimed_bytes_, claimed_bytes_, claimed_bytes_ / 4}}};
  }
  // What a round is said to launch; it launches nothing.
  void declare_launches(std::vector<LaunchRecord> launches) { launches_ = std::move(launches); }
  [[nodiscard]] std::int64_t verifies() const { return verifies_; }
  // What the inventory says a round reads; it reads nothing.
  void claim_bytes(std::uint64_t bytes) { claimed_bytes_ = bytes; }
  std::vector<LaunchRecord> launches(std::int64_t) const override { return launches_; }
  Json description() const override { return Json::object(); }

  const std::vector<std::int32_t>& absorbed() const { return absorbed_; }
  const VerifyRequest& last_request() const { return last_request_; }

 private:
  ModelConfig config_;
  std::int64_t capacity_;
  std::uint64_t claimed_bytes_ = 0;
  EngineOptions options_;
  std::vector<std::int32_t> absorbed_;
  std::optional<TokenTree> tree_;  // verified and not yet committed
  std::vector<float> logits_, node_logits_;
  std::vector<std::int32_t> best_;
  VerifyRequest last_request_;
  std::int64_t verifies_ = 0;
  std::int64_t drafts_ = 0;
  std::int64_t wrong_every_ = 0;
  std::vector<std::int32_t> draft_tokens_;
  std::vector<float> draft_log_probabilities_;
  std::vector<LaunchRecord> launches_;

  void append(std::vector<std::int32_t>& text, std::span<const std::int32_t> path) const {
    for (const std::int32_t node : path) text.push_back(tree_->tokens()[static_cast<std::size_t>(node)]);
  }
  // Normal numbers keyed by the last tokens, so that the text depends on what was really absorbed.
  void fill(const std::vector<std::int32_t>& tokens) {
    std::uint64_t key = tokens.size();
    for (const std::int32_t token : tokens) key = key * 1'000'003 + static_cast<std::uint64_t>(token);
    const Philox numbers(99, key);
    logits_.resize(static_cast<std::size_t>(config_.vocab_size));
    for (std::size_t i = 0; i < logits_.size(); ++i) logits_[i] = static_cast<float>(numbers.normal_at(i));
  }
};

}  // namespace tare::engine
