// The product of an MLP's gate and up rows that applies the activation itself: whether a model's shape, the device and
// the options allow it, and the memory that it needs between launches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "engine/backend/options.h"
#include "engine/cuda/device/cuda_device.h"
#include "engine/cuda/device/device_buffer.h"
#include "engine/cuda/product/product.h"

namespace tare::engine {

class GateUpProduct {
 public:
  // size: rows of gate, and of up; columns: of both. Allocates work_bytes().
  GateUpProduct(std::int64_t size, std::int64_t columns, const EngineOptions& options, const CudaDevice& device);

  // Floats that it needs for planes; 0 where it is of no use.
  [[nodiscard]] static std::int64_t plane_floats(std::int64_t size, std::int64_t columns, const EngineOptions& options,
                                                 const CudaDevice& device);
  [[nodiscard]] static std::size_t work_bytes(std::int64_t size, std::int64_t columns, const EngineOptions& options,
                                              const CudaDevice& device);

  // Whether launch() may be called for this input. If not: a product of its own, and launch_mlp_activation.
  [[nodiscard]] bool takes(const Operand& input) const;
  // silu(gate) up of `input` to `out`. Launches that share this object run one after the other.
  void launch(const WeightMatrix& gate_up, const Operand& input, const Operand& out, float* planes,
              const ProductSettings& settings, const CudaLaunch& launch) const;

 private:
  std::optional<ActivatedPlan> plan_;
  DeviceBuffer counters_;
};

}  // namespace tare::engine
