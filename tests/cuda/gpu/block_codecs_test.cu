// Keys and values with scales on the GPU against their scalar definitions, bit for bit: what is stored, what is read,
// and the operands of tensor cores.
#include <array>
#include <bit>
#include <limits>

#include "engine/backend/options.h"
#include "engine/cuda/attention/attention_block_operands.cuh"
#include "engine/cuda/attention/attention_blocks.cuh"
#include "engine/formats/float_formats.h"
#include "tests/cuda/gpu/cache_rows.h"
#include "tests/cuda/gpu/gpu_test.h"

namespace tare::engine::test {
namespace {

using BlockCodecs = GpuTest;
using BlockOperands = HopperTest;

constexpr int kThreads = kMostHeadDim / 2;
constexpr std::int64_t kSlots = 128;
constexpr CacheFormat kScaledFormats[] = {CacheFormat::kInt8, CacheFormat::kNVFP4};
constexpr int kHeadDims[] = {8, 24, 64, 72, 128, 200, 256};

// Row i of `rows` to slot first + step i.
__global__ void store_kernel(CacheFormat format, bool of_values, std::byte* run, int head_dim, const float* rows,
                             int first, int step) {
  const int slot = first + step * static_cast<int>(blockIdx.x);
  const int dim = 2 * static_cast<int>(threadIdx.x);
  const bool has_dims = dim < head_dim;
  float2 pair{0.0F, 0.0F};
  if (has_dims) pair = {rows[slot * head_dim + dim], rows[slot * head_dim + dim + 1]};
  store_block_pair(format, of_values, run, head_dim, slot, dim, has_dims, pair);
}

__global__ void load_kernel(CacheFormat format, bool of_values, const std::byte* run, int head_dim, float* rows) {
  const int slot = static_cast<int>(blockIdx.x);
  for (int dim = static_cast<int>(threadIdx.x); dim < head_dim; dim += static_cast<int>(blockDim.x)) {
    rows[slot * head_dim + dim] =
        of_values ? load_value(format, run, head_dim, slot, dim) : load_key(format, run, head_dim, slot, dim);
  }
}

// Rows of every kind: magnitudes over the whole range, zeros, one number in a block of zeros, ties of both codecs, what
// each of them holds or lets vanish, and what is not finite.
std::vector<float> rows_of_every_kind(int head_dim) {
  Philox random(31);
  std::vector<float> rows;
  for (int slot = 0; slot < static_cast<int>(kSlots); ++slot) {
    for (int dim = 0; dim < head_dim; ++dim) {
      const auto uniform = static_cast<float>(2 * random.uniform() - 1);
      const float power = std::ldexp(1.0F, slot * 2 - 140);
      float value = uniform * power;
      if (slot % 8 == 1) value = uniform * 3;
      if (slot % 8 == 2) value = std::round(uniform * 254) / 2 * 0.25F;  // halves of a code where the scale is 0.25
      if (slot % 8 == 2 && dim % 64 == 5) value = 127 * 0.25F;
      if (slot % 8 == 3) value = std::round(uniform * 24) / 4 * 0.5F;  // quarters where the scale is 0.5
      if (slot % 8 == 3 && dim % 16 == 3) value = -6 * 0.5F;
      if (slot % 8 == 4) value = dim % 64 == 9 ? uniform * 100 : (dim % 2 == 0 ? 0.0F : -0.0F);
      if (slot % 8 == 5 && dim % 48 == 7) {
        value = slot % 16 < 8 ? std::numeric_limits<float>::infinity() : -std::nanf("");
      }
      if (slot % 8 == 6) value = uniform * 5000;
      if (slot % 8 == 7) value = slot % 16 < 8 ? 0.0F : uniform * 0x1p-9F;
      rows.push_back(value);
    }
  }
  return rows;
}

TEST_F(BlockCodecs, StoreWhatTheDefinitionEncodes) {
  for (const CacheFormat format : kScaledFormats) {
    for (const int head_dim : kHeadDims) {
      for (const bool of_values : {false, true}) {
        const CacheRun run{format, of_values, head_dim};
        const std::vector<float> rows = rows_of_every_kind(head_dim);
        const DeviceBuffer memory = on_device(rows);
        PoisonedBuffer cache(static_cast<std::size_t>(kSlots * run.row_bytes()));
        std::vector<std::byte> wanted(static_cast<std::size_t>(kSlots * run.row_bytes()), std::byte{0xFF});
        const auto expect_equal = [&](const char* when) {
          synchronize();
          EXPECT_TRUE(cache.canaries_intact());
          const auto got = cache.read<std::byte>();
          for (std::size_t i = 0; i < got.size(); ++i) {
            ASSERT_EQ(static_cast<int>(got[i]), static_cast<int>(wanted[i]))
                << to_text(format) << (of_values ? " values" : " keys") << " of " << head_dim << ", byte " << i << " "
                << when;
          }
        };
        // Odd slots first: what they write must not touch their neighbours, nor be touched afterwards.
        for (const int first : {1, 0}) {
          store_kernel<<<kSlots / 2, kThreads>>>(format, of_values, cache.data(), head_dim, memory.as<float>(), first,
                                                 2);
          for (std::int64_t slot = first; slot < kSlots; slot += 2) {
            run.encode(
                wanted.data(), slot,
                std::span(rows).subspan(static_cast<std::size_t>(slot * head_dim), static_cast<std::size_t>(head_dim)));
          }
          expect_equal(first == 1 ? "after odd slots" : "after all");
        }
      }
    }
  }
}

// Random bytes: every code, and scales of every kind.
TEST_F(BlockCodecs, ReadWhatTheDefinitionDecodes) {
  for (const CacheFormat format : kScaledFormats) {
    for (const int head_dim : kHeadDims) {
      for (const bool of_values : {false, true}) {
        const CacheRun run{format, of_values, head_dim};
        Philox random(32);
        std::vector<std::byte> bytes(static_cast<std::size_t>(kSlots * run.row_bytes()));
        for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
        const DeviceBuffer cache = on_device(bytes);
        PoisonedBuffer rows(static_cast<std::size_t>(kSlots * head_dim) * sizeof(float));
        load_kernel<<<kSlots, kThreads>>>(format, of_values, cache.data(), head_dim, rows.as<float>());
        synchronize();
        const auto got = rows.read<float>();
        int not_numbers = 0;
        for (std::int64_t slot = 0; slot < kSlots; ++slot) {
          for (int dim = 0; dim < head_dim; ++dim) {
            const float wanted = run.decode(bytes.data(), slot, dim);
            const float value = got[static_cast<std::size_t>(slot * head_dim + dim)];
            not_numbers += std::isnan(wanted) ? 1 : 0;
            ASSERT_TRUE(std::isnan(wanted)
                            ? std::isnan(value)
                            : std::bit_cast<std::uint32_t>(value) == std::bit_cast<std::uint32_t>(wanted))
                << to_text(format) << (of_values ? " values" : " keys") << " of " << head_dim << ", slot " << slot
                << ", dim " << dim << ": " << value << ", wanted " << wanted;
          }
        }
        if (head_dim == kMostHeadDim) EXPECT_GT(not_numbers, 0);
      }
    }
  }
}

// Code bytes (thread) and scales (block) as operands: of nvfp4 the two halves of the byte, of int8 the code.
__global__ void operand_kernel(CacheFormat format, std::uint32_t* out) {
#if __CUDA_ARCH__ >= 900
  const std::uint32_t byte = threadIdx.x;
  const std::uint32_t scale = blockIdx.x;
  const float of_bf16 = __uint_as_float(scale << 16);
  out[scale * 256 + byte] = format == CacheFormat::kNVFP4
                                ? scaled_e2m1<0, 1>(e2m1_bytes(byte), e4m3_twice(scale))
                                : scaled_int8(int8_halves<0>(byte * 0x0101U), {of_bf16, of_bf16});
#endif
}

std::uint32_t halves(float first, float second) {
  return static_cast<std::uint32_t>(float_to_float16(first)) | static_cast<std::uint32_t>(float_to_float16(second))
                                                                   << 16;
}
bool is_nan(std::uint32_t half) {
  return (half & 0x7FFFU) > 0x7C00U;
}
bool same_halves(std::uint32_t got, std::uint32_t wanted) {
  for (const int shift : {0, 16}) {
    const std::uint32_t a = got >> shift & 0xFFFFU;
    const std::uint32_t b = wanted >> shift & 0xFFFFU;
    if (is_nan(a) != is_nan(b) || (!is_nan(a) && a != b)) return false;
  }
  return true;
}

TEST_F(BlockOperands, EveryNumberOfNVFP4IsExact) {
  PoisonedBuffer out(256 * 256 * sizeof(std::uint32_t));
  operand_kernel<<<256, 256>>>(CacheFormat::kNVFP4, out.as<std::uint32_t>());
  synchronize();
  const auto got = out.read<std::uint32_t>();
  for (std::uint32_t scale = 0; scale < 256; ++scale) {
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      const float first = nvfp4_value(static_cast<std::uint8_t>(scale), static_cast<std::uint8_t>(byte & 0xFU));
      const float second = nvfp4_value(static_cast<std::uint8_t>(scale), static_cast<std::uint8_t>(byte >> 4));
      if (!std::isnan(first)) ASSERT_EQ(float16_to_float(float_to_float16(first)), first);
      ASSERT_TRUE(same_halves(got[scale * 256 + byte], halves(first, second)))
          << "scale " << scale << ", byte " << byte;
    }
  }
}

TEST_F(BlockOperands, ValuesOfInt8AreRoundedOnce) {
  constexpr std::uint32_t kScales = 1U << 16;
  PoisonedBuffer out(std::size_t{kScales} * 256 * sizeof(std::uint32_t));
  operand_kernel<<<kScales, 256>>>(CacheFormat::kInt8, out.as<std::uint32_t>());
  synchronize();
  const auto got = out.read<std::uint32_t>();
  for (std::uint32_t scale = 0; scale < kScales; ++scale) {
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      const float value = int8_value(static_cast<std::uint16_t>(scale), static_cast<std::int8_t>(byte));
      ASSERT_TRUE(same_halves(got[std::size_t{scale} * 256 + byte], halves(value, value)))
          << "scale " << scale << ", code " << static_cast<int>(static_cast<std::int8_t>(byte));
    }
  }
}

}  // namespace
}  // namespace tare::engine::test
