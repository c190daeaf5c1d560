// What loading a model and loading a drafter have in common.
#pragma once

#include <string>
#include <vector>

#include "engine/cuda/weights/model_weights.h"
#include "engine/cuda/weights/model_weights_plan.h"
#include "engine/cuda/weights/model_weights_stage.h"

namespace tare::engine {

// A stacked matrix in the tiles of its codec, from the codes that the checkpoint stores of it, or encoded here. Errors
// as WeightStage::stage's, and Error (environment): no memory.
[[nodiscard]] CudaProjection load_projection(WeightStage& stage, const StackedMatrix& matrix);

[[nodiscard]] DeviceBuffer upload_floats(const std::vector<float>& values, const std::string& name);

}  // namespace tare::engine
