// The small kernels between the products: tokens in, residual and norm, MLP activation, logits and the greedy token
// out.
#pragma once

#include "engine/cuda/device/launch.h"
#include "engine/cuda/device/round_control.h"
#include "engine/cuda/product/operand.h"
#include "engine/cuda/product/product.h"
#include "engine/cuda/taps.h"

namespace tare::engine {

// What a round says at its end. best: the largest logit's key (logit_key.cuh), 0 for none; fault: 1 where a logit is
// not finite. In device memory while a round runs.
struct RoundKeys {
  unsigned long long best[kMostRoundTokens];
  std::int32_t fault[kMostRoundTokens];
  unsigned long long spun_ns;  // by launch_spin
};
// The same as the host reads it.
struct RoundOutcome {
  std::int32_t best[kMostRoundTokens];
  std::int32_t fault[kMostRoundTokens];
  std::int64_t spun_ns;
};

// Starts a round: copies `host` (mapped host memory) to `control`, empties the keys, and writes the embedding's rows of
// the first `tokens` tokens to x [tokens][hidden] FP32. Two kernels, the first of them never programmatic; what comes
// after may read the control before it waits.
void launch_begin_round(const RoundControl* host, RoundControl* control, RoundKeys* keys,
                        const std::uint16_t* embedding, int hidden, int tokens, float* x, const CudaLaunch& launch);
// The same rows for tokens in device memory.
void launch_embed(const std::int32_t* tokens, int count, const std::uint16_t* embedding, int hidden, float* x,
                  const CudaLaunch& launch);

// x += increment (unless its data is null); h = x (mean(x^2) + eps)^-1/2 gain, written to `out` (all tokens of its
// width, zeros past `tokens`) and, if not null, to `normed` [tokens][hidden] FP32. A token's bits depend on nothing
// else. gain: [hidden] FP32. hidden must be even.
struct NormArguments {
  ProductResult increment;
  int tokens = 0;
  int hidden = 0;
  float eps = 0;
  float* x = nullptr;  // [tokens][hidden]
  const float* gain = nullptr;
  Operand out;
  float* normed = nullptr;
  TapRows tap;  // x as it then is, too; only with an increment
};
void launch_residual_norm(const NormArguments& arguments, const CudaLaunch& launch);

// out = silu(gate) up; gate_up: `size` rows of each in turn (product/gate_up_rows.h). size must be even.
void launch_mlp_activation(const ProductResult& gate_up, int tokens, int size, const Operand& out,
                           const CudaLaunch& launch);

// logits [tokens][vocab] FP32 from the head's product, and the keys of the largest: ties go to the lowest id. Not for
// graphs' first kernel: the keys must have been emptied.
void launch_logits(const ProductResult& head, int tokens, float* logits, RoundKeys* keys, const CudaLaunch& launch);

// Ends a round: writes the outcome to mapped host memory.
void launch_end_round(const RoundKeys* keys, int tokens, RoundOutcome* host, const CudaLaunch& launch);
// Empties the keys (what launch_begin_round does for rounds).
void launch_empty_keys(RoundKeys* keys, const CudaLaunch& launch);

// An instrument: one thread spins until the GPU's global timer has moved by `ns` nanoseconds, and writes by how much it
// did to keys->spun_ns.
void launch_spin(std::int64_t ns, RoundKeys* keys, const CudaLaunch& launch);

}  // namespace tare::engine
