// What the reference on a GPU says it will take, without one.
#include <gtest/gtest.h>

#include "base/error.h"
#include "engine/streamed/cuda/cuda_streamed.h"

namespace tare::engine {
namespace {

constexpr std::uint64_t kGiga = 1'000'000'000;
constexpr StreamedShape kShape{44, 2048};

TEST(StreamedMemory, OfThe27BFitsTheHostAndHoldsAllWindowsOnAnH200) {
  const auto model = open_checkpoint("synthetic:27b?seed=1");
  const StreamedMemory memory = plan_cuda_streamed_in(*model, kShape, 139 * kGiga, 8 * kGiga);
  EXPECT_EQ(memory.slots, 44);
  EXPECT_LT(total_bytes(memory.device), 20 * kGiga);
  EXPECT_LT(total_bytes(memory.host), 1 * kGiga);
}

TEST(StreamedMemory, ThatActivationsMayNotTakeIsSpilled) {
  const auto model = open_checkpoint("synthetic:27b?seed=1");
  EXPECT_EQ(plan_cuda_streamed_in(*model, kShape, 139 * kGiga, 3 * kGiga).slots, 8);  // a batch of 16,384 tokens
  EXPECT_EQ(plan_cuda_streamed_in(*model, kShape, 14 * kGiga, 8 * kGiga).slots, 8);
}

TEST(StreamedMemory, ThatIsNotThereIsAnErrorThatNamesIt) {
  const auto model = open_checkpoint("synthetic:27b?seed=1");
  try {
    (void)plan_cuda_streamed_in(*model, kShape, 8 * kGiga, 8 * kGiga);
    FAIL() << "fits into 8 GB";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kEnvironment);
    EXPECT_NE(error.parts().what.find("8.0 GB are free"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tare::engine
