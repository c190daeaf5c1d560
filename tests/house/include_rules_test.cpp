#include "tests/house/include_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace tare::house {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class IncludeRules : public testing::Test {
 protected:
  fs::path root_ = fs::path(testing::TempDir()) /
                   (std::string("include_rules_") + testing::UnitTest::GetInstance()->current_test_info()->name());

  void SetUp() override {
    fs::remove_all(root_);
    write("low/a.h", "#pragma once\n");
    write("high/b.h", "#include \"low/a.h\"\n");
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& name, const std::string& content) const {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << content;
  }
  [[nodiscard]] std::vector<std::string> faults() const { return faults_of(root_, {{"low", {}}, {"high", {"low"}}}); }
};

TEST(House, IncludesRunOneWay) {
  EXPECT_THAT(faults_of(TARE_SOURCE_DIR, rooms_of_tare()), IsEmpty());
}

TEST_F(IncludeRules, AcceptDownwardIncludes) {
  EXPECT_THAT(faults(), IsEmpty());
}

TEST_F(IncludeRules, CatchBackEdge) {
  write("low/c.cpp", "\n#include \"high/b.h\"\n");
  EXPECT_THAT(faults(), ElementsAre("low/c.cpp:2 includes high/b.h: low may not include high"));
}

TEST_F(IncludeRules, CatchIncludeOutsideRoot) {
  write("low/c.cpp", "#include \"a.h\"\n");
  EXPECT_THAT(faults(), ElementsAre(HasSubstr("not a path from the repository root")));
}

TEST_F(IncludeRules, CatchMissingFile) {
  write("high/c.cpp", "#include \"low/nothing.h\"\n");
  EXPECT_THAT(faults(), ElementsAre(HasSubstr("no such file")));
}

TEST_F(IncludeRules, CatchCircle) {
  EXPECT_THAT(faults_of(root_, {{"low", {"high"}}, {"high", {"low"}}}), testing::Contains(HasSubstr("circle")));
}

}  // namespace
}  // namespace tare::house
