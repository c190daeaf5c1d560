#include "forced/windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "tests/source_folder.h"

namespace tare::forced {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Windows : public testing::Test {
 protected:
  std::filesystem::path path_ =
      std::filesystem::path(testing::TempDir()) /
      (std::string("windows_") + testing::UnitTest::GetInstance()->current_test_info()->name());
  void TearDown() override { std::filesystem::remove(path_); }

  WindowFile read(const std::string& content, std::int64_t tokens, std::int64_t limit = 0) const {
    std::ofstream(path_, std::ios::binary) << content;
    return read_windows(path_, nullptr, tokens, limit);
  }
  std::string fault(const std::string& content, std::int64_t tokens, std::int64_t limit = 0) const {
    try {
      (void)read(content, tokens, limit);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      return error.what();
    }
    ADD_FAILURE() << "no error for " << content;
    return {};
  }
};

constexpr const char* kFirst = R"({"id": "a", "kind": "prose", "source": "here", "tokens": [5, 6, 7]})";
constexpr const char* kSecond = R"({"id": "b", "kind": "code", "tokens": [8, 9, 10, 11]})";

TEST_F(Windows, CutsToTheTokensAsked) {
  const WindowFile file = read(std::string(kFirst) + "\n\n" + kSecond + "\n", 3);
  ASSERT_EQ(file.windows.size(), 2U);
  EXPECT_EQ(file.windows[0].id, "a");
  EXPECT_EQ(file.windows[0].kind, "prose");
  EXPECT_EQ(file.windows[1].tokens, (std::vector<std::int32_t>{8, 9, 10}));
  EXPECT_EQ(read(std::string(kFirst) + "\n" + kSecond, 3, 1).windows.size(), 1U);
}

TEST_F(Windows, DigestsSayWhatIsScored) {
  const std::string text = std::string(kFirst) + "\n" + kSecond;
  const WindowFile file = read(text, 3);
  EXPECT_NE(read(text, 2).tokens_digest, file.tokens_digest);
  EXPECT_EQ(read(text, 2).texts_digest, file.texts_digest);
  const std::string swapped = std::string(kSecond) + "\n" + kFirst;
  EXPECT_NE(read(swapped, 3).tokens_digest, file.tokens_digest);
}

TEST_F(Windows, NamesTheWindowThatIsTooShort) {
  EXPECT_THAT(fault(std::string(kFirst) + "\n" + kSecond, 4),
              AllOf(HasSubstr("line 1"), HasSubstr("window a"), HasSubstr("3 tokens")));
}

TEST_F(Windows, RefusesWhatItCannotScore) {
  const std::string first = kFirst;
  EXPECT_THAT(fault(first + "\n" + first, 3), AllOf(HasSubstr("line 2"), HasSubstr("twice")));
  EXPECT_THAT(fault(R"({"id": "a", "kind": "verse", "tokens": [1]})", 1), HasSubstr("kind"));
  EXPECT_THAT(fault(R"({"id": "a", "kind": "code", "text": "x", "tokens": [1]})", 1), HasSubstr("beside text"));
  EXPECT_THAT(fault(R"({"id": "a", "kind": "code", "text": "x"})", 1), HasSubstr("tokenizer"));
  EXPECT_THAT(fault(R"({"id": "a", "kind": "code", "tokens": [-1]})", 1), HasSubstr("token ids"));
  EXPECT_THAT(fault(first, 3, 2), HasSubstr("2 are wanted"));
  EXPECT_THAT(fault("\n", 1), HasSubstr("no windows"));
}

// The project's own texts: half prose, half code, in turn, so that any even number from the front is half and half.
TEST(OwnWindows, AreLongEnoughAndHalfProseHalfCode) {
  const std::filesystem::path model = source_folder() / "models" / "embedded" / "tokenizer.json";
  const engine::Tokenizer tokenizer = engine::Tokenizer::from_file(model);
  const WindowFile file = read_windows(source_folder() / "prompts" / "windows.jsonl", &tokenizer, kWindowTokens);
  ASSERT_EQ(file.windows.size(), 44U);
  for (std::size_t i = 0; i < file.windows.size(); ++i)
    EXPECT_EQ(file.windows[i].kind, i % 2 == 0 ? "prose" : "code") << file.windows[i].id;
  // Results name this digest: another text is another row.
  EXPECT_EQ(file.tokens_digest, "acb45bd5f5354b680e1af9d05823acf7");
}

}  // namespace
}  // namespace tare::forced
