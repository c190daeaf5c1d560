// The instances of the GDN kernel for INT8 states, of chains and of trees.
#include "engine/cuda/gdn/gdn_kernel.cuh"

namespace tare::engine {

void launch_gdn_int8_pass(const char* name, GdnForm form, int slices, const GdnPass& pass, const CudaLaunch& launch) {
  if (pass.tree) return gdn::launch_form<true, true>(name, form, slices, pass, launch);
  gdn::launch_form<false, true>(name, form, slices, pass, launch);
}

}  // namespace tare::engine
