#include "forced/prompts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "base/error.h"

namespace tare::forced {
namespace {

using testing::HasSubstr;

class Prompts : public testing::Test {
 protected:
  std::filesystem::path path_ =
      std::filesystem::path(testing::TempDir()) /
      (std::string("prompts_") + testing::UnitTest::GetInstance()->current_test_info()->name());
  void TearDown() override { std::filesystem::remove(path_); }

  PromptFile read(const std::string& content) const {
    std::ofstream(path_, std::ios::binary) << content;
    return read_prompts(path_);
  }
  std::string fault(const std::string& content) const {
    try {
      (void)read(content);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      return error.what();
    }
    ADD_FAILURE() << "no error for " << content;
    return {};
  }
};

constexpr const char* kGood = R"({"question_id": 81, "category": "code", "turns": ["a", "b"], "reference": ["r"]})";

TEST_F(Prompts, ReadsSpecBenchLinesAndIgnoresOtherFields) {
  const PromptFile file =
      read(std::string(kGood) + "\n\n" + R"({"question_id": 82, "category": "qa", "turns": ["c"]})");
  ASSERT_EQ(file.prompts.size(), 2U);
  EXPECT_EQ(file.prompts[0].id, "81");
  EXPECT_EQ(file.prompts[0].turns, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(file.prompts[1].category, "qa");
}

TEST_F(Prompts, NamesTheLineOfABadPrompt) {
  EXPECT_THAT(fault(std::string(kGood) + "\n{nonsense\n"), HasSubstr("line 2"));
  EXPECT_THAT(fault(std::string(kGood) + "\n\n{\"question_id\": 5, \"turns\": [\"x\"]}\n"),
              testing::AllOf(HasSubstr("line 3"), HasSubstr("category"), HasSubstr("missing")));
  EXPECT_THAT(fault(R"({"question_id": 5, "category": "c", "turns": []})"), HasSubstr("no turn"));
  EXPECT_THAT(fault(R"({"question_id": 5, "category": "c", "turns": [""]})"), HasSubstr("empty turn"));
}

TEST_F(Prompts, TakesTokenIdsInPlaceOfTurns) {
  const PromptFile file =
      read(std::string(kGood) + "\n" + R"({"question_id": 9, "category": "r", "tokens": [0, 248319]})");
  ASSERT_EQ(file.prompts.size(), 2U);
  EXPECT_THAT(file.prompts[1].tokens, testing::ElementsAre(0, 248319));
  EXPECT_TRUE(file.prompts[1].turns.empty());
  EXPECT_TRUE(file.prompts[0].tokens.empty());
}

TEST_F(Prompts, RefusesBadTokenIds) {
  EXPECT_THAT(fault(R"({"question_id": 5, "category": "c", "tokens": []})"), HasSubstr("is empty"));
  for (const char* tokens : {"[-1]", "[1.5]", "[\"a\"]", "[2147483648]"})
    EXPECT_THAT(fault(R"({"question_id": 5, "category": "c", "tokens": )" + std::string(tokens) + "}"),
                HasSubstr("must hold token ids"));
  EXPECT_THAT(fault(R"({"question_id": 5, "category": "c", "tokens": [1], "turns": ["x"]})"),
              HasSubstr("beside turns"));
}

TEST_F(Prompts, RefusesDuplicateIdsAndEmptyFiles) {
  EXPECT_THAT(fault(std::string(kGood) + "\n" + kGood), HasSubstr("appears twice"));
  EXPECT_THAT(fault("\n\n"), HasSubstr("holds no prompts"));
}

TEST_F(Prompts, DigestFollowsTheBytes) {
  EXPECT_NE(read(kGood).digest, read(std::string(kGood) + " ").digest);
}

std::vector<Prompt> four() {
  return {{"1", "code", {"x"}}, {"2", "code", {"x"}}, {"3", "code", {"x"}}, {"4", "prose", {"x"}}};
}

TEST(SelectPrompts, LimitTakesCategoriesEvenlyInFileOrder) {
  const std::vector<Prompt> taken = select_prompts(four(), {{}, {}, 2});
  ASSERT_EQ(taken.size(), 2U);
  EXPECT_EQ(taken[0].id, "1");
  EXPECT_EQ(taken[1].id, "4");
  EXPECT_EQ(select_prompts(four(), {{}, {}, 100}).size(), 4U);
}

TEST(SelectPrompts, RefusesNamesThatDoNotOccurAndEmptySelections) {
  EXPECT_THROW((void)select_prompts(four(), {{"9"}, {}, 0}), Error);
  EXPECT_THROW((void)select_prompts(four(), {{}, {"proze"}, 0}), Error);
  EXPECT_THROW((void)select_prompts(four(), {{"4"}, {"code"}, 0}), Error);
}

TEST(OwnPrompts, AreSixtyFourHalfCodeHalfProse) {
  const PromptFile file = read_prompts(std::filesystem::path(TARE_SOURCE_DIR) / "prompts/tare-64.jsonl");
  ASSERT_EQ(file.prompts.size(), 64U);
  std::set<std::string> texts;
  int code = 0;
  for (const Prompt& prompt : file.prompts) {
    texts.insert(prompt.turns.front());
    code += prompt.category == "code" ? 1 : 0;
  }
  EXPECT_EQ(texts.size(), 64U);
  EXPECT_EQ(code, 32);
}

}  // namespace
}  // namespace tare::forced
