#include "engine/cuda/weights/load_projection.h"

#include <algorithm>
#include <span>

#include "engine/cuda/product/gate_up_rows.h"
#include "engine/cuda/product/tiles.h"
#include "engine/cuda/weights/encode_tiles.h"

namespace tare::engine {
namespace {

// The scale of each row's part, 1 past the last row, up to the last row block's end.
std::vector<float> padded_row_scales(const StackedMatrix& matrix, const std::vector<float>& part_scales) {
  std::vector<float> scales(static_cast<std::size_t>(unit_row_blocks(matrix.rows()) * kUnitRows), 1.0F);
  auto row = scales.begin();
  if (matrix.alternating) {
    const std::int64_t size = matrix.rows() / 2;
    for (std::int64_t at = 0; at < 2 * size; ++at) *row++ = part_scales[stacked_row(at, size) < size ? 0 : 1];
    return scales;
  }
  for (std::size_t part = 0; part < matrix.parts.size(); ++part)
    row = std::fill_n(row, matrix.chosen.empty() ? matrix.parts[part].rows : std::ssize(matrix.chosen),
                      part_scales[part]);
  return scales;
}

}  // namespace

CudaProjection load_projection(WeightStage& stage, const StackedMatrix& matrix) {
  CudaProjection result;
  result.names = matrix.names();
  result.memory = DeviceBuffer(static_cast<std::size_t>(tile_bytes(matrix.codec, matrix.rows(), matrix.columns)),
                               result.names.front().c_str());
  result.matrix = {matrix.codec.format, matrix.rows(), matrix.columns, result.memory.data(), matrix.codec.scales};
  const bool stored = stage.has_codes(matrix);
  const float* scales = row_scales(result.matrix);
  if (scales != nullptr) {
    const std::int64_t units = unit_run_bytes(matrix.codec, matrix.rows(), matrix.columns);
    copy_to_device(result.memory.data() + units,
                   std::as_bytes(std::span<const float>(
                       padded_row_scales(matrix, stored ? stage.stored_scales(matrix) : stage.tensor_scales(matrix)))));
  }
  if (stored) {
    stage.stage_codes(matrix, [&](const StagedCodes& rows, const CudaLaunch& launch) {
      launch_store_codes(matrix.codec, rows, result.memory.data(), launch);
    });
  } else {
    stage.stage(matrix, [&](const StagedRows& rows, std::uint64_t* fault, const CudaLaunch& launch) {
      launch_encode_tiles(matrix.codec, rows, scales, result.memory.data(), fault, launch);
    });
  }
  return result;
}

DeviceBuffer upload_floats(const std::vector<float>& values, const std::string& name) {
  DeviceBuffer result(values.size() * sizeof(float), name.c_str());
  copy_to_device(result, std::span<const float>(values));
  return result;
}

}  // namespace tare::engine
