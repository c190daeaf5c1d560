// The rows of a head in at most 1,024 chunks of whole row blocks of a product: of each the largest logit is kept, and
// the k largest logits of a row lie in the k chunks with the largest ones (any other chunk has k logits above all of
// its own, of equal ones those with lower ids).
#pragma once

namespace tare::engine {

constexpr int kMostLogitChunks = 1024;
constexpr int kMostCandidates = 32;  // of a row: a warp's lanes
[[nodiscard]] constexpr int logit_chunk_rows(int rows) {
  constexpr int kRowBlock = 256;
  const int row_blocks = (rows + kRowBlock - 1) / kRowBlock;
  return (row_blocks + kMostLogitChunks - 1) / kMostLogitChunks * kRowBlock;
}
[[nodiscard]] constexpr int logit_chunks(int rows) {
  return (rows + logit_chunk_rows(rows) - 1) / logit_chunk_rows(rows);
}

}  // namespace tare::engine
