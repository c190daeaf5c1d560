#include <cuda_bf16.h>

#include "engine/cuda/device/launch.cuh"
#include "engine/streamed/cuda/streamed_kernels.h"

namespace tare::engine {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr double kL2NormEps = 1e-6;       // added to the sum of squares, inside the root
constexpr double kSoftplusLinear = 20.0;  // softplus(x) = x above, to 2e-9

__device__ __forceinline__ double warp_sum(double value) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) value += __shfl_xor_sync(0xFFFFFFFFU, value, step);
  return value;
}

__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFFU, value, step));
  return value;
}

// Of all threads of a block; `shared` has a place for each warp.
__device__ __forceinline__ double block_sum(double value, double* shared) {
  value = warp_sum(value);
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = value;
  __syncthreads();
  double sum = 0;
  for (int warp = 0; warp < kThreads / kWarp; ++warp) sum += shared[warp];
  __syncthreads();
  return sum;
}

__device__ __forceinline__ float block_max(float value, float* shared) {
  value = warp_max(value);
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = value;
  __syncthreads();
  float largest = shared[0];
  for (int warp = 1; warp < kThreads / kWarp; ++warp) largest = fmaxf(largest, shared[warp]);
  __syncthreads();
  return largest;
}

__device__ __forceinline__ float sigmoid(float x) {
  return 1.0F / (1.0F + expf(-x));
}
__device__ __forceinline__ float silu(float x) {
  return x * sigmoid(x);
}
// Rounded once.
__device__ __forceinline__ float product(float x, double factor, float gain) {
  return static_cast<float>(static_cast<double>(x) * factor * static_cast<double>(gain));
}
__device__ __forceinline__ double square(float x) {
  return static_cast<double>(x) * static_cast<double>(x);
}

__device__ __forceinline__ std::int64_t thread_index() {
  return static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
}

// Of a vector that one warp holds.
__device__ __forceinline__ double warp_rms_factor(const float* x, std::int64_t size, float eps) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x % kWarp; i < size; i += kWarp) sum += square(x[i]);
  return 1.0 / sqrt(warp_sum(sum) / static_cast<double>(size) + static_cast<double>(eps));
}

__global__ void __launch_bounds__(kThreads)
    widen_kernel(const std::uint16_t* in, float* out, std::int64_t count, unsigned long long* fault) {
  const std::int64_t i = thread_index();
  if (i >= count) return;
  const float value = __uint_as_float(static_cast<unsigned>(in[i]) << 16);
  out[i] = value;
  if (!isfinite(value)) atomicMin(fault, static_cast<unsigned long long>(i));
}

__global__ void __launch_bounds__(kThreads)
    gather_kernel(const float* table, const std::int32_t* tokens, std::int64_t count, std::int64_t size, float* out) {
  const std::int64_t i = thread_index();
  if (i < count) out[i] = table[tokens[i / size] * size + i % size];
}

__global__ void __launch_bounds__(kThreads)
    norm_kernel(const float* x, const float* gain, float eps, std::int64_t size, float* out) {
  __shared__ double shared[kThreads / kWarp];
  const float* source = x + blockIdx.x * size;
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < size; i += kThreads) sum += square(source[i]);
  const double factor = 1.0 / sqrt(block_sum(sum, shared) / static_cast<double>(size) + static_cast<double>(eps));
  for (std::int64_t i = threadIdx.x; i < size; i += kThreads)
    out[blockIdx.x * size + i] = product(source[i], factor, gain[i]);
}

__global__ void __launch_bounds__(kThreads)
    convolution_kernel(const float* p, const float* weights, ConvolutionShape shape, float* y) {
  const std::int64_t i = thread_index();
  if (i >= shape.rows * shape.channels) return;
  const std::int64_t row = i / shape.channels;
  const std::int64_t channel = i % shape.channels;
  const std::int64_t position = row % shape.window_tokens;
  float sum = 0;
  for (std::int64_t tap = 0; tap < shape.kernel; ++tap) {
    const std::int64_t back = shape.kernel - 1 - tap;
    if (back > position) continue;
    sum = fmaf(weights[channel * shape.kernel + tap], p[i - back * shape.channels], sum);
  }
  y[i] = silu(sum);
}

// A warp a vector.
__global__ void __launch_bounds__(kThreads) l2_norm_kernel(GdnShape shape, float* y) {
  const std::int64_t warp = thread_index() / kWarp;
  const std::int64_t vectors = 2 * shape.key_heads;
  if (warp >= shape.rows * vectors) return;
  const std::int64_t head = warp % vectors;
  float* vector = y + warp / vectors * shape.channels() + head * shape.key_dim;
  double sum = 0;
  for (std::int64_t i = threadIdx.x % kWarp; i < shape.key_dim; i += kWarp) sum += square(vector[i]);
  const double scale = head < shape.key_heads ? 1.0 / sqrt(static_cast<double>(shape.key_dim)) : 1.0;
  const double factor = scale / sqrt(warp_sum(sum) + kL2NormEps);
  for (std::int64_t i = threadIdx.x % kWarp; i < shape.key_dim; i += kWarp)
    vector[i] = product(vector[i], factor, 1.0F);
}

__global__ void __launch_bounds__(kThreads)
    gates_kernel(GdnShape shape, const float* a_log, const float* dt_bias, float* alpha, float* beta) {
  const std::int64_t i = thread_index();
  if (i >= shape.rows * shape.value_heads) return;
  const std::int64_t head = i % shape.value_heads;
  const double a = static_cast<double>(alpha[i]) + static_cast<double>(dt_bias[head]);
  const double softplus = a > kSoftplusLinear ? a : log1p(exp(a));
  alpha[i] = static_cast<float>(exp(-exp(static_cast<double>(a_log[head])) * softplus));
  beta[i] = sigmoid(beta[i]);
}

// A warp a row and value head.
__global__ void __launch_bounds__(kThreads)
    gated_norm_kernel(GdnShape shape, const float* gain, float eps, const float* z, float* o) {
  const std::int64_t warp = thread_index() / kWarp;
  if (warp >= shape.rows * shape.value_heads) return;
  const std::int64_t begin = warp * shape.value_dim;
  const double factor = warp_rms_factor(o + begin, shape.value_dim, eps);
  for (std::int64_t i = threadIdx.x % kWarp; i < shape.value_dim; i += kWarp)
    o[begin + i] = product(o[begin + i], factor, gain[i]) * silu(z[begin + i]);
}

struct AttentionInputs {
  AttentionShape shape;
  const float* query_gain = nullptr;
  const float* key_gain = nullptr;
  float eps = 0;
  const float* cosines = nullptr;
  const float* sines = nullptr;
  const float* projected = nullptr;
  float* queries = nullptr;
  float* keys = nullptr;
};

// A warp a row and head, query heads first.
__global__ void __launch_bounds__(kThreads) attention_inputs_kernel(AttentionInputs inputs) {
  const AttentionShape& shape = inputs.shape;
  const std::int64_t warp = thread_index() / kWarp;
  const std::int64_t all_heads = shape.heads + shape.key_heads;
  if (warp >= shape.rows * all_heads) return;
  const std::int64_t row = warp / all_heads;
  const std::int64_t head = warp % all_heads;
  const std::int64_t position = row % shape.window_tokens;
  const bool is_query = head < shape.heads;
  const float* source = inputs.projected + (row * shape.heads + head) * 2 * shape.dim;
  float* target =
      inputs.queries + ((row / shape.window_tokens * shape.heads + head) * shape.window_tokens + position) * shape.dim;
  const float* gain = inputs.query_gain;
  if (!is_query) {
    target = inputs.keys + (row * shape.key_heads + head - shape.heads) * shape.dim;
    source = target;
    gain = inputs.key_gain;
  }
  const double factor = warp_rms_factor(source, shape.dim, inputs.eps);
  const std::int64_t half = shape.rotary / 2;
  // Both ends of a pair are one lane's: keys are changed where they are read.
  for (std::int64_t i = threadIdx.x % kWarp; i < half; i += kWarp) {
    const float first = product(source[i], factor, gain[i]);
    const float second = product(source[i + half], factor, gain[i + half]);
    const float cosine = inputs.cosines[position * half + i];
    const float sine = inputs.sines[position * half + i];
    target[i] = __fsub_rn(__fmul_rn(first, cosine), __fmul_rn(second, sine));
    target[i + half] = __fadd_rn(__fmul_rn(second, cosine), __fmul_rn(first, sine));
  }
  for (std::int64_t i = shape.rotary + threadIdx.x % kWarp; i < shape.dim; i += kWarp)
    target[i] = product(source[i], factor, gain[i]);
}

__global__ void __launch_bounds__(kThreads)
    exponentials_kernel(std::int64_t window_tokens, float scale, float* scores, double* sums) {
  __shared__ float maxima[kThreads / kWarp];
  __shared__ double parts[kThreads / kWarp];
  float* row = scores + static_cast<std::int64_t>(blockIdx.x) * window_tokens;
  const std::int64_t visible = blockIdx.x % window_tokens + 1;
  float largest = -INFINITY;
  for (std::int64_t i = threadIdx.x; i < visible; i += kThreads) largest = fmaxf(largest, row[i]);
  largest = block_max(largest, maxima);
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < window_tokens; i += kThreads) {
    const float value = i < visible ? expf((row[i] - largest) * scale) : 0.0F;
    row[i] = value;
    sum += static_cast<double>(value);
  }
  sum = block_sum(sum, parts);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kThreads)
    attention_output_kernel(AttentionShape shape, const float* values, const double* sums, const float* projected,
                            float* out) {
  const std::int64_t i = thread_index();
  if (i >= shape.rows * shape.heads * shape.dim) return;
  const std::int64_t channel = i % shape.dim;
  const std::int64_t head = i / shape.dim % shape.heads;
  const std::int64_t row = i / shape.dim / shape.heads;
  const std::int64_t source =
      (row / shape.window_tokens * shape.heads + head) * shape.window_tokens + row % shape.window_tokens;
  const float gate = projected[(row * shape.heads + head) * 2 * shape.dim + shape.dim + channel];
  out[i] = product(values[source * shape.dim + channel], 1.0 / sums[source], sigmoid(gate));
}

__global__ void __launch_bounds__(kThreads) mlp_activation_kernel(std::int64_t count, float* gate, const float* up) {
  const std::int64_t i = thread_index();
  if (i < count) gate[i] = silu(gate[i]) * up[i];
}

__global__ void __launch_bounds__(kThreads)
    find_not_finite_kernel(const float* x, std::int64_t count, std::int64_t size, unsigned long long* row) {
  const std::int64_t i = thread_index();
  if (i < count && !isfinite(x[i])) atomicMin(row, static_cast<unsigned long long>(i / size));
}

template <class... Parameters, class... Arguments>
void launch_over(const char* name, void (*kernel)(Parameters...), std::int64_t threads, cudaStream_t stream,
                 const Arguments&... arguments) {
  launch_kernel(name, kernel, {.blocks = static_cast<int>((threads + kThreads - 1) / kThreads), .threads = kThreads},
                {.stream = stream}, arguments...);
}

}  // namespace

void launch_widen(const std::uint16_t* in, float* out, std::int64_t count, unsigned long long* fault,
                  cudaStream_t stream) {
  launch_over("widen", widen_kernel, count, stream, in, out, count, fault);
}

void launch_gather(const float* table, const std::int32_t* tokens, std::int64_t rows, std::int64_t size, float* out,
                   cudaStream_t stream) {
  launch_over("gather", gather_kernel, rows * size, stream, table, tokens, rows * size, size, out);
}

void launch_norm(const float* x, const float* gain, float eps, std::int64_t rows, std::int64_t size, float* out,
                 cudaStream_t stream) {
  launch_kernel("norm", norm_kernel, {.blocks = static_cast<int>(rows), .threads = kThreads}, {.stream = stream}, x,
                gain, eps, size, out);
}

void launch_convolution(const float* p, const float* weights, const ConvolutionShape& shape, float* y,
                        cudaStream_t stream) {
  launch_over("convolution", convolution_kernel, shape.rows * shape.channels, stream, p, weights, shape, y);
}

void launch_l2_norms(const GdnShape& shape, float* y, cudaStream_t stream) {
  launch_over("l2_norms", l2_norm_kernel, shape.rows * 2 * shape.key_heads * kWarp, stream, shape, y);
}

void launch_gates(const GdnShape& shape, const float* a_log, const float* dt_bias, float* alpha, float* beta,
                  cudaStream_t stream) {
  launch_over("gates", gates_kernel, shape.rows * shape.value_heads, stream, shape, a_log, dt_bias, alpha, beta);
}

void launch_gated_norm(const GdnShape& shape, const float* gain, float eps, const float* z, float* o,
                       cudaStream_t stream) {
  launch_over("gated_norm", gated_norm_kernel, shape.rows * shape.value_heads * kWarp, stream, shape, gain, eps, z, o);
}

void launch_attention_inputs(const AttentionShape& shape, const float* query_gain, const float* key_gain, float eps,
                             const float* cosines, const float* sines, const float* projected, float* queries,
                             float* keys, cudaStream_t stream) {
  const AttentionInputs inputs{shape, query_gain, key_gain, eps, cosines, sines, projected, queries, keys};
  launch_over("attention_inputs", attention_inputs_kernel, shape.rows * (shape.heads + shape.key_heads) * kWarp, stream,
              inputs);
}

void launch_exponentials(std::int64_t rows, std::int64_t window_tokens, float scale, float* scores, double* sums,
                         cudaStream_t stream) {
  launch_kernel("exponentials", exponentials_kernel, {.blocks = static_cast<int>(rows), .threads = kThreads},
                {.stream = stream}, window_tokens, scale, scores, sums);
}

void launch_attention_output(const AttentionShape& shape, const float* values, const double* sums,
                             const float* projected, float* out, cudaStream_t stream) {
  launch_over("attention_output", attention_output_kernel, shape.rows * shape.heads * shape.dim, stream, shape, values,
              sums, projected, out);
}

void launch_mlp_activation(std::int64_t count, float* gate, const float* up, cudaStream_t stream) {
  launch_over("mlp_activation", mlp_activation_kernel, count, stream, count, gate, up);
}

void launch_find_not_finite(const float* x, std::int64_t rows, std::int64_t size, unsigned long long* row,
                            cudaStream_t stream) {
  launch_over("find_not_finite", find_not_finite_kernel, rows * size, stream, x, rows * size, size, row);
}

}  // namespace tare::engine
