#include "profiles/format_savings.h"

#include <gtest/gtest.h>

namespace tare::profiles {
namespace {

using engine::AccessPattern;
using engine::BackendKind;
using engine::TensorClass;
using engine::WeightFormat;

engine::InventoryEntry streamed(const std::string& tensor, const std::string& format, std::uint64_t bytes,
                                std::uint64_t elements) {
  return {tensor, format, AccessPattern::kStream, bytes, bytes, elements};
}

TEST(FormatSavings, SortsTensorsIntoTheClassesThatHaveAFormat) {
  const auto found = [](const std::string& tensor, const std::string& format = "q4") {
    return class_of(streamed(tensor, format, 100, 200));
  };
  EXPECT_EQ(found("layers.3.self_attn.q_proj.weight + layers.3.self_attn.k_proj.weight"), TensorClass::kAttention);
  EXPECT_EQ(found("layers.0.linear_attn.in_proj_qkv.weight + layers.0.linear_attn.in_proj_z.weight"),
            TensorClass::kGdn);
  EXPECT_EQ(found("layers.0.mlp.down_proj.weight"), TensorClass::kMlp);
  EXPECT_EQ(found("lm_head.weight"), TensorClass::kHead);
  EXPECT_EQ(found("embed_tokens.weight"), TensorClass::kHead);  // streamed: a tied head
  EXPECT_EQ(found("layers.0.linear_attn.in_proj_b.weight + layers.0.linear_attn.in_proj_a.weight", "bf16"),
            std::nullopt);
  EXPECT_EQ(found("layers.0.linear_attn.conv1d.weight", "fp32"), std::nullopt);
  engine::InventoryEntry gathered = streamed("embed_tokens.weight", "bf16", 100, 200);
  gathered.pattern = AccessPattern::kGather;
  EXPECT_EQ(class_of(gathered), std::nullopt);
  EXPECT_EQ(class_of(streamed("mtp.fc.weight", "not loaded", 0, 200)), std::nullopt);
}

TEST(FormatSavings, AreTheBytesOfAGroupOf64WithItsScale) {
  EXPECT_DOUBLE_EQ(bytes_per_weight(WeightFormat::kBF16) * 64, 128);
  EXPECT_DOUBLE_EQ(bytes_per_weight(WeightFormat::kQ8) * 64, 66);
  EXPECT_DOUBLE_EQ(bytes_per_weight(WeightFormat::kFP8) * 64, 66);
  EXPECT_DOUBLE_EQ(bytes_per_weight(WeightFormat::kQ4) * 64, 34);
  EXPECT_DOUBLE_EQ(bytes_per_weight(WeightFormat::kQ3) * 64, 26);
}

TEST(FormatSavings, ChangeTheFloorByTheirBytesOverTheRate) {
  const engine::WeightInventory inventory{{streamed("layers.0.mlp.up_proj.weight", "q4", 34000, 64000),
                                           streamed("layers.1.mlp.up_proj.weight", "q8", 66000, 64000),
                                           streamed("norm.weight", "fp32", 400, 100)}};
  const std::vector<FormatSaving> savings = format_savings(inventory, BackendKind::kCuda, 1e6);
  ASSERT_EQ(savings.size(), 7U);  // one class, every format
  for (const FormatSaving& saving : savings) {
    EXPECT_EQ(saving.tensors, TensorClass::kMlp);
    EXPECT_EQ(saving.bytes, 100000U);
    EXPECT_DOUBLE_EQ(saving.bytes_then, 128000 * bytes_per_weight(saving.format));
    EXPECT_NEAR(saving.floor_change_s, (saving.bytes_then - 100000) / 1e6, 1e-12);
  }
  EXPECT_EQ(savings.back().format, WeightFormat::kQ3);
  EXPECT_LT(savings.back().floor_change_s, 0);
  EXPECT_GT(savings.front().floor_change_s, 0);
  // The CPU has no fp8 that is smaller than q8 and no q3 that is smaller than q4.
  EXPECT_EQ(format_savings(inventory, BackendKind::kCpu, 1e6).size(), 4U);
}

}  // namespace
}  // namespace tare::profiles
