// Gated DeltaNet of one layer on the GPU: convolution, gates, recurrence, gated norm (docs/method/model.md; formulas
// and the two forms: engine/cpu/gdn_cache.h says them for the CPU, model specification 3.3 to 3.5 and 5.3, 5.4).
//
// A verify leaves the committed state and columns as they are but for folding what was committed before it; it records
// per token what a fold needs (normalised key, update u, decay) and the projections before convolution
// (round_control.h).
//   recurrent form: the state steps token by token, S <- a S + k u^T, in the same operations in verify and fold, so a
//                   sequence has the same bits however it is cut into passes.
//   chunked form:   up to 16 tokens are one chunk (WY form; a tree's ancestors are its mask): the state is read once a
//                   chunk and none of a token is formed. Equal to the recurrent form up to FP32 rounding; rounds of 1
//                   or 2 tokens take the recurrent form, which is faster there.
// A tree has at most kMostTreeNodes nodes; every node goes on from its parent, as if its path had come alone: with the
// same bits in the recurrent form. What is committed is a path of records. In the recurrent form a node that does not
// continue the node before it goes back to the committed state and applies its ancestors again; a cache that keeps
// snapshots stores the state after every node instead, and the next pass goes on from the last one of the path.
#pragma once

#include <span>
#include <vector>

#include "engine/backend/option_words.h"
#include "engine/cuda/device/device_buffer.h"
#include "engine/cuda/device/launch.h"
#include "engine/cuda/device/round_control.h"
#include "engine/cuda/product/operand.h"
#include "engine/cuda/product/product.h"
#include "engine/formats/state_codec.h"

namespace tare::engine {

struct CudaGdnShape {
  int key_heads = 0;
  int value_heads = 0;  // a multiple of key_heads
  int dk = 0;
  int dv = 0;
  int taps = 0;   // of the convolution
  float eps = 0;  // of the gated norm

  [[nodiscard]] constexpr int channels() const { return 2 * key_heads * dk + value_heads * dv; }
};
// Throws Error (input) naming the size when the kernels do not support it.
void check_gdn_shape(const CudaGdnShape& shape);

// Device memory, FP32.
struct CudaGdnWeights {
  const float* convolution = nullptr;  // [channels][taps]; the last tap meets the current token
  const float* decay_rate = nullptr;   // [value_heads]: exp(A_log)
  const float* dt_bias = nullptr;      // [value_heads]
  const float* norm = nullptr;         // [dv], plain gain
};

// Bytes of what a layer remembers: state, convolution columns, records of two verifies, and kMostTreeNodes snapshots
// where those are kept.
struct CudaGdnBytes {
  std::size_t state = 0;
  std::size_t columns = 0;
  std::size_t records = 0;
  std::size_t snapshots = 0;
};
[[nodiscard]] CudaGdnBytes gdn_cache_bytes(const CudaGdnShape& shape, StateFormat state, CacheFormat columns,
                                           bool snapshots = false);

// The same in device memory.
class CudaGdnCache {
 public:
  // With snapshots rounds have at most kMostTreeNodes tokens, chains too, and the recurrent form.
  CudaGdnCache(const CudaGdnShape& shape, StateFormat state, CacheFormat columns, bool snapshots = false);
  void reset(cudaStream_t stream);  // everything zero
  // [value_heads, dk, dv] FP32 as after the last committed token, with the records `path` of half `1 - half` folded
  // into the copy that is returned.
  [[nodiscard]] std::vector<float> state(std::span<const std::int32_t> path, int half) const;

  [[nodiscard]] std::size_t state_bytes() const { return state_.bytes(); }
  [[nodiscard]] std::size_t snapshot_bytes() const { return snapshots_.bytes(); }
  [[nodiscard]] std::size_t column_bytes() const { return columns_.bytes(); }
  [[nodiscard]] std::size_t record_bytes() const { return records_.bytes(); }

  const CudaGdnShape shape;
  const StateFormat state_format;
  const CacheFormat column_format;
  const bool keeps_snapshots;
  [[nodiscard]] std::byte* snapshot_data() const { return snapshots_.data(); }
  [[nodiscard]] std::byte* state_data() const { return state_.data(); }
  [[nodiscard]] std::byte* column_data() const { return columns_.data(); }
  [[nodiscard]] std::byte* record_data() const { return records_.data(); }

 private:
  DeviceBuffer state_, columns_, records_, snapshots_;
};

// A layer's state elements as they are stored, widened to FP32, in the kernels' order (gdn_layout.h) and without their
// scale; and back, which gives the same bits.
[[nodiscard]] std::vector<float> read_state_elements(const CudaGdnCache& cache);
void write_state_elements(const CudaGdnCache& cache, std::span<const float> elements);

// qkvz: rows [q | k | v | z] (channels, then value_heads * dv); gates: rows [b | a] of value_heads each, plain rows.
// out: operand of value_heads * dv columns, heads in order; every token of its width is written, zeros past `tokens`.
// Reads and writes the cache as described above. tokens 1..32. `tree`: they may be what `control` says; otherwise they
// are a chain, whatever it says.
void launch_gdn_round(GdnForm form, const CudaGdnWeights& weights, const CudaGdnCache& cache, const ProductResult& qkvz,
                      const ProductResult& gates, int tokens, bool tree, const RoundControl* control,
                      const Operand& out, const L2Fill& fill, const CudaLaunch& launch);

// Absorbs tokens 0..tokens-1 at once (prefill; results are plain rows, out is rows): the state after them is written.
// Folds `control->pending` records first. tokens >= 1, any number.
void launch_gdn_prefill(GdnForm form, const CudaGdnWeights& weights, const CudaGdnCache& cache,
                        const ProductResult& qkvz, const ProductResult& gates, int tokens, const RoundControl* control,
                        const Operand& out, const CudaLaunch& launch);

}  // namespace tare::engine
