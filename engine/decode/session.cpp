#include "engine/decode/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "engine/backend/argmax.h"
#include "engine/decode/sampling.h"
#include "engine/speculate/draft_tree.h"

namespace tare::engine {
namespace {

using Clock = std::chrono::steady_clock;

std::int64_t nanoseconds(Clock::duration duration) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
}

// Spins the host's handicap and returns what was really spun.
std::int64_t spin(const EngineOptions::Handicap& handicap, Clock::time_point round_start) {
  if (handicap.place != HandicapPlace::kHost) return 0;
  const Clock::time_point start = Clock::now();
  const double share_ns = handicap.share * static_cast<double>(nanoseconds(start - round_start));
  const auto target = std::chrono::nanoseconds(handicap.ns + static_cast<std::int64_t>(share_ns));
  Clock::time_point now = start;
  while (now - start < target) now = Clock::now();
  return nanoseconds(now - start);
}

class Perturbation {
 public:
  explicit Perturbation(const EngineOptions::Perturb& perturb) : perturb_(perturb) {}

  // It rounds logits, so it needs them whatever the policy looks at.
  [[nodiscard]] bool needs_logits() const { return perturb_.place == PerturbPlace::kLogits; }
  [[nodiscard]] TokenScores apply(const TokenScores& scores) {
    if (perturb_.place == PerturbPlace::kNone) return scores;
    rounded_.resize(scores.logits.size());
    for (std::size_t i = 0; i < rounded_.size(); ++i)
      rounded_[i] = round_mantissa(scores.logits[i], static_cast<int>(perturb_.bits));
    return {argmax(rounded_), rounded_};
  }

 private:
  EngineOptions::Perturb perturb_;
  std::vector<float> rounded_;
};

void check(const Backend& backend, std::span<const std::int32_t> prompt, const TokenPolicy& policy,
           const GenerationLimits& limits) {
  if (prompt.empty()) throw input_error("prompt", "has no tokens");
  if (policy.stops_at_end_of_text() && limits.max_tokens < 1)
    throw input_error("max_tokens", fmt::format("must be at least 1, is {}", limits.max_tokens));
  if (static_cast<std::int64_t>(prompt.size()) > backend.capacity())
    throw input_error("prompt", fmt::format("has {} tokens, the caches hold {}", prompt.size(), backend.capacity()),
                      "raise the option 'context' or shorten the prompt");
  if (backend.options().head.screen != HeadScreen::kNone && policy.needs_logits())
    throw input_error("head.screen",
                      "a screened head has no logits of all tokens, and sampling (temperature) draws from them",
                      "set head.screen to none, or decode greedily");
  if (!limits.recorded.empty() && !policy.known(0))
    throw input_error("recorded rounds", "are walked with a forced text, and there is none");
}

// Some other token than `token`, below `vocab`: for nodes off a recorded path, which must not continue it.
std::int32_t other_token(std::int32_t token, int node, std::size_t vocab) {
  return static_cast<std::int32_t>((static_cast<std::size_t>(token) + static_cast<std::size_t>(node)) % vocab);
}

class Session {
 public:
  Session(Backend& backend, std::span<const std::int32_t> prompt, TokenPolicy& policy, const GenerationLimits& limits,
          const TokenCallback& on_token)
      : backend_(backend),
        options_(backend.options()),
        prompt_(prompt),
        policy_(policy),
        limits_(limits),
        on_token_(on_token),
        perturbation_(options_.perturb),
        vocab_(static_cast<std::size_t>(backend.config().vocab_size)) {
    request_.logits = policy.needs_logits() || perturbation_.needs_logits();
  }

  Generation run() {
    backend_.reset();
    const Clock::time_point start = Clock::now();
    const std::span<const float> logits = prefill();
    result_.prefill_ns = nanoseconds(Clock::now() - start);
    choose({argmax(logits), logits});
    result_.first_token_ns = nanoseconds(Clock::now() - start);
    for (std::size_t first = 0; goes_on(first);) {
      first = result_.tokens.size();
      run_round();
    }
    result_.total_ns = nanoseconds(Clock::now() - start);
    return std::move(result_);
  }

 private:
  Backend& backend_;
  const EngineOptions& options_;
  std::span<const std::int32_t> prompt_;
  TokenPolicy& policy_;
  const GenerationLimits& limits_;
  const TokenCallback& on_token_;
  Perturbation perturbation_;
  std::size_t vocab_;
  VerifyRequest request_{.logits = false, .hidden = false};
  Generation result_;

  std::span<const float> prefill() {
    const PrefixUse& prefixes = limits_.prefixes;
    if (prefixes.cache == nullptr) return backend_.prefill(prompt_);
    const PrefixCache::Prefilled prefilled = prefixes.cache->prefill(backend_, prefixes.identity, prompt_);
    result_.restored_tokens = prefilled.restored;
    return prefilled.logits;
  }

  [[nodiscard]] std::int64_t produced() const { return static_cast<std::int64_t>(result_.tokens.size()); }

  // Chooses the next token of the text and returns it.
  std::int32_t choose(const TokenScores& scores) {
    const std::int64_t index = produced();
    const TokenChoice choice =
        policy_.choose(perturbation_.apply(scores), index, static_cast<std::int64_t>(prompt_.size()) + index);
    result_.tokens.push_back(choice.committed);
    result_.natural.push_back(choice.natural);
    return choice.committed;
  }

  // Why nothing may follow the last token; nothing when something may.
  [[nodiscard]] std::optional<Outcome> end() const {
    const std::vector<std::int32_t>& ends = limits_.end_of_text_tokens;
    const bool free = policy_.stops_at_end_of_text();
    if (policy_.exhausted(produced())) return Outcome::kForcedText;
    if (free && std::find(ends.begin(), ends.end(), result_.tokens.back()) != ends.end())
      return produced() == 1 ? Outcome::kImmediateEnd : Outcome::kEndOfText;
    if (free && produced() >= limits_.max_tokens) return Outcome::kLength;
    // All tokens but the last are absorbed, or will be by the commit of the round in hand.
    const std::int64_t absorbed = static_cast<std::int64_t>(prompt_.size()) + produced() - 1;
    if (absorbed >= backend_.capacity()) return Outcome::kContextFull;
    return std::nullopt;
  }

  // Hands out the tokens from `first` on. False, with the outcome set, when the text has ended or the callback asked to
  // stop; what the round chose after that token is then taken back.
  bool goes_on(std::size_t first) {
    const std::optional<Outcome> outcome = end();
    for (std::size_t i = first; on_token_ && i < result_.tokens.size(); ++i) {
      const bool last = i + 1 == result_.tokens.size();
      if (on_token_(result_.tokens[i]) || (last && outcome)) continue;
      if (!result_.rounds.empty()) {
        result_.rounds.back().tokens -= static_cast<std::int32_t>(result_.tokens.size() - i - 1);
        result_.rounds.back().cut = result_.rounds.back().cut || !last;
      }
      result_.tokens.resize(i + 1);
      result_.natural.resize(i + 1);
      result_.outcome = Outcome::kStopped;
      return false;
    }
    if (outcome) result_.outcome = *outcome;
    return !outcome;
  }

  void run_round() {
    Round round;
    const std::int32_t anchor = result_.tokens.back();
    const std::size_t first = result_.tokens.size();
    const Clock::time_point start = Clock::now();
    Clock::time_point mark = start;
    const auto lap = [&mark] {
      const Clock::time_point now = Clock::now();
      return nanoseconds(now - std::exchange(mark, now));
    };

    // As far ahead as the context allows: the deepest node must fit.
    const std::int64_t room = backend_.capacity() - backend_.frontier() - 1;
    const std::int64_t ahead = std::min(options_.speculate.draft_tokens, room);
    DraftOutput draft;
    const bool wanted = options_.speculate.tree_nodes > 1 || limits_.record_drafts;
    if (backend_.has_drafter() && wanted && ahead > 0) {
      const std::int64_t candidates = std::min(options_.speculate.candidates, backend_.config().vocab_size);
      draft = backend_.draft({anchor, ahead, candidates, options_.speculate.temperature});
      round.drafted = static_cast<std::int32_t>(ahead);
      round.phases.draft_ns = lap();
    }
    const TokenTree tree =
        limits_.recorded.empty()
            ? grow_tree(anchor, draft, {.nodes = options_.speculate.tree_nodes, .growth = options_.speculate.growth})
            : recorded_tree(anchor);
    round.nodes = tree.size();
    round.phases.tree_ns = lap();
    const VerifyOutput output = backend_.verify(tree, request_);
    round.phases.verify_ns = lap();
    const std::vector<std::int32_t> path = walk(tree, output);
    round.phases.accept_ns = lap();
    backend_.commit(path);
    round.phases.commit_ns = lap();
    round.spun_ns = output.spun_ns + spin(options_.handicap, start);
    round.duration_ns = nanoseconds(Clock::now() - start);
    round.tokens = static_cast<std::int32_t>(result_.tokens.size() - first);
    round.cut = end().has_value() && tree.child(path.back(), result_.tokens.back()) >= 0;
    result_.decode_ns += round.duration_ns;
    keep(round, tree, path, draft);
  }

  // Chooses tokens from the root on while the tree holds what was chosen. Returns the nodes whose tokens the caches are
  // to absorb.
  std::vector<std::int32_t> walk(const TokenTree& tree, const VerifyOutput& output) {
    std::vector<std::int32_t> path;
    for (int node = 0; node >= 0;) {
      const auto row = static_cast<std::size_t>(node);
      path.push_back(node);
      const std::int32_t token = choose(
          {output.best[row], output.logits.empty() ? output.logits : output.logits.subspan(row * vocab_, vocab_)});
      node = end() ? -1 : tree.child(node, token);
    }
    return path;
  }

  // A tree of the recorded shape: its path holds the text that will be committed, all other nodes what will not be.
  [[nodiscard]] TokenTree recorded_tree(std::int32_t anchor) const {
    const std::size_t round = result_.rounds.size();
    const auto refuse = [round](const std::string& what) {
      return input_error(fmt::format("recorded round {}", round), what,
                         "rounds are replayed with the text they are of");
    };
    if (round >= limits_.recorded.size()) throw refuse("is not there, and the text goes on");
    const RoundShape& shape = limits_.recorded[round];
    if (shape.parents.empty() || shape.path.empty()) throw refuse("has no nodes or no path");
    TokenTree tree(anchor);
    for (std::size_t node = 1; node < shape.parents.size(); ++node) {
      const std::int32_t parent = shape.parents[node];
      if (parent < 0 || parent >= tree.size()) throw refuse(fmt::format("node {} has parent {}", node, parent));
      const std::int64_t depth = tree.depths()[static_cast<std::size_t>(parent)] + 1;
      const std::optional<std::int32_t> text = policy_.known(produced() + depth - 1);
      const bool on_path =
          std::find(shape.path.begin(), shape.path.end(), static_cast<std::int32_t>(node)) != shape.path.end();
      if (on_path && !text) throw refuse("goes beyond the text");
      tree.add(parent, on_path ? *text : other_token(text.value_or(anchor), static_cast<int>(node), vocab_));
    }
    return tree;
  }

  void keep(const Round& round, const TokenTree& tree, const std::vector<std::int32_t>& path,
            const DraftOutput& draft) {
    const auto index = static_cast<std::int64_t>(result_.rounds.size());
    if (limits_.record_shapes) result_.shapes.push_back({{tree.parents().begin(), tree.parents().end()}, path});
    if (limits_.record_drafts && draft.rows > 0)
      result_.drafts.push_back({index,
                                draft.rows,
                                draft.candidates,
                                {draft.tokens.begin(), draft.tokens.end()},
                                {draft.log_probabilities.begin(), draft.log_probabilities.end()}});
    result_.rounds.push_back(round);
  }
};

}  // namespace

std::string to_text(Outcome outcome) {
  switch (outcome) {
    case Outcome::kEndOfText:
      return "end_of_text";
    case Outcome::kImmediateEnd:
      return "immediate_end";
    case Outcome::kLength:
      return "length";
    case Outcome::kForcedText:
      return "forced_text";
    case Outcome::kContextFull:
      return "context_full";
    case Outcome::kStopped:
      return "stopped";
  }
  throw internal_error("an outcome has no name");
}

Generation generate(Backend& backend, std::span<const std::int32_t> prompt, TokenPolicy& policy,
                    const GenerationLimits& limits, const TokenCallback& on_token) {
  check(backend, prompt, policy, limits);
  return Session(backend, prompt, policy, limits, on_token).run();
}

}  // namespace tare::engine
