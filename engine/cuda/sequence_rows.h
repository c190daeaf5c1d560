// What a prefix cache keeps of a CUDA layer (backend/sequence_checkpoint.h), by copies between device and host. The GPU
// must be idle, and no committed path may wait to be folded.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/backend/sequence_checkpoint.h"
#include "engine/cuda/attention/attention.h"
#include "engine/cuda/gdn/gdn.h"

namespace tare::engine {

// Appends the rows of positions first..last - 1, both multiples of kTilePositions, as they lie; and puts them back.
// Throw Error (internal) for other positions.
void export_rows(const CudaKeyValueCache& cache, std::int64_t first, std::int64_t last, ByteWriter& bytes);
void import_rows(const CudaKeyValueCache& cache, std::int64_t first, std::int64_t last, ByteReader& bytes);

// The state's elements as they are stored, widened to FP32, in the kernels' order (gdn_layout.h) and without their
// scales, appended to `state`; scales and columns to `beside`. And back: the same bits.
void export_state(const CudaGdnCache& cache, std::vector<float>& state, ByteWriter& beside);
void import_state(const CudaGdnCache& cache, std::span<const float> state, ByteReader& beside);
[[nodiscard]] std::size_t exported_elements(const CudaGdnCache& cache);

}  // namespace tare::engine
