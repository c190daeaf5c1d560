#include "engine/cuda/product/product_stream.cuh"
#include "engine/cuda/product/q3_format.cuh"

namespace tare::engine {

void launch_q3_product(const StreamProduct& product, const CudaLaunch& launch) {
  launch_stream_product<Q3Format>(product, launch, {"product q3 n8", "product q3 n16", "product q3 n32"});
}

}  // namespace tare::engine
