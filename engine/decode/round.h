// What one round did, and the shape by which it can be walked again.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/backend/token_tree.h"

namespace tare::engine {

// Parts of a round's duration, by the steady clock of the host; what is left is the session's own.
struct RoundPhases {
  std::int64_t draft_ns = 0;   // the drafter's pass, until its candidates are at hand
  std::int64_t tree_ns = 0;    // growing the tree
  std::int64_t verify_ns = 0;  // the target's pass, until its choices are at hand
  std::int64_t accept_ns = 0;  // walking the tree
  std::int64_t commit_ns = 0;

  [[nodiscard]] std::array<std::int64_t, 5> all_ns() const {
    return {draft_ns, tree_ns, verify_ns, accept_ns, commit_ns};
  }
};
// Their names, in the order of all_ns.
constexpr std::array<const char*, 5> kRoundPhases = {"draft", "tree", "verify", "accept", "commit"};
// By phase, a duration a round.
using PhaseTimes = std::array<std::vector<std::int64_t>, kRoundPhases.size()>;

// One commit-draft-propose-tree-verify-head-accept cycle.
struct Round {
  std::int64_t duration_ns = 0;  // whole round, with what was spun
  std::int64_t spun_ns = 0;      // spun on purpose by the handicap, measured
  std::int32_t tokens = 0;       // committed by this round: the accepted drafts and one more
  std::int32_t nodes = 1;        // verified, the root included
  std::int32_t drafted = 0;      // tokens ahead that the drafter was asked for; 0: no draft
  bool cut = false;              // the text ended inside the accepted path: more drafts might have been accepted
  RoundPhases phases;
};

// A tree without its tokens, and what was accepted of it.
struct RoundShape {
  std::vector<std::int32_t> parents;  // [nodes], -1 for the root
  std::vector<std::int32_t> path;     // nodes committed, the root first

  friend bool operator==(const RoundShape&, const RoundShape&) = default;
};

}  // namespace tare::engine
