// Matrix times activations for every instruction set. Vector lanes are output rows; see packed_matrix.h for the layout
// and kernels.h for the order of every sum.
//
// One register tile over one group of a panel, here AVX-512 (16 rows a vector), q4, FP32 activations, two vectors:
//
//              rows 0..15      rows 16..31
//   scales    [16 x FP16]     [16 x FP16]        total[v] = fma(scale, (p0 + p1) + (p2 + p3), total[v])
//   word 0    [16 x 8 codes]  [16 x 8 codes]     p[k mod 4][v] = fma(code_k[v], x_k, p[k mod 4][v]),  k = 0..7
//   word 1    [16 x 8 codes]  [16 x 8 codes]                                                          k = 8..15
//   ...
//   word 7    [16 x 8 codes]  [16 x 8 codes]                                                          k = 56..63
//
// More tokens add a dimension of x, p and total: each decoded code vector is used once a token. With q8 activations a
// word meets its four (or twice four) activation codes in one integer dot product, so p is a single exact sum.
#include "engine/cpu/kernel_tables.h"
#include "engine/formats/weight_groups.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/cpu/matrix_kernels.cpp"
#include <hwy/foreach_target.h>
//
#include "engine/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tare::engine {
namespace HWY_NAMESPACE {

constexpr int kRowVectors = static_cast<int>(kPanelRows) / kLanes;  // vectors that cover the rows of a panel
// How far ahead weights are asked for: what memory delivers to one core in its latency (40 GB/s * 100 ns), with room.
constexpr std::int64_t kPrefetchBytes = 8192;
constexpr int kPhases = 4;  // sums by k mod 4

// How a format's words become weights. value<P> is the P-th weight of each word as FP32; offset(P) is its column
// relative to the word's first.
struct BF16Words {
  static constexpr WeightFormat kFormat = WeightFormat::kBF16;
  static constexpr int kPerWord = 2;
  static constexpr int offset(int position) { return position; }
  static HWY_INLINE VectorU32 prepare(VectorU32 word) { return word; }
  template <int kPosition>
  static HWY_INLINE VectorF32 value(VectorU32 word) {
    if constexpr (kPosition == 0) return hn::BitCast(kF32, hn::ShiftLeft<16>(word));
    return hn::BitCast(kF32, hn::And(word, hn::Set(kU32, 0xFFFF0000U)));
  }
};

struct Q8Words {
  static constexpr WeightFormat kFormat = WeightFormat::kQ8;
  static constexpr int kPerWord = kQ8CodesPerWord;
  static constexpr std::int32_t kBias = kQ8Bias;
  static constexpr int kDotsPerWord = 1;
  static constexpr int offset(int position) { return position; }
  // Biased bytes to two's complement.
  static HWY_INLINE VectorU32 prepare(VectorU32 word) { return hn::Xor(word, hn::Set(kU32, 0x80808080U)); }
  template <int kPosition>
  static HWY_INLINE VectorF32 value(VectorU32 word) {
    const VectorI32 high = hn::BitCast(kI32, hn::ShiftLeft<24 - 8 * kPosition>(word));
    return hn::ConvertTo(kF32, hn::ShiftRight<24>(high));
  }
  // The kDot-th set of four biased codes as bytes.
  template <int kDot>
  static HWY_INLINE VectorU32 bytes(VectorU32 word) {
    return word;
  }
};

struct Q4Words {
  static constexpr WeightFormat kFormat = WeightFormat::kQ4;
  static constexpr int kPerWord = kQ4CodesPerWord;
  static constexpr std::int32_t kBias = kQ4Bias;
  static constexpr int kDotsPerWord = 2;
  static constexpr int offset(int position) { return position / 2 + 4 * (position % 2); }
  static HWY_INLINE VectorU32 prepare(VectorU32 word) { return word; }
  template <int kPosition>
  static HWY_INLINE VectorF32 value(VectorU32 word) {
    const VectorU32 shifted = kPosition == 0 ? word : hn::ShiftRight<4 * kPosition>(word);
#if TARE_TARGET_IS_AVX3
    // The permutation looks at the low four bits of a lane only, so it is mask, bias and conversion in one.
    alignas(64) static constexpr float kCodes[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
    return VectorF32{_mm512_permutexvar_ps(shifted.raw, _mm512_load_ps(kCodes))};
#else
    const VectorU32 nibble = hn::And(shifted, hn::Set(kU32, 0xFU));
    return hn::ConvertTo(kF32, hn::Sub(hn::BitCast(kI32, nibble), hn::Set(kI32, kQ4Bias)));
#endif
  }
  template <int kDot>
  static HWY_INLINE VectorU32 bytes(VectorU32 word) {
    return hn::And(kDot == 0 ? word : hn::ShiftRight<4>(word), hn::Set(kU32, 0x0F0F0F0FU));
  }
};

// sum + the four products of the unsigned bytes of `codes` with the signed bytes of `activations`, lane by lane, exact.
HWY_INLINE VectorI32 add_byte_products(VectorI32 sum, VectorU32 codes, VectorI32 activations) {
#if HWY_TARGET == HWY_AVX3_DL
  return VectorI32{_mm512_dpbusd_epi32(sum.raw, codes.raw, activations.raw)};
#elif HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  // Even and odd bytes as 16-bit pairs: 255 * 127 * 2 fits the 32-bit sums, so nothing saturates.
  const VectorI32 even_codes = hn::BitCast(kI32, hn::And(codes, hn::Set(kU32, 0x00FF00FFU)));
  const VectorI32 odd_codes = hn::BitCast(kI32, hn::ShiftRight<8>(hn::BitCast(kU16, codes)));
  const VectorI32 even = hn::BitCast(kI32, hn::ShiftRight<8>(hn::ShiftLeft<8>(hn::BitCast(kI16, activations))));
  const VectorI32 odd = hn::BitCast(kI32, hn::ShiftRight<8>(hn::BitCast(kI16, activations)));
#if TARE_TARGET_IS_AVX3
  const VectorI32 products = hn::Add(VectorI32{_mm512_madd_epi16(even_codes.raw, even.raw)},
                                     VectorI32{_mm512_madd_epi16(odd_codes.raw, odd.raw)});
#elif HWY_TARGET == HWY_AVX2
  const VectorI32 products = hn::Add(VectorI32{_mm256_madd_epi16(even_codes.raw, even.raw)},
                                     VectorI32{_mm256_madd_epi16(odd_codes.raw, odd.raw)});
#else
  const VectorI32 products =
      hn::Add(VectorI32{_mm_madd_epi16(even_codes.raw, even.raw)}, VectorI32{_mm_madd_epi16(odd_codes.raw, odd.raw)});
#endif
  return hn::Add(sum, products);
#else
  static_for<4>([&](auto byte) HWY_ATTR {
    constexpr int kByte = byte;
    const VectorI32 code = hn::BitCast(kI32, hn::And(hn::ShiftRight<8 * kByte>(codes), hn::Set(kU32, 0xFFU)));
    sum = hn::Add(sum, hn::Mul(code, hn::ShiftRight<24>(hn::ShiftLeft<24 - 8 * kByte>(activations))));
  });
  return sum;
#endif
}

template <class Words>
constexpr std::int64_t kGroupScaleBytes = Words::kFormat == WeightFormat::kBF16 ? 0 : kPanelRows * 2;

template <class Words>
constexpr std::int64_t kGroupBytes = kGroupScaleBytes<Words> + kPanelRows* kGroupSize / Words::kPerWord * 4;

// Asks for the group that lies kPrefetchBytes ahead. Panels follow each other in memory, so this runs on into the next
// panel; past the matrix's end it asks for memory that is not read (a prefetch cannot fault).
template <class Words>
HWY_INLINE void prefetch_ahead(const std::byte* group) {
  for (std::int64_t line = 0; line < kGroupBytes<Words>; line += static_cast<std::int64_t>(kCacheLineBytes))
    __builtin_prefetch(group + kPrefetchBytes + line);
}

HWY_INLINE VectorF32 load_scales(const std::byte* scales, int vector) {
  const auto* halves = reinterpret_cast<const hwy::float16_t*>(scales) + vector * kLanes;
  return hn::PromoteTo(kF32, hn::LoadU(kF16, halves));
}

HWY_INLINE VectorU32 load_words(const std::byte* words, int word, int vector) {
  return hn::LoadU(kU32, reinterpret_cast<const std::uint32_t*>(words) + word * kPanelRows + vector * kLanes);
}

// kVectors row vectors from `first_vector` on, kTokens tokens from `token` on, FP32 activations.
template <class Words, int kVectors, int kTokens, bool kFirstVisit>
HWY_INLINE void multiply_floats(const std::byte* panel, std::int64_t groups, int first_vector,
                                const ActivationRows& activations, std::int64_t token, float* out,
                                std::int64_t out_stride) {
  VectorF32 total[kTokens][kVectors];
  for (int t = 0; t < kTokens; ++t)
    for (int v = 0; v < kVectors; ++v) total[t][v] = hn::Zero(kF32);
  const float* rows[kTokens];
  for (int t = 0; t < kTokens; ++t) rows[t] = activations.values + (token + t) * activations.stride;

  for (std::int64_t group = 0; group < groups; ++group, panel += kGroupBytes<Words>) {
    const std::byte* words = panel + kGroupScaleBytes<Words>;
    if constexpr (kFirstVisit) prefetch_ahead<Words>(panel);
    VectorF32 part[kPhases][kTokens][kVectors];
    for (auto& phase : part)
      for (auto& row : phase)
        for (VectorF32& sum : row) sum = hn::Zero(kF32);
    constexpr int kWords = static_cast<int>(kGroupSize) / Words::kPerWord;
    constexpr int kStep = Words::kPerWord < kPhases ? kPhases / Words::kPerWord : 1;  // words until phases repeat
    for (int first_word = 0; first_word < kWords; first_word += kStep) {
      static_for<kStep>([&](auto step) HWY_ATTR {
        constexpr int kWord = step;
        const std::int64_t column = group * kGroupSize + (first_word + kWord) * Words::kPerWord;
        VectorU32 word[kVectors];
        for (int v = 0; v < kVectors; ++v)
          word[v] = Words::prepare(load_words(words, first_word + kWord, first_vector + v));
        static_for<Words::kPerWord>([&](auto position) HWY_ATTR {
          constexpr int kOffset = Words::offset(position);
          constexpr int kPhase = (kWord * Words::kPerWord + kOffset) % kPhases;
          VectorF32 weight[kVectors];
          for (int v = 0; v < kVectors; ++v) weight[v] = Words::template value<position>(word[v]);
          for (int t = 0; t < kTokens; ++t) {
            const VectorF32 x = hn::Set(kF32, rows[t][column + kOffset]);
            for (int v = 0; v < kVectors; ++v) part[kPhase][t][v] = hn::MulAdd(weight[v], x, part[kPhase][t][v]);
          }
        });
      });
    }
    for (int v = 0; v < kVectors; ++v) {
      VectorF32 scale = hn::Zero(kF32);
      if constexpr (kGroupScaleBytes<Words> != 0) scale = load_scales(panel, first_vector + v);
      for (int t = 0; t < kTokens; ++t) {
        const VectorF32 sum = hn::Add(hn::Add(part[0][t][v], part[1][t][v]), hn::Add(part[2][t][v], part[3][t][v]));
        if constexpr (kGroupScaleBytes<Words> != 0) {
          total[t][v] = hn::MulAdd(scale, sum, total[t][v]);
        } else {
          total[t][v] = hn::Add(total[t][v], sum);
        }
      }
    }
  }
  for (int t = 0; t < kTokens; ++t)
    for (int v = 0; v < kVectors; ++v)
      hn::StoreU(total[t][v], kF32, out + (token + t) * out_stride + (first_vector + v) * kLanes);
}

// The same with q8 activations.
template <class Words, int kVectors, int kTokens, bool kFirstVisit>
HWY_INLINE void multiply_codes(const std::byte* panel, std::int64_t groups, int first_vector,
                               const ActivationRows& activations, std::int64_t token, float* out,
                               std::int64_t out_stride) {
  VectorF32 total[kTokens][kVectors];
  for (int t = 0; t < kTokens; ++t)
    for (int v = 0; v < kVectors; ++v) total[t][v] = hn::Zero(kF32);
  const std::int64_t blocks = activations.stride / kGroupSize;

  for (std::int64_t group = 0; group < groups; ++group, panel += kGroupBytes<Words>) {
    const std::byte* words = panel + kGroupScaleBytes<Words>;
    if constexpr (kFirstVisit) prefetch_ahead<Words>(panel);
    VectorI32 sum[kTokens][kVectors];
    for (int t = 0; t < kTokens; ++t) {
      // Codes are biased to unsigned: take bias * (sum of activation codes) away first.
      const std::int32_t surplus = Words::kBias * activations.sums[(token + t) * blocks + group];
      for (int v = 0; v < kVectors; ++v) sum[t][v] = hn::Set(kI32, -surplus);
    }
    constexpr int kWords = static_cast<int>(kGroupSize) / Words::kPerWord;
    for (int w = 0; w < kWords; ++w) {
      VectorU32 word[kVectors];
      for (int v = 0; v < kVectors; ++v) word[v] = load_words(words, w, first_vector + v);
      static_for<Words::kDotsPerWord>([&](auto dot) HWY_ATTR {
        VectorU32 bytes[kVectors];
        for (int v = 0; v < kVectors; ++v) bytes[v] = Words::template bytes<dot>(word[v]);
        for (int t = 0; t < kTokens; ++t) {
          const std::int8_t* codes =
              activations.codes + (token + t) * activations.stride + group * kGroupSize + w * Words::kPerWord + 4 * dot;
          std::int32_t four_codes;
          __builtin_memcpy(&four_codes, codes, sizeof(four_codes));
          const VectorI32 x = hn::Set(kI32, four_codes);
          for (int v = 0; v < kVectors; ++v) sum[t][v] = add_byte_products(sum[t][v], bytes[v], x);
        }
      });
    }
    for (int v = 0; v < kVectors; ++v) {
      const VectorF32 weight_scale = load_scales(panel, first_vector + v);
      for (int t = 0; t < kTokens; ++t) {
        const VectorF32 activation_scale = hn::Set(kF32, activations.scales[(token + t) * blocks + group]);
        total[t][v] = hn::MulAdd(hn::ConvertTo(kF32, sum[t][v]), hn::Mul(weight_scale, activation_scale), total[t][v]);
      }
    }
  }
  for (int t = 0; t < kTokens; ++t)
    for (int v = 0; v < kVectors; ++v)
      hn::StoreU(total[t][v], kF32, out + (token + t) * out_stride + (first_vector + v) * kLanes);
}

// How many row vectors and tokens one register tile covers. FP32: 4 phases * vectors * tokens accumulators; q8: two.
constexpr bool kHasManyRegisters = HWY_MAX_BYTES >= 64;
constexpr int kFloatTokens = kHasManyRegisters ? 4 : 2;
constexpr int kCodeTokens = 4;
constexpr int kPairOfVectors = kRowVectors < 2 ? kRowVectors : 2;

// kTokens tokens on all rows of a panel.
template <class Words, bool kCodes, int kTokens, bool kFirstVisit>
HWY_INLINE void multiply_tokens(const std::byte* panel, std::int64_t groups, const ActivationRows& activations,
                                std::int64_t token, float* out, std::int64_t out_stride) {
  if constexpr (kCodes) {
    for (int vector = 0; vector < kRowVectors; vector += kPairOfVectors)
      multiply_codes<Words, kPairOfVectors, kTokens, kFirstVisit>(panel, groups, vector, activations, token, out,
                                                                  out_stride);
  } else {
    constexpr int kVectors = kTokens == 1 || (kTokens == 2 && kHasManyRegisters) ? kPairOfVectors : 1;
    for (int vector = 0; vector < kRowVectors; vector += kVectors)
      multiply_floats<Words, kVectors, kTokens, kFirstVisit>(panel, groups, vector, activations, token, out,
                                                             out_stride);
  }
}

template <class Words, bool kCodes>
void multiply_panel(const std::byte* panel, std::int64_t groups, const ActivationRows& activations, float* out,
                    std::int64_t out_stride) {
  constexpr int kTile = kCodes ? kCodeTokens : kFloatTokens;
  const std::int64_t tokens = activations.tokens;
  // Tiles of kTile tokens, then of 2, then 1; the first tile, whichever it is, is the one that meets new weights.
  std::int64_t token = 0;
  if (tokens >= kTile) {
    multiply_tokens<Words, kCodes, kTile, true>(panel, groups, activations, 0, out, out_stride);
    for (token = kTile; token + kTile <= tokens; token += kTile)
      multiply_tokens<Words, kCodes, kTile, false>(panel, groups, activations, token, out, out_stride);
  } else if (tokens >= 2) {
    multiply_tokens<Words, kCodes, 2, true>(panel, groups, activations, 0, out, out_stride);
    token = 2;
  } else {
    multiply_tokens<Words, kCodes, 1, true>(panel, groups, activations, 0, out, out_stride);
    token = 1;
  }
  for (; token + 2 <= tokens; token += 2)
    multiply_tokens<Words, kCodes, 2, false>(panel, groups, activations, token, out, out_stride);
  if (token < tokens) multiply_tokens<Words, kCodes, 1, false>(panel, groups, activations, token, out, out_stride);
}

void multiply_panels(const PackedMatrix& matrix, std::int64_t panel_begin, std::int64_t panel_end,
                     const ActivationRows& activations, float* out, std::int64_t out_stride) {
  const bool codes = activations.codes != nullptr;
  for (std::int64_t index = panel_begin; index < panel_end; ++index) {
    const std::byte* panel = matrix.panel(index);
    float* panel_out = out + index * kPanelRows;
    const std::int64_t groups = matrix.groups();
    if (matrix.format() == WeightFormat::kBF16) {
      multiply_panel<BF16Words, false>(panel, groups, activations, panel_out, out_stride);
    } else if (matrix.format() == WeightFormat::kQ8) {
      codes ? multiply_panel<Q8Words, true>(panel, groups, activations, panel_out, out_stride)
            : multiply_panel<Q8Words, false>(panel, groups, activations, panel_out, out_stride);
    } else {
      codes ? multiply_panel<Q4Words, true>(panel, groups, activations, panel_out, out_stride)
            : multiply_panel<Q4Words, false>(panel, groups, activations, panel_out, out_stride);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tare::engine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tare::engine {

MultiplyPanels matrix_kernels(std::int64_t target) {
  TARE_RETURN_FOR_TARGET(target, multiply_panels)
}

}  // namespace tare::engine
#endif
