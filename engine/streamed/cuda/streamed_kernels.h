// The FP32 kernels of the reference on a GPU, beside the products, which are cuBLAS's. Plain: one thread or warp a
// number or row, bounded by memory; the recurrence alone has a shape to think about. Rows are those of a batch of
// windows, row r at position r % window_tokens. Everything goes into `stream`; launch errors throw Error (environment).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tare::engine {

// out[i] = the value of the BF16 number in[i], exactly. The lowest element that is not finite goes to *fault by
// minimum.
void launch_widen(const std::uint16_t* in, float* out, std::int64_t count, unsigned long long* fault,
                  cudaStream_t stream);

// out[row] = table[tokens[row]], rows of `size`.
void launch_gather(const float* table, const std::int32_t* tokens, std::int64_t rows, std::int64_t size, float* out,
                   cudaStream_t stream);

// out <- norm(x) * gain, rows of `size`; sum and factor in double, the result rounded once.
void launch_norm(const float* x, const float* gain, float eps, std::int64_t rows, std::int64_t size, float* out,
                 cudaStream_t stream);

// y[row][c] = silu(sum over taps of convolution[c][tap] p[row - (kernel - 1 - tap)][c]), within the window.
struct ConvolutionShape {
  std::int64_t rows = 0;
  std::int64_t channels = 0;
  std::int64_t kernel = 0;
  std::int64_t window_tokens = 0;
};
void launch_convolution(const float* p, const float* weights, const ConvolutionShape& shape, float* y,
                        cudaStream_t stream);

// The first 2 * key_heads vectors of each row of y, of key_dim numbers: over their l2 norm, queries (the first half)
// also over sqrt(key_dim).
struct GdnShape {
  std::int64_t rows = 0;
  std::int64_t window_tokens = 0;
  std::int64_t key_heads = 0;
  std::int64_t value_heads = 0;
  std::int64_t key_dim = 0;
  std::int64_t value_dim = 0;

  [[nodiscard]] constexpr std::int64_t channels() const { return 2 * key_heads * key_dim + value_heads * value_dim; }
};
void launch_l2_norms(const GdnShape& shape, float* y, cudaStream_t stream);
// alpha <- exp(-exp(a_log) softplus(alpha + dt_bias)), beta <- sigmoid(beta), [rows][value_heads], in double.
void launch_gates(const GdnShape& shape, const float* a_log, const float* dt_bias, float* alpha, float* beta,
                  cudaStream_t stream);
// The recurrence of every window and value head from a state of zero (docs/method/model.md):
//   S <- alpha S + k (beta (v - alpha S^T k))^T,  o = S^T q
// from y [rows][channels] to out [rows][value_heads * value_dim]. key_dim <= kMostKeyDim.
inline constexpr std::int64_t kMostKeyDim = 128;
void launch_recurrence(const GdnShape& shape, const float* y, const float* alpha, const float* beta, float* out,
                       cudaStream_t stream);
// o <- norm(o) * gain * silu(z) per value head.
void launch_gated_norm(const GdnShape& shape, const float* gain, float eps, const float* z, float* o,
                       cudaStream_t stream);

struct AttentionShape {
  std::int64_t rows = 0;
  std::int64_t window_tokens = 0;
  std::int64_t heads = 0;
  std::int64_t key_heads = 0;
  std::int64_t dim = 0;
  std::int64_t rotary = 0;

  [[nodiscard]] constexpr std::int64_t windows() const { return rows / window_tokens; }
};
// Norm and rotation of queries and keys. projected [rows][heads][query, gate]: queries go to
// queries [window][head][position][dim]; keys [rows][key_heads][dim] stay where they are.
// cosines, sines: [window_tokens][rotary / 2].
void launch_attention_inputs(const AttentionShape& shape, const float* query_gain, const float* key_gain, float eps,
                             const float* cosines, const float* sines, const float* projected, float* queries,
                             float* keys, cudaStream_t stream);
// scores [rows][window_tokens], row r of position r % window_tokens: exp(scale (score - max)) of the positions up to
// its own, 0 after; their sum, in double, to sums[row].
void launch_exponentials(std::int64_t rows, std::int64_t window_tokens, float scale, float* scores, double* sums,
                         cudaStream_t stream);
// out [row][head][dim] = values [window][head][position][dim] / sums [window][head][position] * sigmoid(gate)
void launch_attention_output(const AttentionShape& shape, const float* values, const double* sums,
                             const float* projected, float* out, cudaStream_t stream);

// gate <- silu(gate) * up
void launch_mlp_activation(std::int64_t count, float* gate, const float* up, cudaStream_t stream);

// The lowest row with a number that is not finite goes to *row by minimum.
void launch_find_not_finite(const float* x, std::int64_t rows, std::int64_t size, unsigned long long* row,
                            cudaStream_t stream);

// Of each row of logits [rows][vocabulary], as score_position (engine/streamed/window_scores.h); next[row] is the token
// that follows or -1. K = candidates <= kMostCandidates.
inline constexpr std::int64_t kMostCandidates = 64;
struct CandidateRows {
  const float* logits = nullptr;
  std::int64_t rows = 0;
  std::int64_t vocabulary = 0;
  std::int64_t candidates = 0;
  const std::int32_t* next = nullptr;
  std::int32_t* top_ids = nullptr;         // [rows][candidates]
  float* top_log_probabilities = nullptr;  // [rows][candidates]
  float* log_sum_exp = nullptr;            // [rows]
  float* next_log_probability = nullptr;   // [rows]
};
void launch_candidates(const CandidateRows& rows, cudaStream_t stream);

}  // namespace tare::engine
