// The words that options choose among, without the options: all that kernels and their headers need to know of them.
#pragma once

namespace tare::engine {

enum class BackendKind { kCpu, kCuda };
enum class ActivationFormat { kAuto, kFP32, kBF16, kQ8 };
enum class CacheFormat { kFP32, kBF16, kFP8, kInt8, kNVFP4 };
enum class KeyRotation { kNone, kHadamard };
enum class GdnForm { kRecurrent, kChunked };
enum class Rollback { kRing, kSnapshot, kTreeChunk };
enum class TreeGrowth { kBestFirst, kChainFirst };
enum class HandicapPlace { kNone, kHost, kKernel };
enum class PerturbPlace { kNone, kLogits };
enum class HeadScreen { kNone, kQ4, kQ3 };

// Tensor classes a weight format can be chosen for: projections only. The embedding (a gather), norms, convolution, a/b
// projections, A_log and dt_bias are never quantised. kDrafter: a block drafter's, by its own layers.
enum class TensorClass { kAttention, kGdn, kMlp, kHead, kMtp, kDrafter };

}  // namespace tare::engine
