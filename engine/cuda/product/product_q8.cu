#include "engine/cuda/product/product_stream.cuh"
#include "engine/cuda/product/q8_format.cuh"

namespace tare::engine {

void launch_q8_product(const StreamProduct& product, const CudaLaunch& launch) {
  launch_stream_product<Q8Format>(product, launch, {"product q8 n8", "product q8 n16", "product q8 n32"});
}

}  // namespace tare::engine
