#include "engine/cuda/product/gate_up_product.h"

namespace tare::engine {
namespace {

std::optional<ActivatedPlan> plan_of(std::int64_t size, std::int64_t columns, const EngineOptions& options,
                                     const CudaDevice& device) {
  if (!options.cuda.activating_product || options.activations.format == ActivationFormat::kFP32) return {};
  if (!device.is_hopper()) return {};
  return activated_plan(2 * size, columns, device.multiprocessors);
}

}  // namespace

GateUpProduct::GateUpProduct(std::int64_t size, std::int64_t columns, const EngineOptions& options,
                             const CudaDevice& device)
    : plan_(plan_of(size, columns, options, device)) {
  const std::size_t bytes = work_bytes(size, columns, options, device);
  if (bytes == 0) return;
  counters_ = DeviceBuffer(bytes, "counters of a product");
  fill_device(counters_.data(), bytes, 0);
}

std::int64_t GateUpProduct::plane_floats(std::int64_t size, std::int64_t columns, const EngineOptions& options,
                                         const CudaDevice& device) {
  const std::optional<ActivatedPlan> plan = plan_of(size, columns, options, device);
  return plan ? activated_plane_floats(*plan, kMostRoundTokens) : 0;
}

std::size_t GateUpProduct::work_bytes(std::int64_t size, std::int64_t columns, const EngineOptions& options,
                                      const CudaDevice& device) {
  const std::optional<ActivatedPlan> plan = plan_of(size, columns, options, device);
  return plan ? static_cast<std::size_t>(activated_counters(*plan)) * sizeof(unsigned) : 0;
}

bool GateUpProduct::takes(const Operand& input) const {
  return plan_ && (input.layout == OperandLayout::kFP16Panels || input.layout == OperandLayout::kBF16Panels);
}

void GateUpProduct::launch(const WeightMatrix& gate_up, const Operand& input, const Operand& out, float* planes,
                           const ProductSettings& settings, const CudaLaunch& launch) const {
  launch_activated_product(gate_up, input, plan_.value(), out, planes, counters_.as<unsigned>(), settings, launch);
}

}  // namespace tare::engine
