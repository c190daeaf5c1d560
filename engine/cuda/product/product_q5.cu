#include "engine/cuda/product/product_stream.cuh"
#include "engine/cuda/product/q5_format.cuh"

namespace tare::engine {

void launch_q5_product(const StreamProduct& product, const CudaLaunch& launch) {
  launch_stream_product<Q5Format>(product, launch, {"product q5 n8", "product q5 n16", "product q5 n32"});
}

}  // namespace tare::engine
