// The BF16 head applied on a GPU: FP32 throughout, a panel of the vocabulary widened at a time.
#pragma once

#include <memory>

#include "engine/checkpoint/checkpoint.h"
#include "engine/streamed/head_product.h"

namespace tare::engine {

// Reads lm_head.weight, or embed_tokens.weight where the model ties them, which stays in device memory as BF16. Its
// products and sums are rounded as FP32 (cuBLAS, never TF32). Throws Error (input) when the tensor is not BF16, Error
// (environment): no such device, no room, no cuBLAS.
[[nodiscard]] std::unique_ptr<HeadProduct> make_cuda_head_product(const Checkpoint& checkpoint, int device);

}  // namespace tare::engine
