#include "base/digest.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "base/error.h"

namespace tare {
namespace {

TEST(Digest, OfNothingIsTheKnownXxh3Value) {
  EXPECT_EQ(digest(std::string_view()), "99aa06d3014798d86001c324468d497f");
}

TEST(Digest, OfTokensDependsOnOrderAndValue) {
  const std::vector<std::int32_t> tokens = {1, 2, 3};
  const std::vector<std::int32_t> swapped = {2, 1, 3};
  EXPECT_NE(digest_tokens(tokens), digest_tokens(swapped));
  EXPECT_EQ(digest_tokens(tokens), digest_tokens(std::vector<std::int32_t>{1, 2, 3}));
}

TEST(Digest, OfFileEqualsDigestOfItsBytesBeyondOneReadBuffer) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "digest_test.bin";
  const std::string content(3'000'001, 'x');
  std::ofstream(path, std::ios::binary) << content;
  EXPECT_EQ(digest_file(path), digest(std::string_view(content)));
  std::filesystem::remove(path);
}

TEST(Digest, OfMissingFileIsAnInputErrorNamingIt) {
  try {
    (void)digest_file("/nonexistent/file");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_EQ(error.parts().where, "/nonexistent/file");
  }
}

}  // namespace
}  // namespace tare
