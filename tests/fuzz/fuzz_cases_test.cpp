// Every parser on its seeds, on inputs that once broke one, and on fixed mutations of the seeds.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "base/file.h"
#include "base/philox.h"
#include "tests/fuzz/targets.h"

namespace tare::fuzz {
namespace {

constexpr int kMutations = 300;  // of a seed

// One to four of: a bit turned, a byte replaced, a piece left out, doubled, or moved elsewhere.
std::string mutated(std::string bytes, Philox& random) {
  const auto place = [&] { return bytes.empty() ? 0 : static_cast<std::size_t>(random.below(bytes.size())); };
  for (std::uint64_t edits = 1 + random.below(4); edits > 0; --edits) {
    if (bytes.empty()) return bytes;
    const std::size_t at = place();
    const std::size_t length = std::min<std::size_t>(bytes.size() - at, 1 + random.below(16));
    switch (random.below(5)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(8)));
        break;
      case 1: {
        static constexpr std::string_view kTelling("\0\xff{}[]\",:-0129eE.\\", 18);
        bytes[at] = kTelling[random.below(kTelling.size())];
        break;
      }
      case 2:
        bytes.erase(at, length);
        break;
      case 3:
        bytes.insert(place(), bytes.substr(at, length));
        break;
      default: {
        const std::string piece = bytes.substr(at, length);
        bytes.erase(at, length);
        bytes.insert(place(), piece);
      }
    }
  }
  return bytes;
}

class Fuzz : public testing::TestWithParam<Target> {};

TEST_P(Fuzz, AnswersItsSeedsItsCasesAndMutationsOfThem) {
  const Target& target = GetParam();
  std::vector<std::string> inputs = target.seeds;
  const std::filesystem::path cases = std::filesystem::path(TARE_SOURCE_DIR) / "tests/fuzz/cases" / target.name;
  if (std::filesystem::exists(cases))
    for (const auto& entry : std::filesystem::directory_iterator(cases)) inputs.push_back(read_text_file(entry.path()));
  ASSERT_FALSE(inputs.empty());
  Philox random(1);
  int values = 0;
  int errors = 0;
  for (const std::string& input : inputs) {
    EXPECT_NO_THROW((void)answer_of(target, input));
    for (int i = 0; i < kMutations; ++i) {
      const std::string bytes = mutated(input, random);
      try {
        ++(answer_of(target, bytes) == Answer::kValue ? values : errors);
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what() << " for: " << bytes.substr(0, 400);
        return;
      }
    }
  }
  // Mutations reach beyond the first check. `texts` and `protocol` try several parsers, each with its own answer.
  EXPECT_GT(errors + values, 0);
  if (target.name != "texts") {
    EXPECT_GT(errors, 0) << "no mutation was refused";
  }
}

// Whole inputs are accepted, so that mutations start from something; a reference's seed is only a safetensors file.
TEST_P(Fuzz, AcceptsItsSeeds) {
  const Target& target = GetParam();
  if (target.name == "reference" || target.name == "model-config") {
    EXPECT_EQ(answer_of(target, target.seeds.front()), Answer::kError) << "an Error, and no other";
    return;
  }
  for (const std::string& seed : target.seeds)
    EXPECT_EQ(answer_of(target, seed), Answer::kValue) << seed.substr(0, 200);
}

INSTANTIATE_TEST_SUITE_P(Parsers, Fuzz, testing::ValuesIn(all_targets()), [](const auto& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(FuzzTargets, AParserThatThrowsSomethingElseIsSeen) {
  const Target broken{"broken", [](std::string_view) { throw std::out_of_range("past the end"); }, {}};
  EXPECT_THROW((void)answer_of(broken, "x"), std::out_of_range);
}

}  // namespace
}  // namespace tare::fuzz
