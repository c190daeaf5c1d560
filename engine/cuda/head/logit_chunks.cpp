#include "engine/cuda/head/logit_chunks.h"

#include <fmt/format.h>

#include "base/error.h"

namespace tare::engine {
namespace {

// A row block has a plane for each thread block that has a pair of its units.
bool has_few_planes(std::int64_t pairs_a_row_block) {
  return pairs_a_row_block <= kMostLogitPlanes;
}

}  // namespace

void check_head_shape(std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kMostRows = std::int64_t{kMostLogitRowBlocks} * kLogitRowBlock;
  if (rows > kMostRows) {
    throw input_error("vocab_size",
                      fmt::format("backend cuda chooses among at most {} tokens, not {}", kMostRows, rows),
                      "set head.screen and speculate.drafter to none");
  }
  if (!has_few_planes(unit_pairs_a_row_block(columns))) {
    throw input_error("hidden_size",
                      fmt::format("backend cuda chooses among tokens by at most {} columns, not {}",
                                  kMostLogitPlanes * 2 * kUnitColumns, columns),
                      "set head.screen and speculate.drafter to none");
  }
}

LogitCut cut_of(const ProductResult& head) {
  const LogitCut cut = cut_logits(head.rows);
  if (cut.row_blocks > kMostLogitRowBlocks || (head.planes && !has_few_planes(head.plan.pairs_a_row_block)))
    throw internal_error("a choice among the rows of a head that was not checked");
  return cut;
}

}  // namespace tare::engine
