// Weights to measure with: zeros would draw less power and run faster.
#pragma once

#include "engine/cuda/device/device_buffer.h"
#include "engine/cuda/product/product.h"

namespace tare::micro {

// Tiles of random codes and scales near 2^-7 (E4M3: near 1, under tensors' of 2^-7), or of BF16 weights near it.
// `copies` matrices of the shape after each other; they repeat one random matrix.
[[nodiscard]] engine::DeviceBuffer random_tiles(engine::WeightCodec codec, std::int64_t rows, std::int64_t columns,
                                                int copies = 1);

}  // namespace tare::micro
