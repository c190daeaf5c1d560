#include <cub/block/block_scan.cuh>

#include "engine/cuda/device/launch.cuh"
#include "engine/streamed/cuda/streamed_kernels.h"

namespace tare::engine {
namespace {

// A block a row: the largest logit, the sum of exponentials, then the K-th largest by its bits, 11, 11 and 10 at a
// time, then those above it, and as many of those equal to it as are left, by rising id.
constexpr int kThreads = 512;
constexpr int kWarp = 32;
constexpr int kKeyBits = 32;
constexpr int kDigitBits = 11;  // the last digit has what is left
constexpr int kBins = 1 << kDigitBits;
constexpr int kBinsAThread = kBins / kThreads;

// Rises with the number; -0 and +0 are equal.
__device__ __forceinline__ unsigned key_of(float value) {
  const unsigned bits = __float_as_uint(__fadd_rn(value, 0.0F));
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

struct Shared {
  union {
    cub::BlockScan<int, kThreads>::TempStorage scan;
    double sums[kThreads / kWarp];
    float maxima[kThreads / kWarp];
  };
  int bins[kBins];
  unsigned prefix;  // the digits of the K-th largest key found so far
  int above;        // keys larger than it
  int collected;
  unsigned keys[kMostCandidates];
  int ids[kMostCandidates];
};

template <class Value, class Combine>
__device__ Value reduce(Value value, Value* shared, const Combine& combine) {
  for (int step = kWarp / 2; step > 0; step /= 2) value = combine(value, __shfl_xor_sync(0xFFFFFFFFU, value, step));
  __syncthreads();
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = value;
  __syncthreads();
  Value all = shared[0];
  for (int warp = 1; warp < kThreads / kWarp; ++warp) all = combine(all, shared[warp]);
  __syncthreads();
  return all;
}

// Adds a digit to shared.prefix and the keys above it to shared.above. `done_bits` of the key are known already.
__device__ void find_digit(const float* logits, std::int64_t vocabulary, int candidates, int done_bits, int bits,
                           Shared& shared) {
  for (int bin = static_cast<int>(threadIdx.x); bin < kBins; bin += kThreads) shared.bins[bin] = 0;
  __syncthreads();
  const unsigned known = shared.prefix;
  const int above = shared.above;
  const int shift = kKeyBits - done_bits - bits;
  for (std::int64_t i = threadIdx.x; i < vocabulary; i += kThreads) {
    const unsigned key = key_of(logits[i]);
    if (done_bits > 0 && key >> (kKeyBits - done_bits) != known) continue;
    atomicAdd(&shared.bins[key >> shift & ((1U << bits) - 1)], 1);
  }
  __syncthreads();
  // Thread t looks at bins from the largest down: the sum of those above its own.
  int own[kBinsAThread];
  int total = 0;
  for (int b = 0; b < kBinsAThread; ++b) {
    own[b] = shared.bins[kBins - 1 - (static_cast<int>(threadIdx.x) * kBinsAThread + b)];
    total += own[b];
  }
  int before = 0;
  cub::BlockScan<int, kThreads>(shared.scan).ExclusiveSum(total, before);
  __syncthreads();
  for (int b = 0; b < kBinsAThread; ++b) {
    const int place = above + before;
    if (place < candidates && place + own[b] >= candidates) {  // true of one bin in one thread
      shared.above = place;
      shared.prefix =
          known << bits | static_cast<unsigned>(kBins - 1 - (static_cast<int>(threadIdx.x) * kBinsAThread + b));
    }
    before += own[b];
  }
  __syncthreads();
}

// Keys above the K-th largest in any order, then those equal to it by rising id until there are K.
__device__ void collect(const float* logits, std::int64_t vocabulary, int candidates, Shared& shared) {
  if (threadIdx.x == 0) shared.collected = 0;
  __syncthreads();
  const unsigned last = shared.prefix;
  for (std::int64_t i = threadIdx.x; i < vocabulary; i += kThreads) {
    const unsigned key = key_of(logits[i]);
    if (key <= last) continue;
    const int place = atomicAdd(&shared.collected, 1);
    shared.keys[place] = key;
    shared.ids[place] = static_cast<int>(i);
  }
  __syncthreads();
  int filled = shared.collected;
  for (std::int64_t begin = 0; begin < vocabulary && filled < candidates; begin += kThreads) {
    const std::int64_t i = begin + threadIdx.x;
    const int equal = i < vocabulary && key_of(logits[i]) == last ? 1 : 0;
    int before = 0;
    int all = 0;
    cub::BlockScan<int, kThreads>(shared.scan).ExclusiveSum(equal, before, all);
    __syncthreads();
    if (equal != 0 && filled + before < candidates) {
      shared.keys[filled + before] = last;
      shared.ids[filled + before] = static_cast<int>(i);
    }
    filled += all;
  }
  __syncthreads();
}

__global__ void __launch_bounds__(kThreads) candidates_kernel(const __grid_constant__ CandidateRows rows) {
  __shared__ Shared shared;
  const std::int64_t row = blockIdx.x;
  const float* logits = rows.logits + row * rows.vocabulary;
  const int candidates = static_cast<int>(rows.candidates);
  float largest = -INFINITY;
  for (std::int64_t i = threadIdx.x; i < rows.vocabulary; i += kThreads) largest = fmaxf(largest, logits[i]);
  largest = reduce(largest, shared.maxima, [](float a, float b) { return fmaxf(a, b); });
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < rows.vocabulary; i += kThreads)
    sum += static_cast<double>(expf(logits[i] - largest));
  sum = reduce(sum, shared.sums, [](double a, double b) { return a + b; });
  const double normalizer = static_cast<double>(largest) + log(sum);
  if (threadIdx.x == 0) {
    rows.log_sum_exp[row] = static_cast<float>(normalizer);
    const int next = rows.next[row];
    rows.next_log_probability[row] =
        next < 0 ? 0.0F : static_cast<float>(static_cast<double>(logits[next]) - normalizer);
    shared.prefix = 0;
    shared.above = 0;
  }
  __syncthreads();
  for (int done = 0; done < kKeyBits; done += kDigitBits)
    find_digit(logits, rows.vocabulary, candidates, done, min(kDigitBits, kKeyBits - done), shared);
  collect(logits, rows.vocabulary, candidates, shared);
  if (static_cast<int>(threadIdx.x) >= candidates) return;
  const unsigned key = shared.keys[threadIdx.x];
  const int id = shared.ids[threadIdx.x];
  int rank = 0;
  for (int other = 0; other < candidates; ++other)
    if (shared.keys[other] > key || (shared.keys[other] == key && shared.ids[other] < id)) ++rank;
  rows.top_ids[row * candidates + rank] = id;
  rows.top_log_probabilities[row * candidates + rank] =
      static_cast<float>(static_cast<double>(logits[id]) - normalizer);
}

}  // namespace

void launch_candidates(const CandidateRows& rows, cudaStream_t stream) {
  launch_kernel("candidates", candidates_kernel, {.blocks = static_cast<int>(rows.rows), .threads = kThreads},
                {.stream = stream}, rows);
}

}  // namespace tare::engine
