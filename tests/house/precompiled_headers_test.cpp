#include "tests/house/precompiled_headers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace tare::house {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

nlohmann::json commands(const std::string& source_options, const std::string& read = "/b/h.dir/cmake_pch.hxx") {
  return {{{"file", "/b/h.cxx"},
           {"command",
            "g++ -O2 -fa -fpch-preprocess -x c++-header -include /b/h.dir/cmake_pch.hxx"
            " -o h.dir/cmake_pch.hxx.gch -c /b/h.cxx"}},
          {{"file", "/s/a.cpp"}, {"command", "g++ " + source_options + " -include " + read + " -o a.o -c /s/a.cpp"}},
          {{"file", "/s/free.cpp"}, {"command", "g++ -O3 -o free.o -c /s/free.cpp"}}};
}

TEST(PrecompiledHeaders, SourcesWithTheirOptionsPass) {
  const PrecompiledUse use = use_of_precompiled_headers(commands("-O1 -fa -O2"));
  EXPECT_EQ(use.sources, 1);
  EXPECT_THAT(use.faults, IsEmpty());
}

TEST(PrecompiledHeaders, CatchesAnotherLevelAndAnotherOption) {
  EXPECT_THAT(use_of_precompiled_headers(commands("-O2 -fa -O3")).faults,
              ElementsAre(HasSubstr("/s/a.cpp is compiled with -O3 -fa, the headers it reads with -O2 -fa")));
  EXPECT_THAT(use_of_precompiled_headers(commands("-O2 -fa -ffp-contract=off")).faults,
              ElementsAre(HasSubstr("-ffp-contract=off")));
}

TEST(PrecompiledHeaders, CatchesHeadersThatNothingMakes) {
  EXPECT_THAT(use_of_precompiled_headers(commands("-O2 -fa", "/b/other.dir/cmake_pch.hxx")).faults,
              ElementsAre(HasSubstr("which no command makes")));
}

nlohmann::json read_commands(const fs::path& build) {
  return nlohmann::json::parse(std::ifstream(build / "compile_commands.json"));
}

// Of this build, and of one without CUDA whose headers are precompiled: this one's need not be.
TEST(PrecompiledHeaders, AreReadWithTheOptionsTheyWereMadeWith) {
  EXPECT_THAT(use_of_precompiled_headers(read_commands(TARE_BINARY_DIR)).faults, IsEmpty());
  const fs::path build = fs::path(testing::TempDir()) / "precompiled_headers";
  fs::remove_all(build);
  const std::string command = std::string("cmake -S '") + TARE_SOURCE_DIR + "' -B '" + build.string() +
                              "' -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_EXPORT_COMPILE_COMMANDS=ON"
                              " -DTARE_CUDA=OFF -DTARE_PRECOMPILED_HEADERS=ON > /dev/null 2>&1";
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  const PrecompiledUse use = use_of_precompiled_headers(read_commands(build));
  EXPECT_GT(use.sources, 100);
  EXPECT_THAT(use.faults, IsEmpty());
  fs::remove_all(build);
}

}  // namespace
}  // namespace tare::house
