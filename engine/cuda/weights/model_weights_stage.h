// Brings the rows of a stacked matrix to the device, a run of row blocks at a time.
//
// Tensors of a checkpoint go through a pinned buffer, as BF16 when all parts are BF16, else widened to FP32 on the
// host; those of a synthetic checkpoint are made where they are wanted; codes of a quantised one go as they are. The
// copy into one half of the pinned buffer runs while the other half is on its way.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/stored_codes.h"
#include "engine/checkpoint/synthetic.h"
#include "engine/cuda/device/device_buffer.h"
#include "engine/cuda/weights/encode_tiles.h"
#include "engine/cuda/weights/model_weights_plan.h"

namespace tare::engine {

class WeightStage {
 public:
  // `bytes` of device memory; at least a row block of the widest matrix in FP32. Throws Error (environment).
  WeightStage(const TensorSource& source, std::uint64_t bytes);
  WeightStage(const WeightStage&) = delete;
  WeightStage& operator=(const WeightStage&) = delete;
  ~WeightStage();

  // Puts kernels that read the rows into launch.stream; what they report as faulty goes to `fault`.
  using Use = std::function<void(const StagedRows& rows, std::uint64_t* fault, const CudaLaunch& launch)>;
  // Calls `use` for the rows in order; returns when the device is done. Throws Error (input) naming the tensor:
  // missing, misshapen, of a type that is no weight; naming its element too: not finite, too large for a group's scale.
  void stage(const StackedMatrix& matrix, const Use& use);
  // The scale of each part's tensor, of all its rows even where only some are chosen: weight_codes.h, step 1. For a
  // codec with such scales; the rows pass through the device once for it. Errors as stage's.
  [[nodiscard]] std::vector<float> tensor_scales(const StackedMatrix& matrix);

  // Whether the source stores the matrix as codes of its codec. Throws Error (internal) when it stores some parts so.
  [[nodiscard]] bool has_codes(const StackedMatrix& matrix) const;
  [[nodiscard]] std::vector<float> stored_scales(const StackedMatrix& matrix) const;  // the tensors', of each part
  // Calls `use` for the rows in order, as they are stored; returns when the device is done.
  using UseCodes = std::function<void(const StagedCodes& rows, const CudaLaunch& launch)>;
  void stage_codes(const StackedMatrix& matrix, const UseCodes& use);

 private:
  // Where the rows of one part come from.
  struct Source {
    Tensor tensor;           // empty when synthetic
    SyntheticRecipe recipe;  // only then of use
  };
  struct Release {
    void operator()(cudaStream_t stream) const { (void)cudaStreamDestroy(stream); }
    void operator()(cudaEvent_t event) const { (void)cudaEventDestroy(event); }
    void operator()(std::byte* pinned) const { (void)cudaFreeHost(pinned); }
  };
  // One half of the pinned memory, and when its last copy has left it.
  struct Half {
    std::unique_ptr<std::byte, Release> data;
    std::unique_ptr<CUevent_st, Release> free;
  };

  const TensorSource& source_;
  const SyntheticRecipes* synthetic_;  // null: not synthetic
  std::unique_ptr<CUstream_st, Release> stream_;
  DeviceBuffer rows_;
  DeviceBuffer fault_;
  std::array<Half, 2> halves_;
  std::size_t next_half_ = 0;

  [[nodiscard]] CudaLaunch launch() const;
  [[nodiscard]] std::vector<Source> open(const StackedMatrix& matrix) const;
  void fill(const Source& source, std::int64_t begin, std::int64_t count, std::int64_t columns, bool wide,
            std::byte* target);
  void copy(std::span<const std::byte> bytes, std::byte* target);
  [[nodiscard]] std::vector<std::shared_ptr<const StoredCodes>> codes(const StackedMatrix& matrix) const;
  [[noreturn]] void explain(const StackedMatrix& matrix, std::uint64_t fault) const;
};

}  // namespace tare::engine
