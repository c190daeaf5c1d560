// One launch of the GDN kernel: what gdn.h's functions fill in, and tests in order to choose the number of slices.
#pragma once

#include "engine/cuda/gdn/gdn.h"
#include "engine/cuda/gdn/gdn_layout.h"

namespace tare::engine {

struct GdnPass {
  CudaGdnShape shape;
  CudaGdnWeights weights;
  GdnMemory memory;
  ProductResult qkvz;
  ProductResult gates;
  int tokens = 0;
  const RoundControl* control = nullptr;
  Operand out;
  L2Fill fill;
  bool absorb = false;  // tokens become part of the past at once; otherwise they leave records
  bool tree = false;    // the tokens are the nodes of a tree, at most kMostTreeNodes; not when absorbing
};

// Thread blocks a value head: 2 where thread blocks can form clusters, 1 elsewhere.
[[nodiscard]] int gdn_slices_of_device();
void launch_gdn_pass(const char* name, GdnForm form, int slices, const GdnPass& pass, const CudaLaunch& launch);
// What launch_gdn_pass does in the chunk form with up to kMostTreeNodes tokens of a verify in two slices; otherwise
// with a tree, and with an INT8 state.
void launch_gdn_verify_pass(const char* name, const GdnPass& pass, const CudaLaunch& launch);
void launch_gdn_tree_pass(const char* name, GdnForm form, int slices, const GdnPass& pass, const CudaLaunch& launch);
void launch_gdn_int8_pass(const char* name, GdnForm form, int slices, const GdnPass& pass, const CudaLaunch& launch);

}  // namespace tare::engine
