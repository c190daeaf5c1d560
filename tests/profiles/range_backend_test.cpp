#include "profiles/nvtx/range_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/decode_fake_backend.h"

namespace tare::profiles {
namespace {

class Noted final : public RangeSink {
 public:
  void push(const char* name) override { text_ += std::string(name) + "("; }
  void pop() override { text_ += ")"; }
  // What was pushed and popped since the last call.
  std::string take() { return std::exchange(text_, {}); }

 private:
  std::string text_;
};

const std::vector<std::int32_t> kTokens = {1, 2, 3};

TEST(RangeBackend, NestsTheRangesOfARound) {
  const auto noted = std::make_shared<Noted>();
  const auto backend = with_ranges(std::make_unique<engine::FakeBackend>(50, 200), noted);
  (void)backend->prefill(kTokens);
  EXPECT_EQ(noted->take(), "prefill()");
  (void)backend->verify(kTokens);
  EXPECT_EQ(noted->take(), "round(verify()");
  backend->commit(2);
  EXPECT_EQ(noted->take(), "commit())");
  EXPECT_EQ(backend->frontier(), 5);
}

// The fake backend refuses a verify before the commit; the round that it was to begin has begun.
TEST(RangeBackend, EndsRoundsThatAreNotCommittedAndPassesThatFail) {
  const auto noted = std::make_shared<Noted>();
  {
    const auto backend = with_ranges(std::make_unique<engine::FakeBackend>(50, 200), noted);
    (void)backend->prefill(kTokens);
    (void)backend->verify(kTokens);
    EXPECT_THROW((void)backend->verify(kTokens), std::logic_error);
    EXPECT_EQ(noted->take(), "prefill()round(verify())round(verify()");
    backend->reset();
    EXPECT_EQ(noted->take(), ")");
    (void)backend->prefill(kTokens);
    (void)backend->verify(kTokens);
    EXPECT_EQ(noted->take(), "prefill()round(verify()");
  }
  EXPECT_EQ(noted->take(), ")");
}

TEST(RangeBackend, ChangesNothingElse) {
  const auto noted = std::make_shared<Noted>();
  engine::FakeBackend plain(50, 200);
  const auto ranged = with_ranges(std::make_unique<engine::FakeBackend>(50, 200), noted);
  (void)plain.prefill(kTokens);
  (void)ranged->prefill(kTokens);
  const engine::VerifyOutput a = plain.verify(kTokens);
  const engine::VerifyOutput b = ranged->verify(kTokens);
  EXPECT_THAT(std::vector(b.best.begin(), b.best.end()), testing::ElementsAreArray(a.best));
  EXPECT_EQ(ranged->capacity(), plain.capacity());
  EXPECT_EQ(ranged->description(), plain.description());
  EXPECT_EQ(ranged->config().vocab_size, plain.config().vocab_size);
}

}  // namespace
}  // namespace tare::profiles
