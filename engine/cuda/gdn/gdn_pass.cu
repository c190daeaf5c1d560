// Which GDN kernel a pass is, and the instances for chains (gdn_tree_pass.cu has those for trees, gdn_int8_pass.cu
// those of INT8 states).
#include "base/error.h"
#include "engine/cuda/gdn/gdn_kernel.cuh"

namespace tare::engine {
namespace gdn {
namespace {

constexpr int kStoreThreads = 256;

// Rows -> panels, where heads share groups of 64 columns. A warp has a group of a token.
__global__ void __launch_bounds__(kStoreThreads)
    gdn_store_kernel(const float* mixed, int tokens, const __grid_constant__ Operand out) {
  ptx::launch_dependents();
  ptx::wait_for_preceding_grid();
  const auto lane = static_cast<int>(threadIdx.x % kLanes);
  const auto item = static_cast<int>(blockIdx.x * (kStoreThreads / kLanes) + threadIdx.x / kLanes);
  const int group = item / out.width;
  const int token = item % out.width;
  if (group >= operand_blocks(out.columns)) return;
  const std::int64_t column = static_cast<std::int64_t>(group) * kOperandGroup + 2 * lane;
  const float* row = mixed + token * out.columns;
  float2 pair{0.0F, 0.0F};
  if (token < tokens && column < out.columns) pair.x = row[column];
  if (token < tokens && column + 1 < out.columns) pair.y = row[column + 1];
  store_group(out, group, token, pair);
}

}  // namespace
}  // namespace gdn

int gdn_slices_of_device() {
  int device = 0;
  int clusters = 0;
  int shared_bytes = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  check_cuda(cudaDeviceGetAttribute(&clusters, cudaDevAttrClusterLaunch, device), "cudaDeviceGetAttribute");
  check_cuda(cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
             "cudaDeviceGetAttribute");
  return clusters != 0 && shared_bytes >= gdn::kTwoSliceSharedBytes ? 2 : 1;
}

void launch_gdn_pass(const char* name, GdnForm form, int slices, const GdnPass& pass, const CudaLaunch& launch) {
  if (pass.tokens < 1) throw internal_error("a GDN pass of no tokens");
  if (!pass.absorb && pass.tokens > kMostRoundTokens) throw internal_error("a GDN round of too many tokens");
  if (pass.tree && (pass.absorb || pass.tokens > kMostTreeNodes))
    throw internal_error("a GDN pass over a tree of too many nodes");
  if (form == GdnForm::kChunked && slices == 2 && !pass.absorb && pass.tokens <= kMostTreeNodes) {
    launch_gdn_verify_pass(name, pass, launch);
  } else if (pass.memory.state_format == StateFormat::kInt8) {
    launch_gdn_int8_pass(name, form, slices, pass, launch);
  } else if (pass.tree) {
    launch_gdn_tree_pass(name, form, slices, pass, launch);
  } else {
    gdn::launch_form<false, false>(name, form, slices, pass, launch);
  }
  const Operand& out = pass.out;
  const bool panels = out.layout == OperandLayout::kFP16Panels || out.layout == OperandLayout::kBF16Panels;
  if (!panels || pass.shape.dv == kGdnHead) return;
  constexpr int kWarps = gdn::kStoreThreads / gdn::kLanes;
  const int items = static_cast<int>(operand_blocks(out.columns)) * out.width;
  CudaLaunch store = launch;
  store.bytes = 0;  // counted with the pass
  launch_kernel("gdn_store", gdn::gdn_store_kernel,
                LaunchShape{.blocks = (items + kWarps - 1) / kWarps, .threads = gdn::kStoreThreads}, store,
                static_cast<const float*>(pass.memory.mixed), pass.tokens, out);
}

void launch_gdn_round(GdnForm form, const CudaGdnWeights& weights, const CudaGdnCache& cache, const ProductResult& qkvz,
                      const ProductResult& gates, int tokens, bool tree, const RoundControl* control,
                      const Operand& out, const L2Fill& fill, const CudaLaunch& launch) {
  GdnPass pass{.shape = cache.shape, .weights = weights, .memory = gdn_memory(cache), .qkvz = qkvz, .gates = gates};
  pass.tokens = tokens;
  pass.control = control;
  pass.out = out;
  pass.fill = fill;
  pass.tree = tree || cache.keeps_snapshots;
  const bool few = tokens <= gdn::kFewTokens;
  launch_gdn_pass("gdn_round", few ? GdnForm::kRecurrent : form, gdn_slices_of_device(), pass, launch);
}

void launch_gdn_prefill(GdnForm form, const CudaGdnWeights& weights, const CudaGdnCache& cache,
                        const ProductResult& qkvz, const ProductResult& gates, int tokens, const RoundControl* control,
                        const Operand& out, const CudaLaunch& launch) {
  GdnPass pass{.shape = cache.shape, .weights = weights, .memory = gdn_memory(cache), .qkvz = qkvz, .gates = gates};
  pass.tokens = tokens;
  pass.control = control;
  pass.out = out;
  pass.absorb = true;
  if (out.layout != OperandLayout::kFP32Rows && out.layout != OperandLayout::kBF16Rows) {
    throw internal_error("a GDN prefill writes rows");
  }
  launch_gdn_pass("gdn_prefill", form, gdn_slices_of_device(), pass, launch);
}

}  // namespace tare::engine
