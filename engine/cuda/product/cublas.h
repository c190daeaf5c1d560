// cuBLAS, opened at run time: the one function we take from it. So the program runs without it until it prefills on a
// GPU, or computes a reference there, and links to nothing.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace tare::engine {

// c[j][i] = (add ? c[j][i] : 0) + sum over l of a[i][l] b[j][l], for i < rows, j < tokens, l < columns; with
// a_by_column a lies as [columns][rows]. Strides: numbers from one row of each array to the next.
struct Fp32Product {
  int rows = 0;
  int tokens = 0;
  int columns = 0;
  const float* a = nullptr;
  int a_stride = 0;
  bool a_by_column = false;
  const float* b = nullptr;
  int b_stride = 0;
  float* c = nullptr;
  int c_stride = 0;
  bool add = false;
};

class Cublas {
 public:
  // Opens the library and a handle on the current device. Throws Error (environment) naming what was tried.
  Cublas();
  ~Cublas();
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  // c[j][i] = sum over l of a[i][l] b[j][l], for i < rows, j < tokens, l < columns: BF16 numbers with exact products
  // and FP32 sums. a_stride, b_stride, c_stride: numbers from one row of each to the next. `workspace`: 256-byte
  // aligned device memory that cuBLAS may use until the product ends.
  void multiply_bf16(int rows, int tokens, int columns, const std::uint16_t* a, int a_stride, const std::uint16_t* b,
                     int b_stride, float* c, int c_stride, std::byte* workspace, std::size_t workspace_bytes,
                     cudaStream_t stream) const;

  // In FP32 throughout: products and sums rounded as FP32, never TF32 or emulation, whatever the environment asks for.
  void multiply_fp32(const Fp32Product& product, std::byte* workspace, std::size_t workspace_bytes,
                     cudaStream_t stream) const;

 private:
  struct Functions;
  std::unique_ptr<Functions> functions_;
  void* library_ = nullptr;
  void* handle_ = nullptr;
};

}  // namespace tare::engine
