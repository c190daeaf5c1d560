// The doctor on a quiet machine, a spoiled one, one that shows nothing (all three of the test's making), and this one
// in bad company.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <memory>

#include "base/error.h"
#include "harness/environment/doctor.h"
#include "tests/harness/fake_nvml/fake_gpu.h"
#include "tests/harness/ledger_rows.h"
#include "tests/harness/test_child.h"

namespace tare::harness {
namespace {

using testing::HasSubstr;

class DoctorTest : public testing::Test {
 protected:
  FreshFolder folder_;
  FakeGpu gpu_{folder_.path() / "gpu.txt"};
  DoctorSettings settings_;
  std::filesystem::path cpufreq_;

  DoctorTest() {
    settings_.seconds = 1;
    settings_.files = {folder_.path() / "proc", folder_.path() / "sys"};
    settings_.nvml_library = TARE_BINARY_DIR "/fake_nvml/libnvidia-ml.so.1";
    const int core = read_machine().usable_cores.front();
    cpufreq_ = settings_.files.sys / "devices/system/cpu" / ("cpu" + std::to_string(core)) / "cpufreq";
  }
  static void put(const std::filesystem::path& file, const std::string& content) {
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << content;
  }
  void make_quiet() {
    const SystemFiles& files = settings_.files;
    put(cpufreq_ / "scaling_governor", "performance\n");
    put(files.sys / "devices/system/cpu/cpufreq/boost", "0\n");
    put(files.sys / "devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
    put(files.proc / "loadavg", "0.10 0.10 0.10 1/80 11206\n");
    put(files.proc / "stat", "cpu  100 10 20 900 5 1 2 0 0 0\n");
    put(files.proc / "pressure/cpu", "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n");
    put(files.proc / "meminfo", "MemTotal:       16384 kB\nMemAvailable:    8192 kB\n");
    put(files.proc / "self/cgroup", "0::/\n");
    put(files.sys / "fs/cgroup/cpu.max", "max 100000\n");
    put(files.sys / "fs/cgroup/cpu.stat", "nr_throttled 0\nthrottled_usec 0\n");
    put(files.proc / "10/stat", "10 (bash) S 1 10 10 0 -1 0 0 0 0 0 5 5 0 0 20 0 1 0 7\n");
  }
  // By name. Steadiness is of the machine that runs the test, whatever files it is shown.
  [[nodiscard]] std::map<std::string, Check> checks() const {
    std::map<std::string, Check> by_name;
    for (const Check& check : diagnose(settings_).checks)
      if (check.name != "steadiness") by_name[check.name] = check;
    return by_name;
  }
};

TEST_F(DoctorTest, FindsNothingOnAQuietMachine) {
  make_quiet();
  const std::map<std::string, Check> found = checks();
  for (const char* name :
       {"governor", "turbo", "clock_source", "load", "neighbours", "build", "cpu_pressure", "hypervisor", "cpu_quota",
        "memory", "gpu_power_limit", "gpu_slowed", "gpu_neighbours", "gpu_persistence"}) {
    ASSERT_TRUE(found.contains(name)) << name;
    EXPECT_EQ(found.at(name).state, CheckState::kGood) << name << ": " << found.at(name).found;
    EXPECT_EQ(found.at(name).mend, "") << name;
  }
  EXPECT_EQ(found.size(), 14U);
}

TEST_F(DoctorTest, NamesEverythingThatSpoilsAndHowToMendIt) {
  make_quiet();
  const SystemFiles& files = settings_.files;
  put(cpufreq_ / "scaling_governor", "powersave\n");
  put(files.sys / "devices/system/cpu/cpufreq/boost", "1\n");
  put(files.sys / "devices/system/clocksource/clocksource0/current_clocksource", "hpet\n");
  put(files.proc / "loadavg", "4000.10 0.10 0.10 1/80 11206\n");
  put(files.proc / "meminfo", "MemTotal:       16384 kB\nMemAvailable:    1000 kB\n");
  put(files.sys / "fs/cgroup/cpu.max", "50000 100000\n");
  put(files.proc / "10/stat", "10 (cicc) R 1 10 10 0 -1 0 0 0 0 0 5 5 0 0 20 0 1 0 7\n");
  gpu_.set("power_limit", "400000");
  gpu_.set("reasons", "64");
  gpu_.set("processes", "1");
  gpu_.set("persistence", "0");
  gpu_.set("energy", "unsupported");
  const std::map<std::string, Check> found = checks();
  const std::map<std::string, std::string> spoils = {{"governor", "powersave"},
                                                     {"load", "4000.10"},
                                                     {"build", "cicc"},
                                                     {"cpu_quota", "quota of 0.50 cores"},
                                                     {"memory", "1.0 MB of 16.8 MB"},
                                                     {"gpu_power_limit", "400 W, its default 700 W"},
                                                     {"gpu_slowed", "hardware thermal slowdown"},
                                                     {"gpu_neighbours", "1 other process on it"}};
  for (const auto& [name, words] : spoils) {
    ASSERT_TRUE(found.contains(name)) << name;
    EXPECT_EQ(found.at(name).state, CheckState::kSpoils) << name << ": " << found.at(name).found;
    EXPECT_THAT(found.at(name).found, HasSubstr(words));
    EXPECT_NE(found.at(name).mend, "") << name;
  }
  for (const char* name : {"turbo", "clock_source", "gpu_persistence"}) {
    EXPECT_EQ(found.at(name).state, CheckState::kNote) << name;
    EXPECT_NE(found.at(name).mend, "") << name;
  }
  EXPECT_THAT(found.at("gpu_power_limit").mend, HasSubstr("nvidia-smi -i 0000:01:00.0 -pl 700"));
  EXPECT_EQ(found.at("gpu_reading").state, CheckState::kUnknown);
  EXPECT_EQ(found.at("gpu_reading").found, "energy counter: not supported");
}

TEST_F(DoctorTest, WhatCannotBeReadIsUnknownNotGood) {
  settings_.nvml_library = "libno-such-nvml.so.1";
  const std::map<std::string, Check> found = checks();
  for (const auto& [name, check] : found) EXPECT_EQ(check.state, CheckState::kUnknown) << name << ": " << check.found;
  for (const char* name : {"governor", "turbo", "clock_source", "load", "neighbours", "build", "cpu_pressure",
                           "hypervisor", "cpu_quota", "memory", "gpu"})
    EXPECT_TRUE(found.contains(name)) << name;
}

// More busy processes than cores: the kernel must take this one's core away again and again.
TEST_F(DoctorTest, CatchesRealCompanyOnThisMachine) {
  settings_.files = {};
  settings_.nvml_library = "libno-such-nvml.so.1";
  std::vector<std::unique_ptr<TestChild>> company;
  for (std::size_t i = 0; i < 2 * read_machine().usable_cores.size() + 1; ++i)
    company.push_back(std::make_unique<TestChild>(spin_for_ever));
  const Diagnosis diagnosis = diagnose(settings_);
  std::map<std::string, Check> found;
  for (const Check& check : diagnosis.checks) found[check.name] = check;
  EXPECT_EQ(found.at("neighbours").state, CheckState::kSpoils) << found.at("neighbours").found;
  EXPECT_EQ(found.at("steadiness").state, CheckState::kSpoils) << found.at("steadiness").found;
  EXPECT_NE(found.at("cpu_pressure").state, CheckState::kGood) << found.at("cpu_pressure").found;
  const Json json = to_json(diagnosis);
  EXPECT_EQ(json["checks"].size(), diagnosis.checks.size());
  EXPECT_GE(json["spoils"].get<int>(), 2);
  EXPECT_EQ(json["checks"][0]["name"], diagnosis.checks[0].name);
}

TEST_F(DoctorTest, AWatchTooShortForTheKernelsTicksIsRefused) {
  settings_.seconds = 0.5;
  EXPECT_THROW((void)diagnose(settings_), Error);
}

}  // namespace
}  // namespace tare::harness
