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
            "multiply<(WeightFormat)2, Tile<4>>");
}

// One kernel has one name, whether CUPTI or Nsight Systems recorded it.
TEST(KernelName, IsTheSameFromASignature) {
  EXPECT_EQ(short_kernel_name("void tare::engine::q4_stream<(int)16>(const unsigned char *)"), "q4_stream<16>");
  EXPECT_EQ(short_kernel_name("tare::engine::embed(float *, int)"), "embed");
  EXPECT_EQ(short_kernel_name("void tare::<unnamed>::gdn_round<(int)128, (bool)1>(float *)"), "gdn_round<128, true>");
  EXPECT_EQ(short_kernel_name("void tare::(anonymous namespace)::gdn_round<(int)128, (bool)0>(float *)"),
            "gdn_round<128, false>");
  EXPECT_EQ(short_kernel_name("void tare::engine::multiply<(tare::engine::WeightFormat)2, tare::engine::Tile<(int)4>>"
                              "(tare::engine::Operand)"),
            "multiply<(WeightFormat)2, Tile<4>>");
}

// void copy<16u, 4ul, float*>(int), in both spellings; 2u of a name stays.
TEST(KernelName, WritesNumbersAndPointersInOneWay) {
  EXPECT_EQ(short_kernel_name("_Z4copyILj16ELm4EPfEvi"), "copy<16, 4, float*>");
  EXPECT_EQ(short_kernel_name("void copy<(unsigned int)16, (unsigned long)4, float *>(int)"), "copy<16, 4, float*>");
  EXPECT_EQ(short_kernel_name("void sm90_2u<A<B<C<(int)1> > > >(int)"), "sm90_2u<A<B<C<1>>>>");
}

TEST(KernelName, DropsEnclosingClassTemplates) {
  EXPECT_EQ(short_kernel_name("void lib::Gemm<lib::Shape<(int)64>, float>::run<(int)2>(lib::Params)"), "run<2>");
  EXPECT_EQ(short_kernel_name("void lib::device_kernel<lib::Gemm<lib::Shape<(int)64>>::Core>(T1::Params)"),
            "device_kernel<Core>");
}

TEST(KernelName, LeavesWhatIsNotMangled) {
  EXPECT_EQ(short_kernel_name("f"), "f");  // which demangles to the type float
  EXPECT_EQ(short_kernel_name("_Znot_mangled_at_all"), "_Znot_mangled_at_all");
  EXPECT_EQ(short_kernel_name("<unknown kernel #17>"), "<unknown kernel #17>");
  EXPECT_EQ(short_kernel_name("sm90_xmma_gemm_bf16bf16_f32"), "sm90_xmma_gemm_bf16bf16_f32");
  EXPECT_EQ(short_kernel_name("main_kernel"), "main_kernel");
}

}  // namespace
}  // namespace tare::profiles
