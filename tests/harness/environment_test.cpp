#include "harness/environment/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <fstream>

#include "harness/environment/build_info.h"

namespace tare::harness {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// A /proc and /sys of our own.
class EnvironmentTest : public testing::Test {
 protected:
  EnvironmentTest() {
    const std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
    const std::filesystem::path root = std::filesystem::path(testing::TempDir()) / ("environment." + test);
    std::filesystem::remove_all(root);
    files_ = {root / "proc", root / "sys"};
  }
  static void put(const std::filesystem::path& file, const std::string& content) {
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << content;
  }
  // First core that this process may use, whose files are read.
  static int first_core() {
    cpu_set_t set;
    CPU_ZERO(&set);
    EXPECT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
    int core = 0;
    while (!CPU_ISSET(static_cast<std::size_t>(core), &set)) ++core;
    return core;
  }
  SystemFiles files_;
};

TEST_F(EnvironmentTest, ReadsTheMachine) {
  put(files_.proc / "sys/kernel/hostname", "box\n");
  put(files_.proc / "sys/kernel/ostype", "Linux\n");
  put(files_.proc / "sys/kernel/osrelease", "6.1.0\n");
  put(files_.sys / "class/dmi/id/product_name", "Virtual Machine\n");
  put(files_.sys / "devices/system/cpu/online", "0-3,8\n");
  put(files_.proc / "cpuinfo", "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\ncpu MHz\t\t: 2000.5\n");
  put(files_.proc / "meminfo", "MemTotal:       16384 kB\nMemAvailable:    8192 kB\n");
  const auto frequency = files_.sys / "devices/system/cpu" / ("cpu" + std::to_string(first_core())) / "cpufreq";
  put(frequency / "scaling_governor", "performance\n");
  put(frequency / "cpuinfo_max_freq", "3600000\n");
  const Machine machine = read_machine(files_);
  EXPECT_EQ(machine.hostname, "box");
  EXPECT_EQ(machine.product, "Virtual Machine");
  EXPECT_EQ(machine.cpu_model, "Some CPU @ 2 GHz");
  EXPECT_EQ(machine.cores_online, 5);
  EXPECT_EQ(machine.memory_bytes, 16384U * 1024);
  EXPECT_THAT(machine.kernel.value_or(""), StartsWith("Linux 6.1.0 "));
  EXPECT_EQ(machine.governor, "performance");
  EXPECT_EQ(machine.max_frequency_mhz, 3600);
  EXPECT_FALSE(machine.usable_cores.empty());
  EXPECT_EQ(to_json(machine_from_json(to_json(machine), "m")), to_json(machine));
}

TEST_F(EnvironmentTest, WhatIsNotThereIsUnsupportedNotZero) {
  const Machine machine = read_machine(files_);
  EXPECT_FALSE(machine.hostname);
  EXPECT_FALSE(machine.memory_bytes);
  EXPECT_EQ(to_json(machine)["memory_bytes"], "unsupported");
  EXPECT_FALSE(machine_from_json(to_json(machine), "m").memory_bytes);
  const EnvironmentSample sample = sample_environment(files_);
  EXPECT_FALSE(sample.load_1min);
  EXPECT_FALSE(sample.cpu_pressure_avg10);
  EXPECT_FALSE(sample.cpu_steal_ticks);
  EXPECT_FALSE(sample.frequency_mhz);
  EXPECT_FALSE(sample.uptime_s);
  EXPECT_FALSE(peak_resident_bytes(1, files_));
}

TEST_F(EnvironmentTest, GarbageIsUnsupported) {
  put(files_.proc / "loadavg", "many\n");
  put(files_.proc / "stat", "cpu  1 2 three\n");
  put(files_.proc / "pressure/cpu", "none\n");
  put(files_.proc / "meminfo", "MemTotal: lots\n");
  const EnvironmentSample sample = sample_environment(files_);
  EXPECT_FALSE(sample.load_1min);
  EXPECT_FALSE(sample.runnable);
  EXPECT_FALSE(sample.cpu_busy_ticks);
  EXPECT_FALSE(sample.cpu_pressure_us);
  EXPECT_FALSE(read_machine(files_).memory_bytes);
}

TEST_F(EnvironmentTest, ReadsTheLoad) {
  put(files_.proc / "loadavg", "0.20 0.18 0.12 3/80 11206\n");
  put(files_.proc / "pressure/cpu",
      "some avg10=1.53 avg60=1.87 avg300=1.73 total=1088168194\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n");
  put(files_.proc / "stat", "cpu  100 10 20 900 5 1 2 40 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n");
  put(files_.proc / "meminfo", "MemTotal:       16384 kB\nMemAvailable:    8192 kB\n");
  put(files_.proc / "uptime", "350735.47 234388.90\n");
  const EnvironmentSample sample = sample_environment(files_);
  EXPECT_EQ(sample.load_1min, 0.20);
  EXPECT_EQ(sample.runnable, 3);
  EXPECT_EQ(sample.cpu_pressure_avg10, 1.53);
  EXPECT_EQ(sample.cpu_pressure_us, 1088168194);
  EXPECT_EQ(sample.cpu_busy_ticks, 100 + 10 + 20 + 1 + 2);
  EXPECT_EQ(sample.cpu_steal_ticks, 40);
  EXPECT_EQ(sample.memory_available_bytes, 8192 * 1024);
  EXPECT_EQ(sample.uptime_s, 350735.47);
  EXPECT_GT(sample.utc_ns, 1'600'000'000'000'000'000);
}

TEST_F(EnvironmentTest, ClockOfUsableCoresOnlyByCpuinfoWhenThereIsNoDriver) {
  const int core = first_core();
  put(files_.proc / "cpuinfo",
      "processor\t: " + std::to_string(core) + "\ncpu MHz\t\t: 2000\n\nprocessor\t: 9999\ncpu MHz\t: 9000\n");
  EXPECT_EQ(sample_environment(files_).frequency_mhz, 2000);
}

TEST_F(EnvironmentTest, PeakMemoryIsTheHighWaterMark) {
  put(files_.proc / "77/status", "Name:\tx\nVmPeak:\t  9999 kB\nVmHWM:\t    1234 kB\nVmRSS:\t 1000 kB\n");
  EXPECT_EQ(peak_resident_bytes(77, files_), 1234U * 1024);
}

TEST_F(EnvironmentTest, ThisMachineCanBeRead) {
  const Machine machine = read_machine();
  EXPECT_FALSE(machine.usable_cores.empty());
  EXPECT_GT(machine.memory_bytes.value_or(0), 0U);
  EXPECT_GT(peak_resident_bytes(::getpid()).value_or(0), 1'000'000U);
}

TEST_F(EnvironmentTest, AnonymousLeavesTheHostNameOut) {
  put(files_.proc / "sys/kernel/hostname", "box\n");
  EXPECT_FALSE(anonymous(read_machine(files_)).hostname);
}

TEST(UtcText, IsIso8601) {
  EXPECT_EQ(utc_text(1'764'427'306'123'456'789), "2025-11-29T14:41:46Z");
  EXPECT_EQ(utc_text_ms(1'764'427'306'023'456'789), "2025-11-29T14:41:46.023Z");
}

TEST(BuildInfo, NamesCompilerAndCommit) {
  const BuildInfo build = build_info();
  EXPECT_FALSE(build.version.empty());
  EXPECT_FALSE(build.compiler.empty());
  EXPECT_FALSE(build.build_type.empty());
  EXPECT_TRUE(build.commit == "unknown" || build.commit.size() == 40) << build.commit;
  EXPECT_THAT(to_json(build).dump(), HasSubstr("\"commit\""));
}

}  // namespace
}  // namespace tare::harness
