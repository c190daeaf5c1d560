// The rows of a head in at most 4,096 chunks: of each the largest logit is kept, and the k largest logits of a row lie
// in the k chunks with the largest ones (any other chunk has k logits above all of its own, of equal ones those with
// lower ids). Four chunks are a stretch, whole row blocks of a product: what a warp goes over at once.
#pragma once

#include "engine/cuda/product/product.h"

namespace tare::engine {

constexpr int kLogitRowBlock = 256;  // of a product
constexpr int kChunksAStretch = 4;
constexpr int kMostLogitStretches = 1024;
constexpr int kMostLogitChunks = kChunksAStretch * kMostLogitStretches;
constexpr int kMostCandidates = 32;                               // of a row: a warp's lanes
constexpr int kMostLogitRowBlocks = 4096;                         // whose planes a thread block can keep in mind
constexpr int kMostLogitPlanes = 255;                             // of each of them
constexpr int kLogitPartRows = kLogitRowBlock / kChunksAStretch;  // of a chunk in each row block of its stretch

struct LogitCut {
  int rows = 0;
  int row_blocks = 0;
  int parts = 0;  // row blocks a stretch
  int stretches = 0;
  int chunks = 0;
  [[nodiscard]] constexpr int stretch_rows() const { return parts * kLogitRowBlock; }
  [[nodiscard]] constexpr int chunk_rows() const { return parts * kLogitPartRows; }
};
[[nodiscard]] constexpr LogitCut cut_logits(int rows) {
  LogitCut cut{.rows = rows, .row_blocks = (rows + kLogitRowBlock - 1) / kLogitRowBlock};
  cut.parts = (cut.row_blocks + kMostLogitStretches - 1) / kMostLogitStretches;
  cut.stretches = (rows + cut.stretch_rows() - 1) / cut.stretch_rows();
  cut.chunks = (rows + cut.chunk_rows() - 1) / cut.chunk_rows();
  return cut;
}
// Throws Error (input) naming the size when a head of that shape has more row blocks or planes than are gone over here.
void check_head_shape(std::int64_t rows, std::int64_t columns);
// Of what the product of such a head left.
[[nodiscard]] LogitCut cut_of(const ProductResult& head);

// Where the largest logit of a chunk lies among the kMostLogitChunks of a row: in the share of one warp of those that
// look for the largest of them. Neighbours go to different ones, since likely tokens have neighbouring ids.
constexpr int kChunkShares = 8;
constexpr int kChunksAShare = kMostLogitChunks / kChunkShares;
[[nodiscard]] constexpr int logit_chunk_place(int chunk) {
  return chunk % kChunkShares * kChunksAShare + chunk / kChunkShares;
}

}  // namespace tare::engine
