#include "harness/fidelity/measure_fidelity.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/digest.h"
#include "base/error.h"
#include "engine/backends/make_backend.h"
#include "engine/backends/make_streamed.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/tokenizer/tokenizer.h"
#include "forced/exact_head.h"
#include "forced/forced_passes.h"
#include "forced/overlap.h"
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

std::optional<engine::Tokenizer> open_tokenizer(const std::string& model) {
  const std::filesystem::path path = tokenizer_of(model);
  if (!std::filesystem::exists(path)) return std::nullopt;
  return engine::Tokenizer::from_file(path);
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
           const engine::HeadProduct* exact_head, ThreadPool& pool)
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
    if (decode) facts_.decode_tokens_per_second = tokens / walked_seconds;
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
  const engine::HeadProduct* exact_head_;
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

// One arm over all windows in one way.
struct Walk {
  const FidelityArm* arm = nullptr;
  WalkKind kind;
  std::vector<FidelityPass> passes;
  FidelityArmFacts facts;
  bool done = false;
};

// Walks in order, `jobs` at a time, each with an engine of its own.
class WalkQueue {
 public:
  WalkQueue(const engine::Reference& reference, const FidelitySettings& settings, const engine::HeadProduct* exact_head,
            std::vector<Walk> walks, const FidelityProgress& progress, const FidelityArmDone& arm_done)
      : reference_(reference),
        settings_(settings),
        exact_head_(exact_head),
        progress_(progress),
        arm_done_(arm_done),
        walks_(std::move(walks)) {}

  FidelityMeasurement run() {
    std::vector<std::thread> others;
    for (int job = 1; job < std::min(settings_.jobs, static_cast<int>(walks_.size())); ++job)
      others.emplace_back([this] { work(); });
    work();
    for (std::thread& other : others) other.join();
    if (failure_) std::rethrow_exception(failure_);
    progress_("scored", total(), total());
    return std::move(measurement_);
  }

 private:
  const engine::Reference& reference_;
  const FidelitySettings& settings_;
  const engine::HeadProduct* exact_head_;
  const FidelityProgress& progress_;
  const FidelityArmDone& arm_done_;
  std::mutex mutex_;         // of all below, but for what is in a walk that one thread has taken
  std::vector<Walk> walks_;  // an arm's stand together
  std::size_t next_ = 0;
  std::size_t handed_on_ = 0;  // walks whose passes are in measurement_
  FidelityMeasurement measurement_;
  std::int64_t windows_done_ = 0;
  std::exception_ptr failure_;

  [[nodiscard]] std::int64_t total() const {
    return static_cast<std::int64_t>(walks_.size()) * reference_.window_count();
  }

  // The next walk; null when there is none, or one has failed.
  Walk* take() {
    const std::lock_guard lock(mutex_);
    return failure_ || next_ == walks_.size() ? nullptr : &walks_[next_++];
  }

  void work() {
    ThreadPool pool(std::max(settings_.threads / settings_.jobs, 1));
    while (Walk* walk = take()) {
      try {
        run(*walk, pool);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!failure_) failure_ = std::current_exception();
      }
    }
  }

  void run(Walk& walk, ThreadPool& pool) {
    ArmWalks arm(reference_, *walk.arm, settings_, exact_head_, pool);
    const std::string what = walk.kind.path == "prefill"
                                 ? fmt::format("{}, prefill", walk.arm->name)
                                 : fmt::format("{}, decode in rounds of {}", walk.arm->name, walk.kind.nodes);
    const bool ladder = settings_.ladder && walk.arm == &settings_.arms.front();
    arm.walk(walk.kind, ladder, walk.passes, [&](std::int64_t window) {
      const std::lock_guard lock(mutex_);
      if (window > 0) ++windows_done_;
      progress_(what, windows_done_, total());
    });
    walk.facts = arm.facts();
    const std::lock_guard lock(mutex_);
    ++windows_done_;  // its last
    walk.done = true;
    while (hand_on_an_arm()) {
    }
  }

  // Moves the next arm's walks into the measurement; false when they are not all done.
  bool hand_on_an_arm() {
    std::size_t end = handed_on_;
    while (end < walks_.size() && walks_[end].arm == walks_[handed_on_].arm) {
      if (!walks_[end].done) return false;
      ++end;
    }
    if (end == handed_on_) return false;
    FidelityArmFacts facts = walks_[handed_on_].facts;
    for (; handed_on_ < end; ++handed_on_) {
      Walk& walk = walks_[handed_on_];
      facts.prefill_tokens_per_second = std::max(facts.prefill_tokens_per_second, walk.facts.prefill_tokens_per_second);
      facts.decode_tokens_per_second = std::max(facts.decode_tokens_per_second, walk.facts.decode_tokens_per_second);
      std::move(walk.passes.begin(), walk.passes.end(), std::back_inserter(measurement_.passes));
    }
    measurement_.arms.push_back(std::move(facts));
    if (arm_done_) arm_done_(measurement_);
    return true;
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
  const std::optional<engine::Tokenizer> tokenizer = open_tokenizer(model);
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

void check_learned(const engine::Reference& reference, const std::filesystem::path& texts, const std::string& model) {
  const std::optional<engine::Tokenizer> tokenizer = open_tokenizer(model);
  const std::vector<std::uint64_t> seen =
      forced::run_hashes(forced::read_learned_texts(texts, tokenizer ? &*tokenizer : nullptr));
  std::vector<forced::TextWindow> windows;
  const auto length = static_cast<std::size_t>(reference.window_tokens);
  for (std::size_t i = 0; i < reference.windows.size(); ++i) {
    const auto first = reference.tokens.begin() + static_cast<std::ptrdiff_t>(i * length);
    windows.push_back(
        {reference.windows[i].id, reference.windows[i].kind, {first, first + static_cast<std::ptrdiff_t>(length)}});
  }
  forced::refuse_overlaps(windows, seen, texts.string());
}

namespace {

// One head for all arms, where the baseline computes.
std::unique_ptr<engine::HeadProduct> make_exact_head(const engine::Checkpoint& checkpoint,
                                                     const engine::EngineOptions& baseline) {
  if (baseline.backend == engine::BackendKind::kCuda)
    return engine::make_head_product(checkpoint, static_cast<int>(baseline.cuda.device));
  return std::make_unique<forced::ExactHead>(checkpoint);
}

}  // namespace

FidelityMeasurement measure_fidelity(const engine::Reference& reference, const FidelitySettings& settings,
                                     const FidelityProgress& progress, const FidelityArmDone& arm_done) {
  std::vector<WalkKind> kinds;
  if (settings.prefill) kinds.push_back({"prefill", 0});
  for (const std::int64_t nodes : settings.round_nodes) kinds.push_back({"decode", nodes});
  if (kinds.empty()) throw input_error("--path", "walks nothing");
  if (settings.jobs < 1) throw input_error("--jobs", "must be at least 1");
  const std::unique_ptr<engine::Checkpoint> head_checkpoint =
      engine::open_checkpoint(settings.reference_model.empty() ? settings.model : settings.reference_model);
  const std::unique_ptr<engine::HeadProduct> exact_head =
      settings.round_nodes.empty() ? nullptr : make_exact_head(*head_checkpoint, settings.arms.front().options);
  std::vector<Walk> walks;
  for (const FidelityArm& arm : settings.arms)
    for (const WalkKind& kind : kinds) walks.push_back({&arm, kind, {}, {}, false});
  return WalkQueue(reference, settings, exact_head.get(), std::move(walks), progress, arm_done).run();
}

}  // namespace tare::harness
