#include "engine/cuda/product/e4m3_scales.cuh"
#include "engine/cuda/product/product_stream.cuh"
#include "engine/cuda/product/q4_format.cuh"

namespace tare::engine {

void launch_q4_e4m3_product(const StreamProduct& product, const CudaLaunch& launch) {
  launch_stream_product<WithE4M3Scales<Q4Format>>(product, launch,
                                                  {"product q4-e4m3 n8", "product q4-e4m3 n16", "product q4-e4m3 n32"});
}

}  // namespace tare::engine
