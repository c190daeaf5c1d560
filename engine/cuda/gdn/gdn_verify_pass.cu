// The instances of the verify kernel, by the state's format.
#include "engine/cuda/gdn/gdn_verify.cuh"

namespace tare::engine {
namespace gdn {
namespace {

template <StateFormat kFormat>
void launch_format(const char* name, const GdnPass& pass, const CudaLaunch& launch) {
  using K = VerifyKernel<kFormat>;
  GdnPass rounded = pass;
  rounded.fill.blocks = fill_blocks(pass.fill, 2);
  const LaunchShape shape{.blocks = 2 * pass.shape.value_heads + rounded.fill.blocks,
                          .threads = K::kThreads,
                          .shared_bytes = kVerifySharedBytes,
                          .cluster = 2};
  launch_kernel(name, gdn_verify_kernel<kFormat>, shape, launch, rounded, constants_of(pass.shape, pass.qkvz));
}

}  // namespace
}  // namespace gdn

void launch_gdn_verify_pass(const char* name, const GdnPass& pass, const CudaLaunch& launch) {
  switch (pass.memory.state_format) {
    case StateFormat::kFP32:
      return gdn::launch_format<StateFormat::kFP32>(name, pass, launch);
    case StateFormat::kFP16:
      return gdn::launch_format<StateFormat::kFP16>(name, pass, launch);
    case StateFormat::kBF16:
      return gdn::launch_format<StateFormat::kBF16>(name, pass, launch);
    case StateFormat::kInt8:
      return gdn::launch_format<StateFormat::kInt8>(name, pass, launch);
  }
}

}  // namespace tare::engine
