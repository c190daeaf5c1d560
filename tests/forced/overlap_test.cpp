#include "forced/overlap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "base/json_reader.h"
#include "base/philox.h"
#include "tests/source_folder.h"

namespace tare::forced {
namespace {

using testing::HasSubstr;

std::vector<std::int32_t> random_tokens(std::size_t count, std::uint64_t stream) {
  Philox random(3, stream);
  std::vector<std::int32_t> tokens(count);
  for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(random.below(4096));
  return tokens;
}

std::vector<TextWindow> windows() {
  return {{"a", "prose", random_tokens(2048, 1)}, {"b", "code", random_tokens(2048, 2)}};
}

TEST(Overlap, APlantedStretchIsCaught) {
  // 120 tokens of window b in the middle of another text, at no particular place.
  std::vector<std::int32_t> learned = random_tokens(5000, 9);
  const std::vector<TextWindow> scored = windows();
  std::copy_n(scored[1].tokens.begin() + 777, 120, learned.begin() + 1234);
  const std::vector<std::uint64_t> seen = run_hashes(std::vector{random_tokens(300, 5), learned});
  const std::vector<Overlap> overlaps = find_overlaps(scored, seen);
  ASSERT_EQ(overlaps.size(), 1U);
  EXPECT_EQ(overlaps[0].window, "b");
  EXPECT_NEAR(overlaps[0].seen_share, 105.0 / 2033, 1e-9);
  try {
    refuse_overlaps(scored, seen, "calibration.jsonl");
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("calibration.jsonl"), HasSubstr("window b"), HasSubstr("5 %")));
  }
}

TEST(Overlap, OtherTextsAndIdiomsPass) {
  const std::vector<TextWindow> scored = windows();
  EXPECT_TRUE(find_overlaps(scored, run_hashes(random_tokens(5000, 9))).empty());
  std::vector<std::int32_t> idiom = random_tokens(5000, 9);
  std::copy_n(scored[0].tokens.begin(), 40, idiom.begin() + 50);
  EXPECT_TRUE(find_overlaps(scored, run_hashes(idiom)).empty());
  EXPECT_TRUE(run_hashes(random_tokens(15, 1)).empty());
}

// The prompts on which rounds and shortlists are recorded are none of the windows that are scored.
TEST(Overlap, OwnWindowsAreNotTheOwnPrompts) {
  const engine::Tokenizer tokenizer =
      engine::Tokenizer::from_file(source_folder() / "models" / "embedded" / "tokenizer.json");
  const WindowFile file = read_windows(source_folder() / "prompts" / "windows.jsonl", &tokenizer, kWindowTokens);
  std::vector<std::vector<std::int32_t>> learned;
  std::ifstream lines(source_folder() / "prompts" / "tare-64.jsonl");
  for (std::string line; std::getline(lines, line);)
    learned.push_back(tokenizer.encode(parse_json(line, "prompt")["turns"][0].get<std::string>()));
  ASSERT_EQ(learned.size(), 64U);
  refuse_overlaps(file.windows, run_hashes(learned), "prompts");
  // The check sees what is there: a window in itself.
  EXPECT_EQ(find_overlaps(file.windows, run_hashes(file.windows[3].tokens)).front().seen_share, 1);
}

}  // namespace
}  // namespace tare::forced
