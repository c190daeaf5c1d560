// The kernels that only an MTP head has; mtp_drafter.cpp puts them together with those of a round and of a draft.
#pragma once

#include "engine/cuda/device/launch.h"
#include "engine/cuda/device/round_control.h"
#include "engine/cuda/drafter/drafter_control.h"
#include "engine/cuda/product/operand.h"

namespace tare::engine {

constexpr std::int64_t kMostJoinedColumns = 16384;  // of [embedding; hidden]

// Of one step, among those of others: kernels read pairs of its numbers.
struct alignas(256) StepControl {
  RoundControl round;
};

// out = [norm(embedding of the row's token); norm(hidden state of the row)], 2 hidden columns, and x = 0 [row][hidden]
// FP32 for the product that follows. A norm is v (mean(v^2) + eps)^-1/2 gain.
struct JoinRowsArguments {
  const std::uint16_t* embedding = nullptr;  // BF16 [vocab][hidden]
  int hidden = 0;                            // even, at most kMostJoinedColumns / 2
  float eps = 0;
  const float* embedding_gain = nullptr;  // [hidden]
  const float* hidden_gain = nullptr;
  const float* states = nullptr;  // [.][hidden] FP32
  int rows = 0;                   // rows of `out` and x that are written; rows past the real ones become zeros
  Operand out;
  float* x = nullptr;

  // The first step: row r < control->features has token control->tokens[r] and state control->rows[r]. Others: row r <
  // rows has token tokens[r] and state r, or, with of_last_feature, the one row has state control->features - 1.
  const DraftControl* control = nullptr;
  const std::int32_t* tokens = nullptr;  // device memory; null in the first step
  bool of_last_feature = false;
};
// With tokens == nullptr the successor of launch_take_mtp_control: lets nobody start before it has waited.
void launch_join_rows(const JoinRowsArguments& arguments, const CudaLaunch& launch);

// As launch_take_control, and sets the frontiers of controls[0 .. steps - 1] to the position of each step's first row:
// of step 0 the first waiting row's, of step n the n-th past the anchor's row.
void launch_take_mtp_control(const DraftControl* host, DraftControl* control, StepControl* controls, int steps,
                             const CudaLaunch& launch);

}  // namespace tare::engine
