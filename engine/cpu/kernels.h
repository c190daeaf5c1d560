// The kernels of the CPU backend: one table of functions an instruction set, chosen when a backend is made.
//
// Rules that hold for all of them, because results must have the same bits for every number of tokens, every thread
// count and every prefill chunk: an output's reduction order depends on the shape of its own operands only; nothing is
// accumulated across calls unless said. Within one instruction set the bits are fixed; between instruction sets they
// differ by rounding. Lengths are in elements; a *padded* row is readable, and zero where said, up to the next multiple
// of 64 elements (kRowPadding).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/cpu/kv_layout.h"
#include "engine/cpu/packed_matrix.h"

namespace tare::engine {

constexpr std::int64_t kRowPadding = 64;

// T rows of activations as the matrix kernels read them: FP32 rows, zero in the padding, and, when `codes` is not null,
// the same rows as q8 blocks (formats/activation_blocks.h).
struct ActivationRows {
  std::int64_t tokens = 0;
  std::int64_t stride = 0;  // of values and codes; a multiple of kRowPadding
  const float* values = nullptr;
  const std::int8_t* codes = nullptr;  // [tokens, stride]
  const float* scales = nullptr;       // [tokens, stride / 64]
  const std::int32_t* sums = nullptr;  // [tokens, stride / 64]: sum of the block's codes
};

// Products of packed rows with activations, for panels [panel_begin, panel_end) of the matrix and all tokens:
//   out[t * out_stride + row] = sum over k of weight[row, k] * activation[t, k],   row in panel * 32 .. + 31
// The rows that only fill up the last panel get 0 (so out must have room for whole panels). Each group of 64 along K
// (NVFP4: block of 16) is summed by itself, in four sums by k mod 4, added as (0 + 1) + (2 + 3); groups are added in
// order, times their scales; a scale of the tensor multiplies the end. With q8 activations and weights whose codes are
// integers a group's sum is exact: acc = fma(float(sum), weight_scale * activation_scale, acc). bf16, fp8 and NVFP4
// weights read the FP32 rows always.
using MultiplyPanels = void (*)(const PackedMatrix& matrix, std::int64_t panel_begin, std::int64_t panel_end,
                                const ActivationRows& activations, float* out, std::int64_t out_stride);

struct VectorKernels {
  // out[i] = x[i] * (mean(x^2) + eps)^-1/2 * gain[i]. x and gain are zero in the padding, out becomes so.
  void (*rms_norm)(const float* x, const float* gain, std::int64_t size, float eps, float* out);
  // The same with the result multiplied by silu(gate[i]), for the gated norm of GDN heads.
  void (*gated_rms_norm)(const float* x, const float* gain, const float* gate, std::int64_t size, float eps,
                         float* out);
  // out[i] = silu(gate[i]) * up[i]
  void (*silu_product)(const float* gate, const float* up, std::int64_t size, float* out);
  // x[i] += y[i]
  void (*add)(float* x, const float* y, std::int64_t size);
  // x[i] *= factor
  void (*scale)(float* x, float factor, std::int64_t size);
  // x[i] *= sigmoid(gate[i])
  void (*apply_sigmoid_gate)(float* x, const float* gate, std::int64_t size);
  // sum of x[i] * y[i]; both zero in the padding
  float (*dot)(const float* x, const float* y, std::int64_t size);
  // q8 blocks of a padded row of `size` elements (a multiple of 64); see formats/activation_blocks.h
  void (*quantize_row)(const float* x, std::int64_t size, std::int8_t* codes, float* scales, std::int32_t* sums);
  // BF16 storage to FP32 and back (nearest even); size a multiple of 64
  void (*widen_bf16)(const std::uint16_t* x, std::int64_t size, float* out);
  void (*narrow_to_bf16)(const float* x, std::int64_t size, std::uint16_t* out);
  // out[i] = x[i] rounded to BF16
  void (*round_to_bf16)(const float* x, std::int64_t size, float* out);
  // Whether all of x is finite.
  bool (*all_finite)(const float* x, std::int64_t size);
};

// Attention of 1 to kMostQueries query heads that share one key-value head, at one position over its cache: the cache
// is read once for all of them, and each gets the bits it would get alone. How keys and values lie, and in which
// formats: kv_layout.h; what is read of them has the bits of an FP32 cache of the decoded numbers. Positions 0..count-1
// take part. A score does not depend on where in a block its key lies, so keys may lie in several places; of values,
// `tail` names the rows that come after position count - 1: their sum has the bits of rows that lie there.
constexpr std::int64_t kMostQueries = 4;

struct ValueTail {
  CacheRows values;                    // in the format of the others
  const std::int32_t* rows = nullptr;  // [count]: which of them, in order
  std::int64_t count = 0;
};

struct AttentionKernels {
  // scores[i][j] = scale * (queries[i] . key_j), written for j in 0..round_up(count, 16); the surplus is not
  // meaningful.
  void (*scores)(const float* const* queries, std::int64_t query_count, const CacheRows& keys, std::int64_t head_dim,
                 std::int64_t count, float scale, float* const* scores);
  // scores[j] = exp(scores[j] - max); returns their sum.
  float (*exponentiate)(float* scores, std::int64_t count);
  // out[i][d] = factors[i] * sum over j < count + tail.count of weights[i][j] * value_j[d]
  void (*weighted_values)(const float* const* weights, std::int64_t query_count, const CacheRows& values,
                          std::int64_t head_dim, std::int64_t count, const ValueTail& tail, const float* factors,
                          float* const* out);
};

// Gated DeltaNet, one value head. The state is [dk][stride], stride = dv rounded up to 16, zero in the padding; rows
// k̂, q̂ have dk elements, u, v and outputs `stride`.
struct GdnKernels {
  // out[c] = silu(sum over j of weights[j * weight_stride + c] * rows[j][c]), c in 0..count; count <= padded room of
  // out. Reads up to 15 elements past count in every row; zeroes out[count..round_up(count, 16)).
  void (*convolve_silu)(const float* const* rows, const float* weights, std::int64_t taps, std::int64_t weight_stride,
                        std::int64_t count, float* out);
  // key_product[c] = sum over i of key[i] state[i][c], query_product likewise: one pass over the state.
  void (*read_state)(const float* state, std::int64_t dk, std::int64_t stride, const float* key, const float* query,
                     float* key_product, float* query_product);
  // out = decay * in + fold_key fold_value^T, and the two products of read_state with `out`. in == out is allowed.
  void (*fold_and_read_state)(const float* in, float* out, std::int64_t dk, std::int64_t stride, float decay,
                              const float* fold_key, const float* fold_value, const float* key, const float* query,
                              float* key_product, float* query_product);
  // out = decay * in + fold_key fold_value^T, the same bits as above.
  void (*fold_state)(const float* in, float* out, std::int64_t dk, std::int64_t stride, float decay,
                     const float* fold_key, const float* fold_value);
  // u = beta * (v - decay * key_product);   o = decay * query_product + key_query * u
  void (*recurrent_output)(const float* value, const float* key_product, const float* query_product,
                           std::int64_t stride, float beta, float decay, float key_query, float* u, float* o);
  // dots[j] = sum over i of keys[i * 64 + j] * x[i] for j in 0..round_up(count, 16), in order of i
  void (*block_dots)(const float* keys, std::int64_t dk, const float* x, std::int64_t count, float* dots);
  // weights[j] = exp(c_last - c_j) for j in 0..round_up(count, 16), where c_j = high[j] + low[j] are sums of logarithms
  // kept in two parts: a difference of neighbours would lose its digits to a sum of hundreds
  void (*decay_weights)(const float* high, const float* low, std::int64_t last, std::int64_t count, float* weights);
  // out[c] += sum over j < count of weights[j] * rows[j * stride + c], in order of j
  void (*add_weighted_rows)(const float* rows, const float* weights, std::int64_t count, std::int64_t stride,
                            float* out);
  // out = decay * in + sum over j < count of keys[. * 64 + j] * weights[j] * rows[j]^T, in order of j
  void (*fold_block)(const float* in, float* out, std::int64_t dk, std::int64_t stride, float decay, const float* keys,
                     const float* weights, const float* rows, std::int64_t count);
};

struct Kernels {
  std::string instruction_set;
  MultiplyPanels multiply_panels = nullptr;
  VectorKernels vectors{};
  AttentionKernels attention{};
  GdnKernels gdn{};
};

// Names of the instruction sets that this program has kernels for and this machine can run, best first.
[[nodiscard]] std::vector<std::string> available_instruction_sets();
// `name` is one of them, or "auto" for the best. Throws Error (input) for others, listing them.
[[nodiscard]] Kernels select_kernels(const std::string& name);

}  // namespace tare::engine
