#include "profiles/timeline/profiler_present.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"

namespace tare::profiles {
namespace {

using testing::HasSubstr;

EnvironmentLookup of(const std::map<std::string, std::string>& variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

TEST(ProfilerPresent, NoneIsSeenWhereNoneIs) {
  EXPECT_EQ(profiler_present(of({{"PATH", "/usr/bin"}})), "");
  EXPECT_EQ(profiler_present(of({{"CUDA_INJECTION64_PATH", ""}})), "");
  EXPECT_NO_THROW(refuse_second_profiler(of({})));
}

TEST(ProfilerPresent, NamesNsightSystemsAndWhatTheDriverLoads) {
  EXPECT_EQ(profiler_present(of({{"NSYS_PROFILING_SESSION_ID", "4711"}})),
            "Nsight Systems (NSYS_PROFILING_SESSION_ID is set)");
  EXPECT_EQ(profiler_present(of({{"CUDA_INJECTION64_PATH", "/opt/tools/libToolsInjection64.so"}})),
            "a tool that the driver loads (CUDA_INJECTION64_PATH is libToolsInjection64.so)");
}

TEST(ProfilerPresent, ASecondProfilerIsRefusedWithAWayOut) {
  try {
    refuse_second_profiler(of({{"NSYS_PROFILING_SESSION_ID", "1"}}));
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kEnvironment);
    EXPECT_THAT(error.what(), HasSubstr("this process runs under Nsight Systems"));
    EXPECT_THAT(error.parts().hint, HasSubstr("tare nsys"));
  }
}

}  // namespace
}  // namespace tare::profiles
