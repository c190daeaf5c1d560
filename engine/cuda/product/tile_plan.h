// How the units of a weight matrix are cut among the thread blocks of one launch, and where partial sums go.
//
// The unit pairs (256 rows x 128 columns) of all row blocks, in order, form one line that is cut into `grid` runs of
// equal length (up to one pair). A run that crosses a row block's end yields one fragment of each row block it touches.
// A fragment is a plane of partial sums [256 rows][tokens]; plane k of a row block comes from the k-th thread block
// that touches it, so adding the planes in order gives the same bits whatever thread block ends first. The cut does not
// depend on the number of tokens. constexpr, so that host, kernels and tests use the same lines.
#pragma once

#include "engine/cuda/product/tiles.h"

namespace tare::engine {

struct TilePlan {
  int row_blocks = 0;
  int pairs_a_row_block = 0;
  int grid = 0;  // 1 .. pairs()

  [[nodiscard]] constexpr int pairs() const { return row_blocks * pairs_a_row_block; }
  // Thread block i owns pairs first_pair(i) .. first_pair(i + 1) - 1.
  [[nodiscard]] constexpr int first_pair(int block) const {
    return static_cast<int>(static_cast<unsigned>(pairs()) * static_cast<unsigned>(block) /
                            static_cast<unsigned>(grid));
  }
  // The thread block that owns `pair`.
  [[nodiscard]] constexpr int owner(int pair) const {
    return static_cast<int>((static_cast<unsigned>(pair + 1) * static_cast<unsigned>(grid) - 1U) /
                            static_cast<unsigned>(pairs()));
  }
  [[nodiscard]] constexpr int first_block(int row_block) const { return owner(row_block * pairs_a_row_block); }
  [[nodiscard]] constexpr int planes(int row_block) const {
    return owner((row_block + 1) * pairs_a_row_block - 1) - first_block(row_block) + 1;
  }
  [[nodiscard]] constexpr int most_planes() const {
    int most = 0;
    for (int row_block = 0; row_block < row_blocks; ++row_block) {
      most = planes(row_block) > most ? planes(row_block) : most;
    }
    return most;
  }
};

// The cut of a matrix among at most `most_blocks` thread blocks. pairs() * (most_blocks + 1) must stay below 2^32.
[[nodiscard]] constexpr TilePlan cut_tiles(std::int64_t rows, std::int64_t columns, int most_blocks) {
  TilePlan plan{.row_blocks = static_cast<int>(unit_row_blocks(rows)),
                .pairs_a_row_block = static_cast<int>(unit_pairs_a_row_block(columns)),
                .grid = most_blocks};
  if (plan.pairs() < most_blocks) plan.grid = plan.pairs();
  return plan;
}

}  // namespace tare::engine
