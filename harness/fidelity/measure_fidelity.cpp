#include "harness/fidelity/measure_fidelity.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "base/digest.h"
#include "base/error.h"
#include "engine/backends/make_backend.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/tokenizer/tokenizer.h"
#include "forced/exact_head.h"
#include "forced/forced_passes.h"
#include "forced/windows.h"
#include "profiles/nvtx/nvtx.h"

namespace tare::harness {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kMostHeadBytes = std::int64_t{64} << 20;  // logits of the exact head at a time

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::filesystem::path tokenizer_of(const std::string& model) {
  return std::filesystem::path(model) / "tokenizer.json";
}

// A choice without logits: only the agreement is known.
forced::PositionScore choice_alone(std::int32_t best, const forced::ReferenceRow& reference) {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  return {kUnknown, kUnknown, kUnknown, best, best == reference.ids.front()};
}

struct WalkKind {
  std::string path;
  std::int64_t nodes = 0;
};

class ArmWalks {
 public:
  ArmWalks(const engine::Reference& reference, const FidelityArm& arm, const FidelitySettings& settings,
           const forced::ExactHead* exact_head, ThreadPool& pool)
      : reference_(reference), arm_(arm), exact_head_(exact_head), pool_(pool), bits_(own_bits(arm.options)) {
    checkpoint_ = engine::open_checkpoint(settings.model);
    backend_ = profiles::with_nvtx_ranges(engine::make_backend(*checkpoint_, arm.options));
    if (backend_->config().vocab_size != reference.vocab_size)
      throw input_error(settings.model, fmt::format("has a vocabulary of {}, the reference of {}",
                                                    backend_->config().vocab_size, reference.vocab_size));
    if (backend_->capacity() < reference.window_tokens)
      throw input_error("context",
                        fmt::format("holds {} tokens, a window has {}", backend_->capacity(), reference.window_tokens));
  }

  // Adds the passes of one walk: the arm's own head, the rungs of the ladder, the exact head in decoding.
  void walk(const WalkKind& kind, bool ladder, std::vector<FidelityPass>& passes,
            const std::function<void(std::int64_t)>& progress) {
    const bool decode = kind.path == "decode";
    const bool screened = decode && arm_.options.head.screen != engine::HeadScreen::kNone;
    own_ = new_pass(kind, screened ? "screened" : "own");
    rungs_.clear();
    if (ladder && !screened)
      for (int rung = kFirstRung; rung >= kLastRung; --rung) {
        rungs_.push_back(new_pass(kind, "own"));
        rungs_.back().rung = rung;
      }
    exact_.reset();
    if (decode && exact_head_ != nullptr) exact_ = new_pass(kind, "exact");
    double walked_seconds = 0;
    for (std::int64_t window = 0; window < reference_.window_count(); ++window) {
      progress(window);
      walked_seconds += walk_window(kind, window);
    }
    const double tokens = static_cast<double>(reference_.window_count() * reference_.window_tokens);
    if (!decode) facts_.prefill_tokens_per_second = tokens / walked_seconds;
    if (decode && kind.nodes == 1) facts_.decode_tokens_per_second = tokens / walked_seconds;
    passes.push_back(std::move(own_));
    if (exact_) passes.push_back(std::move(*exact_));
    for (FidelityPass& rung : rungs_) passes.push_back(std::move(rung));
  }

  [[nodiscard]] FidelityArmFacts facts() const {
    FidelityArmFacts facts = facts_;
    facts.name = arm_.name;
    facts.options = engine::to_json(backend_->options());
    facts.description = backend_->description();
    const engine::WeightInventory inventory = backend_->inventory(reference_.window_tokens / 2, 1);
    facts.bytes_per_round = inventory.bytes_per_round();
    facts.resident_bytes = inventory.resident_bytes();
    return facts;
  }

 private:
  const engine::Reference& reference_;
  const FidelityArm& arm_;
  const forced::ExactHead* exact_head_;
  ThreadPool& pool_;
  int bits_;
  std::unique_ptr<engine::Checkpoint> checkpoint_;
  std::unique_ptr<engine::Backend> backend_;
  FidelityArmFacts facts_;
  FidelityPass own_;
  std::vector<FidelityPass> rungs_;
  std::optional<FidelityPass> exact_;
  std::vector<float> hidden_;  // of the window that is walked

  static int own_bits(const engine::EngineOptions& options) {
    return options.perturb.place == engine::PerturbPlace::kLogits ? static_cast<int>(options.perturb.bits)
                                                                  : forced::kNoRounding;
  }

  [[nodiscard]] FidelityPass new_pass(const WalkKind& kind, const std::string& head) const {
    return {arm_.name, kind.path, kind.nodes, head, 0, forced::make_window_scores(reference_)};
  }

  // Seconds of the walk itself, without the scoring.
  double walk_window(const WalkKind& kind, std::int64_t window) {
    const auto tokens = std::span(reference_.tokens)
                            .subspan(static_cast<std::size_t>(window * reference_.window_tokens),
                                     static_cast<std::size_t>(reference_.window_tokens));
    hidden_.clear();
    double scoring_seconds = 0;
    const forced::TakeRows take = [&](const forced::PassRows& rows) {
      const Clock::time_point start = Clock::now();
      score(window, rows);
      scoring_seconds += seconds_since(start);
    };
    const forced::PassRequest request{.logits = true, .hidden = exact_.has_value()};
    const Clock::time_point start = Clock::now();
    try {
      if (kind.path == "prefill") {
        forced::prefill_window(*backend_, tokens, request, take);
      } else {
        forced::decode_window(*backend_, tokens, kind.nodes, static_cast<std::uint64_t>(window), request, take);
      }
      const double seconds = seconds_since(start) - scoring_seconds;
      if (exact_) score_exact_head(window);
      return seconds;
    } catch (const Error& error) {
      throw error.within(fmt::format("arm {}, {}, window {}", arm_.name, kind.path,
                                     reference_.windows[static_cast<std::size_t>(window)].id));
    }
  }

  void score(std::int64_t window, const forced::PassRows& rows) {
    const auto place = static_cast<std::size_t>(window);
    hidden_.insert(hidden_.end(), rows.hidden.begin(), rows.hidden.end());
    if (rows.logits.empty() || own_.head == "screened") {
      score_choices(rows, own_.scores[place], window);
      return;
    }
    forced::score_rows(pool_, rows.logits, reference_, window, rows.first, own_.scores[place], bits_);
    for (FidelityPass& rung : rungs_)
      forced::score_rows(pool_, rows.logits, reference_, window, rows.first, rung.scores[place],
                         std::min(bits_, bits_of_rung(rung.rung)));
  }

  void score_choices(const forced::PassRows& rows, std::vector<forced::PositionScore>& scores, std::int64_t window) {
    for (std::int64_t row = 0; row < rows.rows; ++row) {
      const std::int64_t position = rows.first + row;
      if (position >= static_cast<std::int64_t>(scores.size())) break;
      const auto width = static_cast<std::size_t>(reference_.vocab_size);
      const auto at = static_cast<std::size_t>(row);
      const std::int32_t best =
          rows.best.empty()
              ? static_cast<std::int32_t>(
                    std::max_element(rows.logits.begin() + static_cast<std::ptrdiff_t>(at * width),
                                     rows.logits.begin() + static_cast<std::ptrdiff_t>((at + 1) * width)) -
                    rows.logits.begin() - static_cast<std::ptrdiff_t>(at * width))
              : rows.best[at];
      scores[static_cast<std::size_t>(position)] =
          choice_alone(best, forced::reference_row(reference_, window, position));
    }
  }

  void score_exact_head(std::int64_t window) {
    const std::int64_t width = exact_head_->hidden_size();
    const std::int64_t rows = static_cast<std::int64_t>(hidden_.size()) / width;
    const std::int64_t piece = std::clamp<std::int64_t>(
        kMostHeadBytes / (exact_head_->vocab_size() * static_cast<std::int64_t>(sizeof(float))), 1, rows);
    std::vector<float> logits;
    for (std::int64_t first = 0; first < rows; first += piece) {
      const std::int64_t count = std::min(piece, rows - first);
      logits.resize(static_cast<std::size_t>(count * exact_head_->vocab_size()));
      exact_head_->apply(
          pool_,
          std::span(hidden_).subspan(static_cast<std::size_t>(first * width), static_cast<std::size_t>(count * width)),
          logits);
      forced::score_rows(pool_, logits, reference_, window, first, exact_->scores[static_cast<std::size_t>(window)]);
    }
  }
};

}  // namespace

engine::Reference first_windows(const engine::Reference& reference, std::int64_t windows) {
  if (windows == 0 || windows == reference.window_count()) return reference;
  if (windows < 0 || windows > reference.window_count())
    throw input_error("--windows", fmt::format("{} of {} that the reference has", windows, reference.window_count()));
  engine::Reference first = reference;
  const auto rows = static_cast<std::size_t>(windows * reference.window_tokens);
  const auto candidates = static_cast<std::size_t>(reference.candidates());
  first.windows.resize(static_cast<std::size_t>(windows));
  first.tokens.resize(rows);
  first.top_ids.resize(rows * candidates);
  first.top_log_probabilities.resize(rows * candidates);
  first.log_sum_exp.resize(rows);
  first.next_log_probability.resize(rows - static_cast<std::size_t>(windows));
  first.digests.tokens = digest_tokens(first.tokens);
  return first;
}

void check_belongs(const engine::Reference& reference, const std::string& model, const std::string& where) {
  const std::string checkpoint = engine::open_checkpoint(model)->digest();
  if (checkpoint != reference.digests.checkpoint)
    throw input_error(where,
                      fmt::format("is of checkpoint {}, {} is {}", reference.digests.checkpoint, model, checkpoint),
                      "make a reference of this checkpoint with tare reference, or name the one that it was made from "
                      "with --reference-model");
  const std::filesystem::path tokenizer = tokenizer_of(model);
  const std::string tokenizer_digest = std::filesystem::exists(tokenizer) ? digest_file(tokenizer) : std::string();
  if (tokenizer_digest != reference.digests.tokenizer)
    throw input_error(where,
                      fmt::format("is of tokenizer {}, {} has {}", reference.digests.tokenizer, model,
                                  tokenizer_digest.empty() ? "none" : tokenizer_digest),
                      "its token ids may mean other text here");
}

void check_texts(const engine::Reference& reference, const std::filesystem::path& texts, const std::string& model,
                 const std::string& where) {
  const std::filesystem::path path = tokenizer_of(model);
  std::optional<engine::Tokenizer> tokenizer;
  if (std::filesystem::exists(path)) tokenizer = engine::Tokenizer::from_file(path);
  const forced::WindowFile file =
      forced::read_windows(texts, tokenizer ? &*tokenizer : nullptr, reference.window_tokens, reference.window_count());
  for (std::size_t i = 0; i < file.windows.size(); ++i)
    if (file.windows[i].id != reference.windows[i].id || file.windows[i].kind != reference.windows[i].kind)
      throw input_error(where, fmt::format("has window {} where {} has {}", reference.windows[i].id, texts.string(),
                                           file.windows[i].id));
  if (file.tokens_digest != reference.digests.tokens)
    throw input_error(where, fmt::format("is of another text: tokens {}, {} has {}", reference.digests.tokens,
                                         texts.string(), file.tokens_digest));
}

FidelityMeasurement measure_fidelity(const engine::Reference& reference, const FidelitySettings& settings,
                                     const FidelityProgress& progress) {
  std::vector<WalkKind> kinds;
  if (settings.prefill) kinds.push_back({"prefill", 0});
  for (const std::int64_t nodes : settings.round_nodes) kinds.push_back({"decode", nodes});
  if (kinds.empty()) throw input_error("--path", "walks nothing");
  const std::unique_ptr<engine::Checkpoint> head_checkpoint =
      engine::open_checkpoint(settings.reference_model.empty() ? settings.model : settings.reference_model);
  std::optional<forced::ExactHead> exact_head;
  if (!settings.round_nodes.empty()) exact_head.emplace(*head_checkpoint);
  ThreadPool pool(settings.threads);
  FidelityMeasurement measurement;
  const std::int64_t windows = reference.window_count();
  const std::int64_t total = static_cast<std::int64_t>(settings.arms.size() * kinds.size()) * windows;
  std::int64_t walks = 0;
  for (const FidelityArm& arm : settings.arms) {
    ArmWalks arm_walks(reference, arm, settings, exact_head ? &*exact_head : nullptr, pool);
    for (const WalkKind& kind : kinds) {
      const std::string what = kind.path == "prefill" ? fmt::format("{}, prefill", arm.name)
                                                      : fmt::format("{}, decode in rounds of {}", arm.name, kind.nodes);
      const bool ladder = settings.ladder && &arm == &settings.arms.front();
      arm_walks.walk(kind, ladder, measurement.passes,
                     [&](std::int64_t window) { progress(what, walks * windows + window, total); });
      ++walks;
    }
    measurement.arms.push_back(arm_walks.facts());
  }
  progress("scored", total, total);
  return measurement;
}

}  // namespace tare::harness
