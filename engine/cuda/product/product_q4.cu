#include "engine/cuda/product/product_stream.cuh"
#include "engine/cuda/product/q4_format.cuh"

namespace tare::engine {

void launch_q4_product(const StreamProduct& product, const CudaLaunch& launch) {
  launch_stream_product<Q4Format>(product, launch, {"product q4 n8", "product q4 n16", "product q4 n32"});
}

}  // namespace tare::engine
