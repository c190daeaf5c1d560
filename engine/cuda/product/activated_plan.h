// How a product of gate and up rows that applies the activation itself is cut among its thread blocks.
//
// A cluster of two blocks has one row block of 256 rows (128 gate rows, each beside its up row), either block half of
// K; at the end they exchange half of their sums, and each has whole sums of 128 rows, one group of 64 activated
// columns. Row blocks beyond one a cluster are shared: blocks sum a pair of units of them first, into planes
// (tile_plan.h), and other blocks finish them at the end, when those planes have long been written. Like every cut it
// does not depend on the number of tokens.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/cuda/product/gate_up_rows.h"
#include "engine/cuda/product/tile_plan.h"

namespace tare::engine {

constexpr int kActivatedCluster = 2;

struct ActivatedPlan {
  int clusters = 0;   // cluster c has row block c, and shared row block i is row block clusters + i
  TilePlan shared{};  // among the first blocks

  [[nodiscard]] constexpr int blocks() const { return clusters * kActivatedCluster; }
};
// The unit pairs of its cluster's row block that the block of this rank has: from the first on, so many.
[[nodiscard]] constexpr int activated_own_first(const TilePlan& shared, int rank) {
  return rank == 0 ? 0 : shared.pairs_a_row_block / 2;
}
[[nodiscard]] constexpr int activated_own_pairs(const TilePlan& shared, int rank) {
  return rank == 0 ? shared.pairs_a_row_block / 2 : shared.pairs_a_row_block - shared.pairs_a_row_block / 2;
}

// A shared row block costs its finishers a read of its planes; of few no block has more than one part to finish.
constexpr int kClustersASharedRowBlock = 32;

// Nothing where a row block a multiprocessor does not come out evenly (too few, too many left over), K is too short, or
// a last run of rows is (gate_up_rows.h): in one lane lie rows that are eight apart.
[[nodiscard]] constexpr std::optional<ActivatedPlan> activated_plan(std::int64_t rows, std::int64_t columns,
                                                                    int multiprocessors) {
  if (rows % (2 * kGateRun) != 0) return {};
  const auto row_blocks = static_cast<int>(unit_row_blocks(rows));
  const int shared = row_blocks - multiprocessors;
  if (shared < 0 || shared * kClustersASharedRowBlock > multiprocessors) return {};
  ActivatedPlan plan{
      .clusters = multiprocessors,
      .shared = {
          .row_blocks = shared, .pairs_a_row_block = static_cast<int>(unit_pairs_a_row_block(columns)), .grid = 0}};
  if (activated_own_pairs(plan.shared, 0) == 0) return {};
  plan.shared.grid = plan.shared.pairs() < plan.blocks() ? plan.shared.pairs() : plan.blocks();
  return plan;
}

}  // namespace tare::engine
