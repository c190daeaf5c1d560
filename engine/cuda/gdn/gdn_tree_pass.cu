// The instances of the GDN kernel for trees, states without block scales.
#include "engine/cuda/gdn/gdn_kernel.cuh"

namespace tare::engine {

void launch_gdn_tree_pass(const char* name, GdnForm form, int slices, const GdnPass& pass, const CudaLaunch& launch) {
  gdn::launch_form<true, false>(name, form, slices, pass, launch);
}

}  // namespace tare::engine
