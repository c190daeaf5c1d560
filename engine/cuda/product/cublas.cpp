#include "engine/cuda/product/cublas.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <library_types.h>

#include "base/error.h"

namespace tare::engine {
namespace {

// As in cublas_api.h of CUDA 11 to 13, written down here so that the build does not need it.
constexpr int kSuccess = 0;            // CUBLAS_STATUS_SUCCESS
constexpr int kNotTransposed = 0;      // CUBLAS_OP_N
constexpr int kTransposed = 1;         // CUBLAS_OP_T
constexpr int kComputeFP32 = 68;       // CUBLAS_COMPUTE_32F
constexpr int kPedanticFP32 = 69;      // CUBLAS_COMPUTE_32F_PEDANTIC
constexpr int kDefaultAlgorithm = -1;  // CUBLAS_GEMM_DEFAULT

using Create = int (*)(void**);
using Destroy = int (*)(void*);
using SetStream = int (*)(void*, cudaStream_t);
using SetWorkspace = int (*)(void*, void*, std::size_t);
using StatusName = const char* (*)(int);
using GemmEx = int (*)(void* handle, int a_form, int b_form, int m, int n, int k, const void* alpha, const void* a,
                       cudaDataType a_type, int a_stride, const void* b, cudaDataType b_type, int b_stride,
                       const void* beta, void* c, cudaDataType c_type, int c_stride, int compute, int algorithm);

constexpr const char* kNames[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so"};

}  // namespace

struct Cublas::Functions {
  Create create = nullptr;
  Destroy destroy = nullptr;
  SetStream set_stream = nullptr;
  SetWorkspace set_workspace = nullptr;
  StatusName status_name = nullptr;
  GemmEx gemm = nullptr;

  void check(int status, const char* call) const {
    if (status == kSuccess) return;
    throw Error(ErrorKind::kEnvironment, fmt::format("cuBLAS says {} ({})", status_name(status), status), call);
  }
};

Cublas::Cublas() : functions_(std::make_unique<Functions>()) {
  std::string reason;
  for (const char* name : kNames) {
    library_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library_ != nullptr) break;
    if (reason.empty()) reason = dlerror();
  }
  if (library_ == nullptr) {
    throw Error(ErrorKind::kEnvironment,
                fmt::format("cuBLAS cannot be opened, tried {}, {}, {}: {}", kNames[0], kNames[1], kNames[2], reason),
                "prefill",
                "install the CUDA toolkit's libcublas (it need not be on the build machine), or put its folder into "
                "LD_LIBRARY_PATH");
  }
  const auto find = [this](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library_, name));
    if (function == nullptr) {
      throw Error(ErrorKind::kEnvironment, fmt::format("libcublas has no function {}", name), "prefill",
                  "use the libcublas of CUDA 12 or 13");
    }
  };
  try {
    find(functions_->create, "cublasCreate_v2");
    find(functions_->destroy, "cublasDestroy_v2");
    find(functions_->set_stream, "cublasSetStream_v2");
    find(functions_->set_workspace, "cublasSetWorkspace_v2");
    find(functions_->status_name, "cublasGetStatusName");
    find(functions_->gemm, "cublasGemmEx");
    functions_->check(functions_->create(&handle_), "cublasCreate");
  } catch (...) {
    (void)dlclose(library_);
    throw;
  }
}

// The library stays open: unloading it while its context lives is not safe, and opening it again costs nothing.
Cublas::~Cublas() {
  (void)functions_->destroy(handle_);
}

void Cublas::multiply_bf16(int rows, int tokens, int columns, const std::uint16_t* a, int a_stride,
                           const std::uint16_t* b, int b_stride, float* c, int c_stride, std::byte* workspace,
                           std::size_t workspace_bytes, cudaStream_t stream) const {
  // cuBLAS counts in columns: our row-major c [tokens][rows] is its c (rows x tokens), a its (columns x rows),
  // transposed.
  const float one = 1;
  const float zero = 0;
  functions_->check(functions_->set_stream(handle_, stream), "cublasSetStream");
  functions_->check(functions_->set_workspace(handle_, workspace, workspace_bytes), "cublasSetWorkspace");
  functions_->check(
      functions_->gemm(handle_, kTransposed, kNotTransposed, rows, tokens, columns, &one, a, CUDA_R_16BF, a_stride, b,
                       CUDA_R_16BF, b_stride, &zero, c, CUDA_R_32F, c_stride, kComputeFP32, kDefaultAlgorithm),
      "cublasGemmEx");
}

void Cublas::multiply_fp32(const Fp32Product& product, std::byte* workspace, std::size_t workspace_bytes,
                           cudaStream_t stream) const {
  const float one = 1;
  const float old_share = product.add ? 1 : 0;
  functions_->check(functions_->set_stream(handle_, stream), "cublasSetStream");
  functions_->check(functions_->set_workspace(handle_, workspace, workspace_bytes), "cublasSetWorkspace");
  functions_->check(functions_->gemm(handle_, product.a_by_column ? kNotTransposed : kTransposed, kNotTransposed,
                                     product.rows, product.tokens, product.columns, &one, product.a, CUDA_R_32F,
                                     product.a_stride, product.b, CUDA_R_32F, product.b_stride, &old_share, product.c,
                                     CUDA_R_32F, product.c_stride, kPedanticFP32, kDefaultAlgorithm),
                    "cublasGemmEx");
}

}  // namespace tare::engine
