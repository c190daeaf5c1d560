#include "engine/cuda/product/e4m3_scales.cuh"
#include "engine/cuda/product/product_stream.cuh"
#include "engine/cuda/product/q3_format.cuh"

namespace tare::engine {

void launch_q3_e4m3_product(const StreamProduct& product, const CudaLaunch& launch) {
  launch_stream_product<WithE4M3Scales<Q3Format>>(product, launch,
                                                  {"product q3-e4m3 n8", "product q3-e4m3 n16", "product q3-e4m3 n32"});
}

}  // namespace tare::engine
