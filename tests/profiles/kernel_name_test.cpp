#include "profiles/timeline/kernel_name.h"

#include <gtest/gtest.h>

namespace tare::profiles {
namespace {

TEST(KernelName, DropsNamespacesParametersAndReturnTypes) {
  // void tare::engine::q4_stream<16>(unsigned char const*)
  EXPECT_EQ(short_kernel_name("_ZN4tare6engine9q4_streamILi16EEEvPKh"), "q4_stream<16>");
  // tare::engine::embed(float*, int)
  EXPECT_EQ(short_kernel_name("_ZN4tare6engine5embedEPfi"), "embed");
}

TEST(KernelName, DropsAnonymousNamespaces) {
  // void tare::(anonymous namespace)::gdn_round<128, true>(float*)
  EXPECT_EQ(short_kernel_name("_ZN4tare12_GLOBAL__N_19gdn_roundILi128ELb1EEEvPf"), "gdn_round<128, true>");
}

TEST(KernelName, ShortensTemplateArgumentsToo) {
  // void tare::engine::multiply<(tare::engine::WeightFormat)2, tare::engine::Tile<4> >(tare::engine::Operand)
  EXPECT_EQ(short_kernel_name("_ZN4tare6engine8multiplyILNS0_12WeightFormatE2ENS0_4TileILi4EEEEEvNS0_7OperandE"),
            "multiply<(WeightFormat)2, Tile<4> >");
}

TEST(KernelName, LeavesWhatIsNotMangled) {
  EXPECT_EQ(short_kernel_name("sm90_xmma_gemm_bf16bf16_f32"), "sm90_xmma_gemm_bf16bf16_f32");
  EXPECT_EQ(short_kernel_name("main_kernel"), "main_kernel");
}

}  // namespace
}  // namespace tare::profiles
