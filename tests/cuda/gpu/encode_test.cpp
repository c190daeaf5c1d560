// Making and encoding weights on the GPU: every bit equals the host's.
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "base/error.h"
#include "engine/backend/options.h"
#include "engine/checkpoint/synthetic.h"
#include "engine/cuda/product/product.h"
#include "engine/cuda/weights/encode_tiles.h"
#include "engine/cuda/weights/synthetic_weights.h"
#include "tests/cuda/gpu/encode_conversions.h"
#include "tests/cuda/gpu/gpu_test.h"
#include "tests/cuda/gpu/loading_oracle.h"
#include "tests/cuda/gpu/sanitized.h"

namespace tare::engine::test {
namespace {

class Synthetic : public GpuTest {};
class Conversions : public GpuTest {};
class Encoding : public GpuTest {};

std::vector<std::uint16_t> synthetic_on_host(const SyntheticRecipe& recipe, std::uint64_t first, std::size_t count) {
  std::vector<std::uint16_t> weights(count);
  for (std::size_t i = 0; i < count; ++i) weights[i] = synthetic_weight(recipe, first + i);
  return weights;
}

TEST_F(Synthetic, EveryLargeRoleHasTheHostsBits) {
  for (const char* sizes : {"hidden=65,layers=4,vocab=1037,intermediate=131,tied=0?seed=3",
                            "hidden=128,layers=8,vocab=512,intermediate=256,tied=0?seed=18446744073709551615"}) {
    const SyntheticCheckpoint model(std::string("synthetic:") + sizes);
    for (const char* name : {"embed_tokens.weight", "lm_head.weight", "layers.1.mlp.up_proj.weight",
                             "layers.0.linear_attn.in_proj_a.weight", "layers.2.linear_attn.out_proj.weight",
                             "layers.3.self_attn.o_proj.weight", "layers.0.mlp.down_proj.weight"}) {
      const Tensor tensor = model.tensor(name);
      const PoisonedBuffer out(tensor.bytes.size());
      launch_synthetic_weights(model.recipe(name), 0, tensor.bytes.size() / 2, out.as<std::uint16_t>(), {});
      synchronize();
      EXPECT_TRUE(same_bytes(read_bytes(out.data(), tensor.bytes.size()), tensor.bytes)) << name << " of " << sizes;
      EXPECT_TRUE(out.canaries_intact()) << name;
    }
  }
}

TEST_F(Synthetic, AnyRunOfElementsCanBeMadeAlsoFarBeyond32Bits) {
  const SyntheticCheckpoint model("synthetic:hidden=64,layers=4?seed=77");
  const SyntheticRecipe recipe = model.recipe("layers.0.mlp.gate_proj.weight");
  for (const std::uint64_t first :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{7}, std::uint64_t{8}, (std::uint64_t{1} << 32) - 3,
        (std::uint64_t{1} << 35) - 13, (std::uint64_t{1} << 41) + 5}) {
    for (const std::size_t count : {1U, 5U, 8U, 64U, 1003U, 70'001U}) {
      for (const std::size_t shift : {0U, 1U}) {  // a target that no 16-byte store can reach
        const PoisonedBuffer out(2 * (count + shift));
        launch_synthetic_weights(recipe, first, count, out.as<std::uint16_t>() + shift, {});
        synchronize();
        EXPECT_TRUE(same_bytes(read_bytes(out.data() + 2 * shift, 2 * count), synthetic_on_host(recipe, first, count)))
            << first << " + " << count;
        if (shift == 1) {
          EXPECT_EQ(read_bytes(out.data(), 2), std::vector<std::byte>(2, std::byte{0xFF}));
        }
        EXPECT_TRUE(out.canaries_intact());
      }
    }
  }
}

TEST_F(Synthetic, AnotherSeedOrNameGivesOtherBits) {  // the control of the comparisons above
  const SyntheticCheckpoint model("synthetic:hidden=64,layers=4?seed=77");
  SyntheticRecipe recipe = model.recipe("layers.0.mlp.gate_proj.weight");
  const std::vector<std::uint16_t> wanted = synthetic_on_host(recipe, 0, 4096);
  const PoisonedBuffer out(2 * wanted.size());
  for (const bool seed : {true, false}) {
    SyntheticRecipe other = recipe;
    ++(seed ? other.seed : other.stream);
    launch_synthetic_weights(other, 0, wanted.size(), out.as<std::uint16_t>(), {});
    synchronize();
    EXPECT_FALSE(same_bytes(read_bytes(out.data(), 2 * wanted.size()), wanted));
  }
}

TEST_F(Synthetic, SmallRolesAreRefused) {
  const SyntheticCheckpoint model("synthetic:hidden=64,layers=4?seed=1");
  const PoisonedBuffer out(256);
  for (const char* name : {"norm.weight", "layers.0.linear_attn.A_log", "layers.0.linear_attn.norm.weight",
                           "layers.0.linear_attn.dt_bias", "layers.0.linear_attn.conv1d.weight"})
    EXPECT_THROW(launch_synthetic_weights(model.recipe(name), 0, 4, out.as<std::uint16_t>(), {}), Error) << name;
}

// All upper halves of FP32, each with lower halves around the ties of E4M3, E2M1 and FP16.
TEST_F(Conversions, NarrowFloatsAndScalesAreTheHostsForAllKindsOfNumbers) {
  std::vector<float> values;
  for (std::uint32_t high = 0; high < 0x1'0000U; ++high)
    for (const std::uint32_t low : {0x0000U, 0x0001U, 0x0FFFU, 0x1000U, 0x1001U, 0x7FFFU, 0x8000U, 0xF000U, 0xFFFFU})
      values.push_back(std::bit_cast<float>(high << 16 | low));
  const DeviceBuffer input = on_device(values);
  const PoisonedBuffer codes(values.size());
  const PoisonedBuffer small_codes(values.size());
  const PoisonedBuffer scales(2 * values.size());
  launch_conversions(input.as<float>(), std::ssize(values), codes.as<std::uint8_t>(), small_codes.as<std::uint8_t>(),
                     scales.as<std::uint16_t>());
  synchronize();
  const std::vector<std::uint8_t> found = codes.read<std::uint8_t>();
  const std::vector<std::uint8_t> found_small = small_codes.read<std::uint8_t>();
  const std::vector<std::uint16_t> found_scales = scales.read<std::uint16_t>();
  int wrong = 0;
  for (std::size_t i = 0; i < values.size() && wrong < 10; ++i) {
    const bool code_fits = found[i] == float_to_e4m3(values[i]);
    EXPECT_TRUE(code_fits) << values[i] << ": " << int{found[i]} << " instead of " << int{float_to_e4m3(values[i])};
    const float magnitude = std::fabs(values[i]);
    const bool small_fits = std::isnan(magnitude) || found_small[i] == float_to_e2m1(values[i]);
    EXPECT_TRUE(small_fits) << values[i] << ": " << int{found_small[i]} << ", E2M1 " << int{float_to_e2m1(values[i])};
    std::uint16_t scale = float_to_float16(magnitude);
    if (scale == 0 && magnitude > 0) scale = kFloat16LeastSubnormal;
    const bool scale_fits = std::isnan(magnitude) ? found_scales[i] > kFloat16Infinity : found_scales[i] == scale;
    EXPECT_TRUE(scale_fits) << values[i] << ": " << found_scales[i] << " instead of " << scale;
    wrong += (code_fits ? 0 : 1) + (small_fits ? 0 : 1) + (scale_fits ? 0 : 1);
  }
}

// Rows whose groups take turns in everything that an encoder can do wrong. `wide`: they will be FP32, so that the
// largest weight may be the largest that q3 has a scale for; BF16 would round it up.
std::vector<float> hard_rows(std::int64_t rows, std::int64_t columns, unsigned seed, bool wide) {
  const float largest = wide ? 65504.0F * 3 : 191.0F * 1024;
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  std::vector<float> values;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      const float drawn = normal(generator);
      const float sign = drawn < 0 ? -1.0F : 1.0F;
      const auto i = static_cast<float>(column % 64);
      const auto largest_first = [&](float most, float other) { return i == 0 ? sign * most : other; };
      switch ((row + 3 * (column / 64)) % 12) {
        case 0:  // zeros of both signs
          values.push_back(sign * 0.0F);
          break;
        case 1:  // scale exactly 1, ties between codes; by most code
          values.push_back(largest_first(127, sign * (i + 0.5F)));
          break;
        case 2:
          values.push_back(largest_first(7, sign * (static_cast<float>(column % 7) + 0.5F)));
          break;
        case 3:
          values.push_back(largest_first(3, sign * (static_cast<float>(column % 3) + 0.5F)));
          break;
        case 4:  // scale exactly 1, ties of E4M3
          values.push_back(largest_first(
              448, sign * std::ldexp(8.5F + static_cast<float>(column % 8), static_cast<int>(column % 15) - 10)));
          break;
        case 5:  // subnormal scales
          values.push_back(drawn * 0x1p-18F);
          break;
        case 6:  // scales below the least: the floor
          values.push_back(sign * i * 0x1p-26F);
          break;
        case 7:  // subnormal numbers
          values.push_back(drawn * 0x1p-126F);
          break;
        case 8:  // the largest scale that FP16 holds, for q3; large ones for the others
          values.push_back(largest_first(largest, drawn * 1e6F));
          break;
        case 9:  // absmax / most a hair above an FP16 number: the scale rounds down, the largest weight is clamped
          values.push_back(largest_first(448 * 0x1.002p-9F, drawn));
          break;
        case 10:  // one magnitude
          values.push_back(sign * 0.0123F);
          break;
        default:
          values.push_back(drawn);
      }
    }
  }
  return values;
}

// Ordinary weights whose groups differ in size by up to 2^13, so that scales under one of the tensor differ as much.
std::vector<float> soft_rows(std::int64_t rows, std::int64_t columns, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  std::vector<float> values;
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column)
      values.push_back(std::ldexp(normal(generator), -static_cast<int>((row + column / 16) % 14)));
  return values;
}
// The rows of a comparison: hard ones; soft ones where a tensor's scale would leave nothing of their ordinary weights.
std::vector<float> rows_for(WeightCodec codec, std::int64_t rows, std::int64_t columns, unsigned seed, bool wide) {
  return has_tensor_scale(codec) ? soft_rows(rows, columns, seed) : hard_rows(rows, columns, seed, wide);
}
// The rows' scales as the encoder reads them; no bytes where the codec has none.
DeviceBuffer device_row_scales(WeightCodec codec, std::span<const float> values, std::int64_t columns) {
  std::vector<float> scales = host_row_scales(codec, values, columns);
  if (!scales.empty()) scales.resize((scales.size() + kUnitRows - 1) / kUnitRows * kUnitRows, 1.0F);
  return on_device(scales);
}

struct Problem {
  WeightCodec codec;
  bool wide;
  std::int64_t rows;
  std::int64_t columns;
  bool hard;
  [[nodiscard]] std::string text() const {
    return fmt::format("{} {} {} {}x{}", to_text(codec), hard ? "hard" : "soft", wide ? "fp32" : "bf16", rows, columns);
  }
};

std::vector<Problem> problems() {
  std::vector<Problem> all;
  std::size_t turn = 0;
  for (const WeightCodec codec : kAllCodecs)
    for (const bool wide : {false, true})
      for (const auto& [rows, columns] :
           {std::pair{1, 1}, {1, 64}, {70, 100}, {255, 63}, {257, 65}, {300, 1000}, {768, 640}})
        for (const bool hard : in_turn("kinds of rows", {false, true}, 2, turn++))
          all.push_back({codec, wide, rows, columns, hard});
  return all;
}

// The source as the device gets it.
DeviceBuffer source_of(std::vector<float>& values, bool wide) {
  if (wide) return on_device(values);
  const std::vector<std::uint16_t> bits = host_bfloat16(values);
  std::transform(bits.begin(), bits.end(), values.begin(), bfloat16_to_float);
  return on_device(bits);
}

std::uint64_t read_fault(const PoisonedBuffer& fault) {
  return fault.read<std::uint64_t>()[0];
}

TEST_F(Encoding, TilesAreTheHostsByteForByte) {
  for (const Problem& problem : problems()) {
    std::vector<float> values = problem.hard ? hard_rows(problem.rows, problem.columns, 5, problem.wide)
                                             : soft_rows(problem.rows, problem.columns, 5);
    const DeviceBuffer source = source_of(values, problem.wide);
    const DeviceBuffer scales = device_row_scales(problem.codec, values, problem.columns);
    std::vector<std::byte> wanted = host_tiles(problem.codec, values, problem.columns);
    wanted.resize(static_cast<std::size_t>(unit_run_bytes(problem.codec, problem.rows, problem.columns)));
    const PoisonedBuffer tiles(wanted.size());
    const PoisonedBuffer fault(sizeof(std::uint64_t));  // poisoned: no fault
    launch_encode_tiles(problem.codec, {source.data(), problem.wide, 0, problem.rows, problem.columns},
                        scales.as<float>(), tiles.data(), fault.as<std::uint64_t>(), {});
    synchronize();
    EXPECT_TRUE(same_bytes(read_bytes(tiles.data(), wanted.size()), wanted)) << problem.text();
    EXPECT_TRUE(tiles.canaries_intact()) << problem.text();
    EXPECT_EQ(read_fault(fault), kNoFault) << problem.text();
  }
}

TEST_F(Encoding, ARunOfRowBlocksFillsItsPlaceAndNothingElse) {
  for (const WeightCodec codec : kAllCodecs) {
    constexpr std::int64_t kColumns = 200;
    std::vector<float> values = rows_for(codec, 700, kColumns, 6, false);
    const DeviceBuffer source = source_of(values, false);
    const DeviceBuffer scales = device_row_scales(codec, values, kColumns);
    std::vector<std::byte> wanted = host_tiles(codec, values, kColumns);
    wanted.resize(static_cast<std::size_t>(unit_run_bytes(codec, 700, kColumns)));
    const std::size_t row_block = wanted.size() / 3;
    const PoisonedBuffer tiles(wanted.size());
    const PoisonedBuffer fault(sizeof(std::uint64_t));
    for (const std::int64_t first : {512, 256, 0}) {
      const std::int64_t rows = std::min<std::int64_t>(256, 700 - first);
      launch_encode_tiles(codec, {source.data() + 2 * first * kColumns, false, first, rows, kColumns},
                          scales.as<float>(), tiles.data(), fault.as<std::uint64_t>(), {});
      synchronize();
      const std::vector<std::byte> found = read_bytes(tiles.data(), wanted.size());
      const std::size_t begin = static_cast<std::size_t>(first / 256) * row_block;
      EXPECT_TRUE(same_bytes(std::span(found).subspan(begin), std::span(wanted).subspan(begin))) << to_text(codec);
      EXPECT_TRUE(std::all_of(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(begin), [](std::byte byte) {
        return byte == std::byte{0xFF};
      })) << to_text(codec);
    }
    EXPECT_TRUE(tiles.canaries_intact());
    EXPECT_THROW(launch_encode_tiles(codec, {source.data(), false, 128, 128, kColumns}, scales.as<float>(),
                                     tiles.data(), fault.as<std::uint64_t>(), {}),
                 Error);
  }
}

TEST_F(Encoding, OneChangedWeightChangesTheTiles) {  // the control of the comparisons above
  for (const WeightCodec codec : kAllCodecs) {
    std::vector<float> values = rows_for(codec, 256, 128, 7, true);
    std::vector<std::byte> before = host_tiles(codec, values, 128);
    before.resize(static_cast<std::size_t>(unit_run_bytes(codec, 256, 128)));
    const DeviceBuffer scales = device_row_scales(codec, values, 128);
    values[11 * 128 + 5] += 0.05F;  // of ordinary numbers of standard deviation 0.02
    const DeviceBuffer source = source_of(values, true);
    const PoisonedBuffer tiles(before.size());
    const PoisonedBuffer fault(sizeof(std::uint64_t));
    launch_encode_tiles(codec, {source.data(), true, 0, 256, 128}, scales.as<float>(), tiles.data(),
                        fault.as<std::uint64_t>(), {});
    synchronize();
    EXPECT_FALSE(same_bytes(read_bytes(tiles.data(), before.size()), before)) << to_text(codec);
  }
}

// The hard rows do what they are for: host codes at both ends, scales at both ends and zero.
TEST(EncodingOracle, TheHardRowsReachEveryCodeAndBothEndsOfTheScales) {
  const std::vector<float> values = hard_rows(240, 640, 5, true);
  for (const int most : {kQ8MostCode, kQ5MostCode, kQ4MostCode, kQ3MostCode}) {
    std::vector<int> seen(static_cast<std::size_t>(2 * most + 1));
    bool zero = false, floor = false, largest = false;
    for (std::size_t begin = 0; begin < values.size(); begin += 640) {
      const EncodedRow row = encode_row(std::span(values).subspan(begin, 640), most);
      for (const std::int8_t code : row.codes) ++seen[static_cast<std::size_t>(code + most)];
      for (const std::uint16_t scale : row.scales) {
        zero = zero || scale == 0;
        floor = floor || scale == kFloat16LeastSubnormal;
        largest = largest || (most == kQ3MostCode && scale == 0x7BFF);
      }
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 0), 0) << most;
    EXPECT_TRUE(zero && floor && (largest || most != kQ3MostCode)) << most;
  }
}

TEST_F(Encoding, PlainRowsAreRoundedToNearestEven) {
  for (const bool wide : {false, true}) {
    std::vector<float> values = hard_rows(70, 101, 8, wide);
    const DeviceBuffer source = source_of(values, wide);
    const PoisonedBuffer out(2 * values.size());
    const PoisonedBuffer fault(sizeof(std::uint64_t));
    const std::size_t half = 2 * 101 * 30;  // rows 30.. first
    for (const std::int64_t first : {30, 0})
      launch_store_rows({source.data() + first * 101 * (wide ? 4 : 2), wide, first, first == 0 ? 30 : 40, 101},
                        out.as<std::uint16_t>(), fault.as<std::uint64_t>(), {});
    synchronize();
    ASSERT_LT(half, 2 * values.size());
    EXPECT_TRUE(same_bytes(read_bytes(out.data(), 2 * values.size()), host_bfloat16(values))) << wide;
    EXPECT_TRUE(out.canaries_intact());
    EXPECT_EQ(read_fault(fault), kNoFault);
  }
}

TEST_F(Encoding, RowsSayTheirLargestWeightAndTheFirstThatIsNotFinite) {
  for (const bool wide : {false, true}) {
    std::vector<float> values = soft_rows(70, 101, 12);
    values[3 * 101 + 100] = -7.25F;
    for (const bool bad : {false, true}) {
      if (bad) values[5 * 101 + 33] = values[60 * 101] = std::numeric_limits<float>::infinity();
      const DeviceBuffer source = source_of(values, wide);
      const PoisonedBuffer absmax(70 * sizeof(float));
      const PoisonedBuffer fault(sizeof(std::uint64_t));
      const std::int64_t bytes = wide ? 4 : 2;
      launch_row_absmax({source.data() + 30 * 101 * bytes, wide, 30, 40, 101}, absmax.as<float>(),
                        fault.as<std::uint64_t>(), {});
      launch_row_absmax({source.data(), wide, 0, 30, 101}, absmax.as<float>(), fault.as<std::uint64_t>(), {});
      synchronize();
      EXPECT_TRUE(absmax.canaries_intact());
      EXPECT_EQ(read_fault(fault), bad ? 5U * 101 + 33 : kNoFault);
      const std::vector<float> found = absmax.read<float>();
      for (std::size_t row = 0; row < 70; ++row) {
        const float wanted = absmax_of(std::span(values).subspan(row * 101, 101));
        EXPECT_EQ(found[row], wanted) << row;
      }
      EXPECT_EQ(found[3], 7.25F);
    }
  }
}

// Where the first fault of a 300 x 200 matrix is said to be when `spoil` has changed it; rows 256.. are encoded first.
template <class Spoil>
std::uint64_t fault_after(WeightCodec codec, bool plain, const Spoil& spoil) {
  std::vector<float> values = hard_rows(300, 200, 9, true);
  const DeviceBuffer scales = device_row_scales(codec, values, 200);
  spoil(values);
  const DeviceBuffer source = on_device(values);
  const PoisonedBuffer tiles(static_cast<std::size_t>(tile_bytes(codec, 300, 200)));
  const PoisonedBuffer fault(sizeof(std::uint64_t));
  for (const std::int64_t first : {256, 0}) {
    const StagedRows rows{source.data() + 4 * first * 200, true, first, first == 0 ? 256 : 44, 200};
    if (plain) {
      launch_store_rows(rows, tiles.as<std::uint16_t>(), fault.as<std::uint64_t>(), {});
    } else {
      launch_encode_tiles(codec, rows, scales.as<float>(), tiles.data(), fault.as<std::uint64_t>(), {});
    }
  }
  synchronize();
  return read_fault(fault);
}

TEST_F(Encoding, FaultsAreReportedWithTheFirstPlace) {
  constexpr std::size_t kLate = 257 * 200 + 133;
  constexpr std::size_t kEarly = 3 * 200 + 199;
  for (const WeightCodec codec : kAllCodecs) {
    for (const float bad : {std::nanf(""), -std::numeric_limits<float>::infinity()}) {
      EXPECT_EQ(fault_after(codec, false, [&](auto& values) { values[kLate] = bad; }), 257U * 200 + 128)
          << to_text(codec);
      EXPECT_EQ(fault_after(codec, false, [&](auto& values) { values[kLate] = values[kEarly] = bad; }), 3U * 200 + 192)
          << to_text(codec);
    }
    const float most = codec.format == WeightFormat::kQ8   ? 127.0F
                       : codec.format == WeightFormat::kQ5 ? 15.0F
                       : codec.format == WeightFormat::kQ4 ? 7.0F
                       : codec.format == WeightFormat::kQ3 ? 3.0F
                                                           : 448.0F;
    const bool has_most = codec.format != WeightFormat::kBF16 && !has_tensor_scale(codec);
    const std::uint64_t overflow = has_most ? 3U * 200 + 192 : kNoFault;
    EXPECT_EQ(fault_after(codec, false, [&](auto& values) { values[kEarly] = -65520.0F * most; }), overflow);
    EXPECT_EQ(fault_after(codec, false, [&](auto& values) { values[kEarly] = 65519.0F * most; }), kNoFault);
  }
  EXPECT_EQ(fault_after(WeightFormat::kBF16, true, [&](auto& values) { values[kLate] = std::nanf(""); }), kLate);
  EXPECT_EQ(fault_after(WeightFormat::kBF16, true, [&](auto& values) { values[kLate] = 1e30F; }), kNoFault);
}

}  // namespace
}  // namespace tare::engine::test
