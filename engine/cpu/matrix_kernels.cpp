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
// word meets its four (or twice four) activation codes in one integer dot product, so p is a single exact sum. NVFP4
// has a total after every two words. A scale of the whole tensor multiplies the finished total.
#include "engine/cpu/kernel_tables.h"
#include "engine/formats/weight_codes.h"

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

HWY_INLINE VectorU32 load_words(const std::byte* words, int word, int vector) {
  return hn::LoadU(kU32, reinterpret_cast<const std::uint32_t*>(words) + word * kPanelRows + vector * kLanes);
}

// How a format's words become weights. load gives a word's vector of rows, prepare what value wants of it; value<P> is
// the P-th weight of each as FP32, without its scale; offset(P) is its column relative to the word's first. kScales: of
// a group.
struct BF16Words {
  using Loaded = VectorU32;
  static constexpr int kScales = 0;
  static constexpr int kStoredWords = 32;
  static constexpr int kPerWord = 2;
  static constexpr int offset(int position) { return position; }
  static HWY_INLINE Loaded load(const std::byte* words, int word, int vector) {
    return load_words(words, word, vector);
  }
  static HWY_INLINE Loaded prepare(const Loaded& word) { return word; }
  template <int kPosition>
  static HWY_INLINE VectorF32 value(VectorU32 word) {
    if constexpr (kPosition == 0) return hn::BitCast(kF32, hn::ShiftLeft<16>(word));
    return hn::BitCast(kF32, hn::And(word, hn::Set(kU32, 0xFFFF0000U)));
  }
};

struct Q8Words {
  using Loaded = VectorU32;
  static constexpr int kScales = 1;
  static constexpr int kStoredWords = 16;
  static constexpr int kPerWord = kQ8CodesPerWord;
  static constexpr std::int32_t kBias = kQ8Bias;
  static constexpr int kDotsPerWord = 1;
  static constexpr int offset(int position) { return position; }
  static HWY_INLINE Loaded load(const std::byte* words, int word, int vector) {
    return load_words(words, word, vector);
  }
  // Biased bytes to two's complement, once a word.
  static HWY_INLINE Loaded prepare(const Loaded& word) { return hn::Xor(word, hn::Set(kU32, 0x80808080U)); }
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
  using Loaded = VectorU32;
  static constexpr int kScales = 1;
  static constexpr int kStoredWords = 8;
  static constexpr int kPerWord = kQ4CodesPerWord;
  static constexpr std::int32_t kBias = kQ4Bias;
  static constexpr int kDotsPerWord = 2;
  static constexpr int offset(int position) { return position / 2 + 4 * (position % 2); }
  static HWY_INLINE Loaded load(const std::byte* words, int word, int vector) {
    return load_words(words, word, vector);
  }
  static HWY_INLINE Loaded prepare(const Loaded& word) { return word; }
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

// q4's words with a fifth bit from elsewhere (packed_matrix.h).
struct Q5Words {
  struct Loaded {
    VectorU32 low;
    VectorU32 high;  // bit 8 i + d is that of code 4 d + i
  };
  static constexpr int kScales = 1;
  static constexpr int kStoredWords = 10;
  static constexpr int kPerWord = Q4Words::kPerWord;
  static constexpr std::int32_t kBias = kQ5Bias;
  static constexpr int kDotsPerWord = 2;
  static constexpr int offset(int position) { return Q4Words::offset(position); }
  static HWY_INLINE Loaded load(const std::byte* words, int word, int vector) {
    return {load_words(words, word, vector),
            hn::ShiftRightSame(load_words(words, 8 + word / 4, vector), 2 * (word % 4))};
  }
  static HWY_INLINE Loaded prepare(const Loaded& word) { return word; }
  template <int kPosition>
  static HWY_INLINE VectorF32 value(const Loaded& word) {
    constexpr int kBit = 8 * (kPosition / 2) + kPosition % 2;
    const VectorU32 low = hn::And(hn::ShiftRight<4 * kPosition>(word.low), hn::Set(kU32, 0xFU));
    const VectorU32 high = hn::ShiftLeft<4>(hn::And(hn::ShiftRight<kBit>(word.high), hn::Set(kU32, 1U)));
    return hn::ConvertTo(kF32, hn::Sub(hn::BitCast(kI32, hn::Or(low, high)), hn::Set(kI32, kBias)));
  }
  template <int kDot>
  static HWY_INLINE VectorU32 bytes(const Loaded& word) {
    const VectorU32 high = hn::ShiftLeft<4>(hn::And(hn::ShiftRight<kDot>(word.high), hn::Set(kU32, 0x01010101U)));
    return hn::Or(Q4Words::bytes<kDot>(word.low), high);
  }
};

struct FP8Words {
  using Loaded = VectorU32;
  static constexpr int kScales = 1;
  static constexpr int kStoredWords = 16;
  static constexpr int kPerWord = Q8Words::kPerWord;
  static constexpr int offset(int position) { return position; }
  static HWY_INLINE Loaded load(const std::byte* words, int word, int vector) {
    return load_words(words, word, vector);
  }
  static HWY_INLINE Loaded prepare(const Loaded& word) { return word; }
  template <int kPosition>
  static HWY_INLINE VectorF32 value(VectorU32 word) {
    return e4m3_values(hn::And(hn::ShiftRight<8 * kPosition>(word), hn::Set(kU32, 0xFFU)));
  }
};

struct NVFP4Words {
  using Loaded = VectorU32;
  static constexpr int kScales = static_cast<int>(kMostScalesAGroup);
  static constexpr int kStoredWords = 8;
  static constexpr int kPerWord = Q4Words::kPerWord;
  static constexpr int offset(int position) { return Q4Words::offset(position); }
  static HWY_INLINE Loaded load(const std::byte* words, int word, int vector) {
    return load_words(words, word, vector);
  }
  static HWY_INLINE Loaded prepare(const Loaded& word) { return word; }
  template <int kPosition>
  static HWY_INLINE VectorF32 value(VectorU32 word) {
    return e2m1_values(hn::ShiftRight<4 * kPosition>(word));
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

// A panel as the kernels walk it.
struct Panel {
  const std::byte* data;
  std::int64_t groups;
  std::int64_t scale_bytes;  // of a group, before its words
  std::int64_t group_bytes;
  const float* row_scales;  // null: none, and group scales are FP16; else they are E4M3
};

// Asks for the group that lies kPrefetchBytes ahead. Panels follow each other in memory, so this runs on into the next
// panel; past the matrix's end it asks for memory that is not read (a prefetch cannot fault).
template <class Words>
HWY_INLINE void prefetch_ahead(const std::byte* group) {
  constexpr std::int64_t kScaleBytes = Words::kScales == 1 ? kPanelRows * 2 : kPanelRows * Words::kScales;
  constexpr std::int64_t kBytes = kScaleBytes + Words::kStoredWords * kPanelRows * 4;
  for (std::int64_t line = 0; line < kBytes; line += static_cast<std::int64_t>(kCacheLineBytes))
    __builtin_prefetch(group + kPrefetchBytes + line);
}

// Of the block-th part of a group.
HWY_INLINE VectorF32 load_scales(const Panel& panel, const std::byte* group, int block, int vector) {
  const std::int64_t first = block * kPanelRows + vector * kLanes;
  if (panel.row_scales != nullptr) return e4m3_values(load_bytes(reinterpret_cast<const std::uint8_t*>(group) + first));
  return hn::PromoteTo(kF32, hn::LoadU(kF16, reinterpret_cast<const hwy::float16_t*>(group) + first));
}

// The sums of a row vector, times their tensors' scales.
HWY_INLINE void store_sums(const Panel& panel, VectorF32 sums, int vector, float* out) {
  if (panel.row_scales != nullptr) sums = hn::Mul(sums, hn::LoadU(kF32, panel.row_scales + vector * kLanes));
  hn::StoreU(sums, kF32, out);
}

// kVectors row vectors from `first_vector` on, kTokens tokens from `token` on, FP32 activations.
template <class Words, int kVectors, int kTokens, bool kFirstVisit>
HWY_INLINE void multiply_floats(const Panel& panel, int first_vector, const ActivationRows& activations,
                                std::int64_t token, float* out, std::int64_t out_stride) {
  VectorF32 total[kTokens][kVectors];
  for (int t = 0; t < kTokens; ++t)
    for (int v = 0; v < kVectors; ++v) total[t][v] = hn::Zero(kF32);
  const float* rows[kTokens];
  for (int t = 0; t < kTokens; ++t) rows[t] = activations.values + (token + t) * activations.stride;
  constexpr int kBlocks = Words::kScales == 0 ? 1 : Words::kScales;
  constexpr int kWords = static_cast<int>(kGroupSize) / Words::kPerWord / kBlocks;  // of a block

  const std::byte* place = panel.data;
  for (std::int64_t group = 0; group < panel.groups; ++group, place += panel.group_bytes) {
    const std::byte* words = place + panel.scale_bytes;
    if constexpr (kFirstVisit) prefetch_ahead<Words>(place);
    for (int block = 0; block < kBlocks; ++block) {
      VectorF32 part[kPhases][kTokens][kVectors];
      for (auto& phase : part)
        for (auto& row : phase)
          for (VectorF32& sum : row) sum = hn::Zero(kF32);
      constexpr int kStep = Words::kPerWord < kPhases ? kPhases / Words::kPerWord : 1;  // words until phases repeat
      for (int first_word = block * kWords; first_word < (block + 1) * kWords; first_word += kStep) {
        static_for<kStep>([&](auto step) HWY_ATTR {
          constexpr int kWord = step;
          const std::int64_t column = group * kGroupSize + (first_word + kWord) * Words::kPerWord;
          typename Words::Loaded word[kVectors];
          for (int v = 0; v < kVectors; ++v)
            word[v] = Words::prepare(Words::load(words, first_word + kWord, first_vector + v));
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
        if constexpr (Words::kScales != 0) scale = load_scales(panel, place, block, first_vector + v);
        for (int t = 0; t < kTokens; ++t) {
          const VectorF32 sum = hn::Add(hn::Add(part[0][t][v], part[1][t][v]), hn::Add(part[2][t][v], part[3][t][v]));
          if constexpr (Words::kScales != 0) {
            total[t][v] = hn::MulAdd(scale, sum, total[t][v]);
          } else {
            total[t][v] = hn::Add(total[t][v], sum);
          }
        }
      }
    }
  }
  for (int t = 0; t < kTokens; ++t)
    for (int v = 0; v < kVectors; ++v)
      store_sums(panel, total[t][v], first_vector + v, out + (token + t) * out_stride + (first_vector + v) * kLanes);
}

// The same with q8 activations.
template <class Words, int kVectors, int kTokens, bool kFirstVisit>
HWY_INLINE void multiply_codes(const Panel& panel, int first_vector, const ActivationRows& activations,
                               std::int64_t token, float* out, std::int64_t out_stride) {
  VectorF32 total[kTokens][kVectors];
  for (int t = 0; t < kTokens; ++t)
    for (int v = 0; v < kVectors; ++v) total[t][v] = hn::Zero(kF32);
  const std::int64_t blocks = activations.stride / kGroupSize;

  const std::byte* place = panel.data;
  for (std::int64_t group = 0; group < panel.groups; ++group, place += panel.group_bytes) {
    const std::byte* words = place + panel.scale_bytes;
    if constexpr (kFirstVisit) prefetch_ahead<Words>(place);
    VectorI32 sum[kTokens][kVectors];
    for (int t = 0; t < kTokens; ++t) {
      // Codes are biased to unsigned: take bias * (sum of activation codes) away first.
      const std::int32_t surplus = Words::kBias * activations.sums[(token + t) * blocks + group];
      for (int v = 0; v < kVectors; ++v) sum[t][v] = hn::Set(kI32, -surplus);
    }
    constexpr int kWords = static_cast<int>(kGroupSize) / Words::kPerWord;
    for (int w = 0; w < kWords; ++w) {
      typename Words::Loaded word[kVectors];
      for (int v = 0; v < kVectors; ++v) word[v] = Words::load(words, w, first_vector + v);
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
      const VectorF32 weight_scale = load_scales(panel, place, 0, first_vector + v);
      for (int t = 0; t < kTokens; ++t) {
        const VectorF32 activation_scale = hn::Set(kF32, activations.scales[(token + t) * blocks + group]);
        total[t][v] = hn::MulAdd(hn::ConvertTo(kF32, sum[t][v]), hn::Mul(weight_scale, activation_scale), total[t][v]);
      }
    }
  }
  for (int t = 0; t < kTokens; ++t)
    for (int v = 0; v < kVectors; ++v)
      store_sums(panel, total[t][v], first_vector + v, out + (token + t) * out_stride + (first_vector + v) * kLanes);
}

// How many row vectors and tokens one register tile covers. FP32: 4 phases * vectors * tokens accumulators; q8: two.
constexpr bool kHasManyRegisters = HWY_MAX_BYTES >= 64;
constexpr int kFloatTokens = kHasManyRegisters ? 4 : 2;
constexpr int kCodeTokens = 4;
constexpr int kPairOfVectors = kRowVectors < 2 ? kRowVectors : 2;

// kTokens tokens on all rows of a panel.
template <class Words, bool kCodes, int kTokens, bool kFirstVisit>
HWY_INLINE void multiply_tokens(const Panel& panel, const ActivationRows& activations, std::int64_t token, float* out,
                                std::int64_t out_stride) {
  if constexpr (kCodes) {
    for (int vector = 0; vector < kRowVectors; vector += kPairOfVectors)
      multiply_codes<Words, kPairOfVectors, kTokens, kFirstVisit>(panel, vector, activations, token, out, out_stride);
  } else {
    constexpr int kVectors = kTokens == 1 || (kTokens == 2 && kHasManyRegisters) ? kPairOfVectors : 1;
    for (int vector = 0; vector < kRowVectors; vector += kVectors)
      multiply_floats<Words, kVectors, kTokens, kFirstVisit>(panel, vector, activations, token, out, out_stride);
  }
}

template <class Words, bool kCodes>
void multiply_panel(const Panel& panel, const ActivationRows& activations, float* out, std::int64_t out_stride) {
  constexpr int kTile = kCodes ? kCodeTokens : kFloatTokens;
  const std::int64_t tokens = activations.tokens;
  // Tiles of kTile tokens, then of 2, then 1; the first tile, whichever it is, is the one that meets new weights.
  std::int64_t token = 0;
  if (tokens >= kTile) {
    multiply_tokens<Words, kCodes, kTile, true>(panel, activations, 0, out, out_stride);
    for (token = kTile; token + kTile <= tokens; token += kTile)
      multiply_tokens<Words, kCodes, kTile, false>(panel, activations, token, out, out_stride);
  } else if (tokens >= 2) {
    multiply_tokens<Words, kCodes, 2, true>(panel, activations, 0, out, out_stride);
    token = 2;
  } else {
    multiply_tokens<Words, kCodes, 1, true>(panel, activations, 0, out, out_stride);
    token = 1;
  }
  for (; token + 2 <= tokens; token += 2)
    multiply_tokens<Words, kCodes, 2, false>(panel, activations, token, out, out_stride);
  if (token < tokens) multiply_tokens<Words, kCodes, 1, false>(panel, activations, token, out, out_stride);
}

// Formats whose codes are integers meet q8 activations as integers.
template <class Words>
void multiply_integers(const Panel& panel, const ActivationRows& activations, float* out, std::int64_t out_stride) {
  activations.codes != nullptr ? multiply_panel<Words, true>(panel, activations, out, out_stride)
                               : multiply_panel<Words, false>(panel, activations, out, out_stride);
}

void multiply_panels(const PackedMatrix& matrix, std::int64_t panel_begin, std::int64_t panel_end,
                     const ActivationRows& activations, float* out, std::int64_t out_stride) {
  const WeightCodec codec = matrix.codec();
  for (std::int64_t index = panel_begin; index < panel_end; ++index) {
    const Panel panel{matrix.panel(index), matrix.groups(), scale_bytes_per_panel_group(codec),
                      bytes_per_panel_group(codec), matrix.row_scales(index)};
    float* panel_out = out + index * kPanelRows;
    switch (codec.format) {
      case WeightFormat::kBF16:
        multiply_panel<BF16Words, false>(panel, activations, panel_out, out_stride);
        break;
      case WeightFormat::kQ8:
        multiply_integers<Q8Words>(panel, activations, panel_out, out_stride);
        break;
      case WeightFormat::kQ5:
        multiply_integers<Q5Words>(panel, activations, panel_out, out_stride);
        break;
      case WeightFormat::kQ4:
      case WeightFormat::kQ3:
        multiply_integers<Q4Words>(panel, activations, panel_out, out_stride);
        break;
      case WeightFormat::kFP8:
        multiply_panel<FP8Words, false>(panel, activations, panel_out, out_stride);
        break;
      case WeightFormat::kNVFP4:
        multiply_panel<NVFP4Words, false>(panel, activations, panel_out, out_stride);
        break;
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
