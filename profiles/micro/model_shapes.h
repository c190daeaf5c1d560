// The 27B's layers, as benchmarks and probes take them.
#pragma once

#include "engine/cuda/attention/attention.h"
#include "engine/cuda/gdn/gdn.h"

namespace tare::micro {

constexpr int kHidden27B = 5120;
constexpr engine::CudaAttentionShape kAttention27B{
    .heads = 24, .kv_heads = 4, .head_dim = 256, .rotary_dim = 64, .eps = 1e-6F};
constexpr int kAttentionRows27B = (2 * 24 + 2 * 4) * 256;
constexpr engine::CudaGdnShape kGdn27B{
    .key_heads = 16, .value_heads = 48, .dk = 128, .dv = 128, .taps = 4, .eps = 1e-6F};
constexpr int kGdnRows27B = kGdn27B.channels() + kGdn27B.value_heads * kGdn27B.dv;
constexpr int kMixed27B = 6144;  // columns that either hands on

}  // namespace tare::micro
