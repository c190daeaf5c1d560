// States in which arms have to decide: a history of some length and a branch that leaves it, 4 x 4 x 4 of them, reached
// cold (one prompt), continued (the history is in caches and states, the branch is decoded token by token) and cached
// (the history comes out of a prefix cache, and the branch is prefilled after it).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "forced/decision_agreement.h"
#include "harness/fidelity/measure_fidelity.h"

namespace tare::harness {

inline constexpr std::int64_t kStateHistories = 4;
inline constexpr std::int64_t kStateLengths = 4;
inline constexpr std::int64_t kStateBranches = 4;
inline constexpr std::int64_t kBranchTokens = 16;

struct DecisionState {
  std::vector<std::int32_t> history;  // the beginning of a window
  std::vector<std::int32_t> branch;   // kBranchTokens of another window
};

// 64 states from the reference's windows: histories of 1/32, 1/8, 1/2 and all but a branch of a window. Throws Error
// (input) for fewer than 8 windows, or windows shorter than 32 tokens.
[[nodiscard]] std::vector<DecisionState> decision_states(const engine::Reference& reference);

// A page of the prefix cache of an arm that has none of its own: whole blocks of the chunk form.
inline constexpr std::int64_t kStatePageTokens = 64;

// How the states were reached through a prefix cache.
struct CachedDecisions {
  forced::DecisionAgreement agreement;  // against its own cold: with an exact codec `identical` must be all
  std::int64_t tokens = 0;              // of histories and branches
  std::int64_t restored_tokens = 0;
  double cold_s = 0;    // all states, computed whole
  double cached_s = 0;  // all states, histories restored
  Json cache;           // its settings and statistics
};

struct ArmDecisions {
  std::string arm;
  forced::DecisionAgreement cold;         // against the baseline's, both cold
  forced::DecisionAgreement continued;    // against the baseline's, both continued
  forced::DecisionAgreement ways;         // its own continued against its own cold
  std::optional<CachedDecisions> cached;  // on backend cuda of arms whose options ask for a cache
  forced::DecisionAgreement restarted;    // another engine's cold against its own cold: `identical` must be all
};

// Every arm, the baseline (the first) among them. Cached: through the arm's own prefix cache where options ask for one,
// else through one of 1 GB with exact checkpoints. Throws what the backends throw.
[[nodiscard]] std::vector<ArmDecisions> compare_arms(const engine::Reference& reference,
                                                     const FidelitySettings& settings,
                                                     const FidelityProgress& progress);

[[nodiscard]] Json to_json(const ArmDecisions& decisions);

}  // namespace tare::harness
