// Single rows of packed weights, thread by thread, against the place of every weight.
#include "engine/cuda/product/row_fields.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/philox.h"
#include "engine/backend/options.h"
#include "engine/formats/weight_groups.h"

namespace tare::engine {
namespace {

TEST(RowFields, AThreadsWordsHoldItsColumns) {
  for (const WeightFormat format :
       {WeightFormat::kBF16, WeightFormat::kQ8, WeightFormat::kQ4, WeightFormat::kQ3, WeightFormat::kFP8}) {
    Philox random(11);
    std::vector<std::uint32_t> codes(static_cast<std::size_t>(unit_code_bytes(format) / 4));
    for (std::uint32_t& word : codes) word = static_cast<std::uint32_t>(random.below(std::uint64_t{1} << 32));
    int others = 0;
    for (int row = 0; row < kUnitRows; ++row) {
      for (int p = 0; p < 4; ++p) {
        std::vector<std::uint32_t> words;
        for (int i = 0; i < thread_words(format); ++i)
          words.push_back(codes[static_cast<std::size_t>(thread_word(format, row_tile(row), row_thread(row, p), i))]);
        const auto kept_of = [&](int half) {
          std::vector<std::uint32_t> kept;
          for (int i = 0; i < kept_words(format); ++i) kept.push_back(kept_word(format, words.data(), half, i));
          return kept;
        };
        const std::vector<std::uint32_t> kept = kept_of(row_half(row));
        const std::vector<std::uint32_t> other = kept_of(1 - row_half(row));
        for (int part = 0; part < 8; ++part) {
          for (int h = 0; h < 2; ++h) {
            const int column = 8 * part + 2 * p + h;
            const std::uint32_t want = read_code(format, codes.data(), row, column);
            ASSERT_EQ(kept_field(format, kept.data(), row_half(row), part, h), want)
                << to_text(format) << ", row " << row << ", column " << column;
            others += kept_field(format, other.data(), 1 - row_half(row), part, h) != want ? 1 : 0;
          }
        }
      }
    }
    EXPECT_GT(others, kUnitRows * kUnitColumns / 2) << "the other row's fields must be other ones";
  }
}

// What a kernel loads at once lies together.
TEST(RowFields, RunsOfWordsAreAligned) {
  for (const WeightFormat format : {WeightFormat::kBF16, WeightFormat::kQ8, WeightFormat::kQ4, WeightFormat::kFP8}) {
    for (int i = 0; i < thread_words(format); ++i) {
      const int first = thread_word(format, 3, 77, i / 4 * 4);
      EXPECT_EQ(first % 4, 0);
      EXPECT_EQ(thread_word(format, 3, 77, i), first + i % 4);
    }
  }
  EXPECT_EQ(thread_word(WeightFormat::kQ3, 3, 77, 0) % 2, 0);
  EXPECT_EQ(thread_word(WeightFormat::kQ3, 3, 77, 1), thread_word(WeightFormat::kQ3, 3, 77, 0) + 1);
}

}  // namespace
}  // namespace tare::engine
