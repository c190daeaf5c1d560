// The kernels of a screened head, one launch function each; screened_head.cpp puts them together.
//
//   screen_chunks   largest screened logit of each chunk of the vocabulary
//   screen_choice   the candidates of a row, their logits by the head itself, and the largest of those
#pragma once

#include <cstdint>

#include "engine/cuda/device/launch.h"
#include "engine/cuda/elementwise.h"
#include "engine/cuda/head/logit_chunks.h"
#include "engine/cuda/product/product.h"

namespace tare::engine {

// Writes the largest logit of each chunk, as ordered_logit, to largest [token][logit_chunk_place(chunk)] (of
// kMostLogitChunks; those of no chunk are left alone);
// keys->fault[token] = 1 where a logit is not finite.
void launch_screen_chunks(const ProductResult& screen, int tokens, std::uint32_t* largest, RoundKeys* keys,
                          const CudaLaunch& launch);

struct ScreenChoiceArguments {
  ProductResult screen;
  int tokens = 0;
  const std::uint32_t* largest = nullptr;  // as launch_screen_chunks left it
  int candidates = kMostCandidates;
  WeightMatrix head;
  // [token][head.columns] FP32, an even number of columns: what the head is multiplied with, rounded to BF16 first or
  // not.
  const float* hidden = nullptr;
  bool rounded = false;
  RoundKeys* keys = nullptr;
  std::int32_t* chosen =
      nullptr;  // [token][kMostCandidates]: the candidates, likeliest by the screen first; may be null
};
// The candidates are the largest of the screen, ties to the lowest token. A candidate's logit is an FP32 sum in the
// order of the reference product: with FP32 rows it has the reference product's bits. keys->best[token] becomes the
// largest of itself and the key of the best candidate, ties to the lowest token; keys->fault[token] = 1 where a logit
// is not finite. The keys must have been emptied.
void launch_screen_choice(const ScreenChoiceArguments& arguments, const CudaLaunch& launch);
// Whether the shared memory of a thread block has room for a row of `columns` columns.
[[nodiscard]] bool can_choose_from(WeightFormat head, std::int64_t columns);

}  // namespace tare::engine
