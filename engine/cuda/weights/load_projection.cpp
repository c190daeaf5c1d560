#include "engine/cuda/weights/load_projection.h"

#include "engine/cuda/weights/encode_tiles.h"

namespace tare::engine {

CudaProjection load_projection(WeightStage& stage, const StackedMatrix& matrix) {
  CudaProjection result;
  result.names = matrix.names();
  result.memory = DeviceBuffer(static_cast<std::size_t>(tile_bytes(matrix.format, matrix.rows(), matrix.columns)),
                               result.names.front().c_str());
  result.matrix = {matrix.format, matrix.rows(), matrix.columns, result.memory.data()};
  stage.stage(matrix, [&](const StagedRows& rows, std::uint64_t* fault, const CudaLaunch& launch) {
    launch_encode_tiles(matrix.format, rows, result.memory.data(), fault, launch);
  });
  return result;
}

DeviceBuffer upload_floats(const std::vector<float>& values, const std::string& name) {
  DeviceBuffer result(values.size() * sizeof(float), name.c_str());
  copy_to_device(result, std::span<const float>(values));
  return result;
}

}  // namespace tare::engine
