// From a matrix's rows in device memory to the tiles of a weight codec, or to plain BF16 rows: the codes and scales of
// formats/weight_codes.h, bit for bit, in the order of tiles.h; and from rows of codes as a quantised checkpoint stores
// them (docs/protocol/quantised-checkpoint.md). Used while a model is loaded, never in a round.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/cuda/device/launch.h"
#include "engine/formats/weight_format.h"

namespace tare::engine {

// Rows first_row .. first_row + rows - 1 of a matrix, row-major, in device memory. alternating: rows / 2 of gate over
// as many of up, to be stored in turn (product/gate_up_rows.h).
struct StagedRows {
  const std::byte* data = nullptr;
  bool wide = false;  // FP32; else BF16
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  bool alternating = false;
};

constexpr std::uint64_t kNoFault = ~std::uint64_t{0};

// Fills the row blocks that the rows lie in, padding included; `tiles` is the whole matrix. first_row is a multiple of
// 256, and so is rows, unless they are the matrix's last (else Error (internal) or wrong padding).
// row_scales (device memory): of the matrix's rows up to its last row block's end, with E4M3 scales, else null.
// *fault (device memory) becomes at most row * columns + column, the row as it is stored, of the first weight of a
// group whose scale overflows FP16 or that holds a weight that is not finite; what is stored of it then means nothing.
void launch_encode_tiles(WeightCodec codec, const StagedRows& source, const float* row_scales, std::byte* tiles,
                         std::uint64_t* fault, const CudaLaunch& launch);

// absmax[row] (device memory, of the matrix's rows) becomes the row's largest magnitude. *fault: the first element that
// is not finite; the row's absmax then means nothing.
void launch_row_absmax(const StagedRows& source, float* absmax, std::uint64_t* fault, const CudaLaunch& launch);

// The same rows as a quantised checkpoint's codes and scales, one row after the other, in device memory.
struct StagedCodes {
  const std::byte* codes = nullptr;
  const std::byte* scales = nullptr;
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  bool alternating = false;
};
// Fills row blocks as launch_encode_tiles does.
void launch_store_codes(WeightCodec codec, const StagedCodes& source, std::byte* tiles, const CudaLaunch& launch);

// The same as plain rows [rows][columns], rounded to nearest even; `out` is the whole matrix. *fault: the element.
void launch_store_rows(const StagedRows& source, std::uint16_t* out, std::uint64_t* fault, const CudaLaunch& launch);

}  // namespace tare::engine
