// The tokenizer against the `tokenizers` library: ids of 1,000 awkward texts, stored by
// scripts/golden/tokenizer_golden.py.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json_reader.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/engine/scratch_directory.h"

namespace tare::engine {
namespace {

using Ids = std::vector<std::int32_t>;

const std::filesystem::path kFixture = std::filesystem::path(TARE_SOURCE_DIR) / "tests/fixtures/tokenizer";

struct GoldenLine {
  std::string text;
  Ids ids;
  std::map<std::string, Ids> variants;
};

std::vector<GoldenLine> read_golden() {
  const std::string content = read_text_file(kFixture / "golden.jsonl");
  std::vector<GoldenLine> lines;
  for (std::size_t begin = 0; begin < content.size();) {
    const std::size_t end = content.find('\n', begin);
    const Json line = parse_json(std::string_view(content).substr(begin, end - begin), "golden.jsonl");
    lines.push_back({line["text"].get<std::string>(), line["ids"].get<Ids>(), {}});
    if (line.contains("variants")) lines.back().variants = line["variants"].get<std::map<std::string, Ids>>();
    begin = end + 1;
  }
  return lines;
}

TEST(TokenizerGolden, EveryTextHasTheIdsOfTheReferenceLibrary) {
  const Tokenizer tokenizer = Tokenizer::from_file(kFixture / "tokenizer.json");
  const std::vector<GoldenLine> golden = read_golden();
  ASSERT_EQ(golden.size(), 1000U);
  for (const GoldenLine& line : golden) EXPECT_EQ(tokenizer.encode(line.text), line.ids) << Json(line.text).dump();
}

TEST(TokenizerGolden, EveryTextComesBackByteForByte) {
  const Tokenizer tokenizer = Tokenizer::from_file(kFixture / "tokenizer.json");
  for (const GoldenLine& line : read_golden()) EXPECT_EQ(tokenizer.decode(line.ids), line.text);
}

class TokenizerVariant : public testing::TestWithParam<const char*> {};

TEST_P(TokenizerVariant, HasTheIdsOfTheReferenceLibrary) {
  const ScratchDirectory scratch;
  const Json patches = read_json_file(kFixture / "variants.json");
  const SortedJson plain = parse_sorted_json(read_text_file(kFixture / "tokenizer.json"), "tokenizer.json");
  const SortedJson file = plain.patch(SortedJson(patches.at(GetParam())));
  write_file_atomically(scratch.path() / "tokenizer.json", file.dump());
  const Tokenizer tokenizer = Tokenizer::from_file(scratch.path() / "tokenizer.json");
  int compared = 0;
  int different = 0;  // from the plain tokenizer: a variant that changes nothing tests nothing
  for (const GoldenLine& line : read_golden()) {
    if (line.variants.empty()) continue;
    const Ids& wanted = line.variants.at(GetParam());
    EXPECT_EQ(tokenizer.encode(line.text), wanted) << Json(line.text).dump();
    ++compared;
    if (wanted != line.ids) ++different;
  }
  EXPECT_GE(compared, 140);
  EXPECT_GE(different, 1);
}

INSTANTIATE_TEST_SUITE_P(AllVariants, TokenizerVariant,
                         testing::Values("nfc", "byte_level", "qwen2", "two_splits", "whole_words", "text_merges",
                                         "more_tokens"),
                         [](const auto& variant) { return std::string(variant.param); });

}  // namespace
}  // namespace tare::engine
