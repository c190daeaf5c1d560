// Scores arms against a reference: every arm walks every window, as a prompt and as decoded text, and each piece of
// logits is scored and forgotten.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/json_reader.h"
#include "engine/backend/options.h"
#include "engine/streamed/reference_file.h"
#include "forced/window_scores.h"

namespace tare::harness {

struct FidelityArm {
  std::string name;
  engine::EngineOptions options;  // perturb.place=logits rounds the logits that are scored
};

// Rungs of the ladder: logits rounded so that each is wrong by at most 2^-rung of itself.
inline constexpr int kFirstRung = 20;
inline constexpr int kLastRung = 5;
// Mantissa bits that are kept on a rung: rounding to nearest is wrong by half a unit in the last place.
[[nodiscard]] constexpr int bits_of_rung(int rung) {
  return rung - 1;
}

struct FidelitySettings {
  std::string model;
  // The checkpoint that the reference was made from, when `model` was made from that one (tare quantize); its head is
  // the exact one. Empty: `model`.
  std::string reference_model;
  std::vector<FidelityArm> arms;  // the first is the baseline
  bool prefill = true;
  std::vector<std::int64_t> round_nodes = {1, 16};  // decode paths: nodes a round; empty: none
  bool ladder = false;                              // of the baseline, every path, its own head
  int threads = 1;                                  // of the scoring, in all
  int jobs = 1;  // walks at a time, each with an engine of its own: speeds are then of engines side by side
};

// One walk of one arm over all windows, scored through one head.
struct FidelityPass {
  std::string arm;
  std::string path;        // "prefill" or "decode"
  std::int64_t nodes = 0;  // of a decode round
  std::string head;        // "own", "screened" (choices alone: everything but top1 is NaN), or "exact"
  int rung = 0;            // of the ladder; 0: as the arm is
  forced::WindowScores scores;
};

struct FidelityArmFacts {
  std::string name;
  Json options;
  Json description;                      // Backend::description
  std::uint64_t bytes_per_round = 0;     // of one token at half a window, by the arm's own inventory
  std::uint64_t resident_bytes = 0;      // weights, caches, states
  double prefill_tokens_per_second = 0;  // of these walks, whole machine as it was; 0: not walked
  double decode_tokens_per_second = 0;   // of the fastest decode walk
};

struct FidelityMeasurement {
  std::vector<FidelityArmFacts> arms;
  std::vector<FidelityPass> passes;
};

// "bf16, decode 16 nodes", windows done, of all. Called between windows.
using FidelityProgress = std::function<void(const std::string& what, std::int64_t done, std::int64_t total)>;

// Called when an arm and all before it are scored, with all of these: what is written then is kept whatever happens to
// the rest. Not called from two threads at a time.
using FidelityArmDone = std::function<void(const FidelityMeasurement& so_far)>;

// The first `windows` windows of a reference (0: all). Throws Error (input) when it has fewer.
[[nodiscard]] engine::Reference first_windows(const engine::Reference& reference, std::int64_t windows);

// Throws Error (input) naming the digest that differs: the reference is of another checkpoint or tokenizer than
// `model`.
void check_belongs(const engine::Reference& reference, const std::string& model, const std::string& where);
// Likewise of the texts in `texts`, tokenised by `model`'s tokenizer.
void check_texts(const engine::Reference& reference, const std::filesystem::path& texts, const std::string& model,
                 const std::string& where);

// Throws Error (invalid) when windows of the reference are in `texts`, from which a model or a quantiser learned
// (forced/overlap.h); tokenised by `model`'s tokenizer.
void check_learned(const engine::Reference& reference, const std::filesystem::path& texts, const std::string& model);

// Throws what the backends throw, and Error (invalid) naming arm, window and position for logits that are none.
[[nodiscard]] FidelityMeasurement measure_fidelity(const engine::Reference& reference, const FidelitySettings& settings,
                                                   const FidelityProgress& progress,
                                                   const FidelityArmDone& arm_done = {});

}  // namespace tare::harness
