#include "base/file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <utility>

#include "base/error.h"

namespace tare {
namespace {

namespace fs = std::filesystem;

class FileTest : public testing::Test {
 protected:
  fs::path folder_ = fs::path(testing::TempDir()) /
                     (std::string("file_test_") + testing::UnitTest::GetInstance()->current_test_info()->name());
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
};

TEST_F(FileTest, WritesAtomicallyAndLeavesNothingElse) {
  write_file_atomically(folder_ / "a", "one");
  write_file_atomically(folder_ / "a", "two");
  EXPECT_EQ(read_text_file(folder_ / "a"), "two");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

TEST_F(FileTest, WritingIntoMissingFolderIsAnEnvironmentError) {
  try {
    write_file_atomically(folder_ / "none" / "a", "x");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kEnvironment);
  }
}

TEST_F(FileTest, MapsFilesAndMovesTheMapping) {
  std::ofstream(folder_ / "a") << "bytes";
  MappedFile first(folder_ / "a");
  const MappedFile second = std::move(first);
  ASSERT_EQ(second.bytes().size(), 5U);
  EXPECT_EQ(static_cast<char>(second.bytes()[4]), 's');
}

TEST_F(FileTest, MapsAnEmptyFileToAnEmptySpan) {
  std::ofstream(folder_ / "empty").flush();
  EXPECT_TRUE(MappedFile(folder_ / "empty").bytes().empty());
}

TEST_F(FileTest, RefusesDirectoriesByName) {
  EXPECT_THROW((void)read_text_file(folder_), Error);
  EXPECT_THROW(MappedFile{folder_}, Error);
}

}  // namespace
}  // namespace tare
