#include "profiles/ceiling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "profiles/read_rate.h"
#include "tests/engine/decode_fake_backend.h"

namespace tare::profiles {
namespace {

using testing::HasSubstr;

const CeilingSettings kShort{8, 0.001, 3, 1};

TEST(ReadRate, CoversTheWholeSetWithEveryThreadCount) {
  for (const int threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    CpuReadRateProbe probe(pool, 1'000'000);
    EXPECT_GE(probe.bytes(), 1'000'000U);
    EXPECT_LT(probe.bytes(), 1'000'000U + 128);
    EXPECT_GT(probe.measure(3), 0.0);
  }
}

TEST(Ceiling, FloorIsBytesOverRate) {
  engine::FakeBackend backend(200, 64);
  backend.claim_bytes(640);
  const Ceiling ceiling = measure_ceiling(backend, cpu_read_rate(1), kShort);
  EXPECT_EQ(ceiling.bytes_per_round, 640U);
  EXPECT_EQ(ceiling.repetitions.size(), 3U);
  EXPECT_DOUBLE_EQ(ceiling.floor_s, 640 / ceiling.read_bytes_per_s);
  EXPECT_GT(ceiling.round_s, 0.0);
  EXPECT_LT(ceiling.share, 1.0);
}

TEST(Ceiling, StartsAgainWhenTheCachesAreFull) {
  engine::FakeBackend backend(200, 10);
  backend.claim_bytes(640);
  EXPECT_NO_THROW((void)measure_ceiling(backend, cpu_read_rate(1), kShort));
  EXPECT_LE(backend.frontier(), 10);
}

// A backend that counts bytes it does not read comes out above its ceiling: an error, not a result.
TEST(Ceiling, AboveOneHundredPercentIsAnError) {
  engine::FakeBackend backend(200, 64);
  backend.claim_bytes(std::uint64_t{1} << 40);
  try {
    (void)measure_ceiling(backend, cpu_read_rate(1), kShort);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.parts().hint, HasSubstr("bytes are counted that are not read"));
  }
}

TEST(Ceiling, MeasuresWideRoundsForTheirGreedyTokensOnly) {
  engine::FakeBackend backend(200, 64);
  backend.claim_bytes(640);
  const Ceiling ceiling = measure_ceiling(backend, cpu_read_rate(1), {8, 0.001, 1, 5});
  EXPECT_EQ(ceiling.width, 5);
  EXPECT_FALSE(backend.last_request().logits);
  EXPECT_GE(ceiling.context, 8);
  EXPECT_LE(ceiling.context, 64);
  EXPECT_THROW((void)measure_ceiling(backend, cpu_read_rate(1), {60, 0.001, 1, 5}), Error);
}

// A long context takes a minute to fill: it is filled once, not once a repetition.
TEST(Ceiling, GoesOnInTheSameContextWhileItHasHardlyGrown) {
  engine::FakeBackend backend(200, 5000);
  backend.claim_bytes(640);
  const Ceiling ceiling = measure_ceiling(backend, cpu_read_rate(1), {1000, 0.0, 4, 1});
  // Four repetitions of four warm rounds and one measured, in one run of the context.
  EXPECT_EQ(backend.frontier(), 1000 + 4 * 5);
  EXPECT_EQ(ceiling.repetitions.back().context, 1020);
}

TEST(Ceiling, RefusesAContextThatDoesNotFit) {
  engine::FakeBackend backend(200, 8);
  EXPECT_THROW((void)measure_ceiling(backend, cpu_read_rate(1), {8, 0.001, 3, 1}), Error);
  EXPECT_THROW((void)measure_ceiling(backend, cpu_read_rate(1), {4, 0.001, 0, 1}), Error);
}

}  // namespace
}  // namespace tare::profiles
