#include "harness/environment/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <fstream>

#include "harness/environment/build_info.h"
#include "harness/environment/cgroup.h"
#include "harness/environment/processes.h"

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
  const EnvironmentSample full = sample_fully({}, files_);
  EXPECT_FALSE(full.own_cpu_ticks);
  EXPECT_FALSE(full.builds);
  EXPECT_FALSE(full.cgroup_throttled_us);
  EXPECT_FALSE(full.memory_pressure_us);
  EXPECT_FALSE(full.gpu);
  EXPECT_FALSE(QuickReader({}, files_).sample().load_1min);
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

TEST_F(EnvironmentTest, ReadsPressureOfMemoryAndDisks) {
  put(files_.proc / "pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=77\nfull avg10=0 total=5\n");
  put(files_.proc / "pressure/io", "some avg10=0.00 avg60=0.00 avg300=0.00 total=88\nfull avg10=0 total=5\n");
  const EnvironmentSample sample = sample_environment(files_);
  EXPECT_EQ(sample.memory_pressure_us, 77);
  EXPECT_EQ(sample.io_pressure_us, 88);
}

TEST_F(EnvironmentTest, ReadsTheControlGroupOfVersion2WithTheSmallestQuotaOnTheWayUp) {
  put(files_.proc / "self/cgroup", "0::/a/b\n");
  const auto root = files_.sys / "fs/cgroup";
  put(root / "cpu.stat", "usage_usec 1\n");
  put(root / "a/cpu.max", "150000 100000\n");
  put(root / "a/cpu.stat", "nr_throttled 9\nthrottled_usec 99\n");
  put(root / "a/b/cpu.max", "max 100000\n");
  put(root / "a/b/cpu.stat", "usage_usec 5\nnr_periods 8\nnr_throttled 3\nthrottled_usec 1234\n");
  const CgroupCpu cpu = read_cgroup_cpu(files_);
  EXPECT_EQ(cpu.quota_cores, 1.5);
  EXPECT_EQ(cpu.throttled_us, 1234);
  EXPECT_EQ(cpu.throttled_periods, 3);
  EXPECT_EQ(sample_environment(files_).cgroup_throttled_us, 1234);
}

TEST_F(EnvironmentTest, ReadsTheControlGroupOfVersion1) {
  put(files_.proc / "self/cgroup", "4:memory:/x\n1:cpu,cpuacct:/x\n0::/\n");
  const auto root = files_.sys / "fs/cgroup/cpu,cpuacct";
  put(root / "x/cpu.cfs_quota_us", "50000\n");
  put(root / "x/cpu.cfs_period_us", "100000\n");
  put(root / "x/cpu.stat", "nr_periods 10\nnr_throttled 2\nthrottled_time 5000000\n");
  const CgroupCpu cpu = read_cgroup_cpu(files_);
  EXPECT_EQ(cpu.quota_cores, 0.5);
  EXPECT_EQ(cpu.throttled_us, 5000);
  EXPECT_EQ(cpu.throttled_periods, 2);
}

TEST_F(EnvironmentTest, WithoutAControlGroupThereIsNoQuotaAndNoTotal) {
  const CgroupCpu cpu = read_cgroup_cpu(files_);
  EXPECT_FALSE(cpu.quota_cores);
  EXPECT_FALSE(cpu.throttled_us);
  EXPECT_FALSE(cpu.throttled_periods);
}

TEST_F(EnvironmentTest, ListsProcessesWhateverTheirNames) {
  const auto stat = [](int pid, const std::string& name, int group) {
    return std::to_string(pid) + " (" + name + ") S 1 " + std::to_string(group) + " " + std::to_string(group) +
           " 0 -1 4194304 102 0 0 0 30 12 5 4 20 0 1 0 2172207\n";
  };
  put(files_.proc / "10/stat", stat(10, "cc1plus", 10));
  put(files_.proc / "11/stat", stat(11, "odd) (name", 10));
  put(files_.proc / "12/stat", stat(12, "cc1plus", 12));
  put(files_.proc / "13/stat", "13 (broken\n");
  put(files_.proc / "self/stat", stat(10, "cc1plus", 10));
  put(files_.proc / "14/status", "Name: gone\n");
  const auto processes = list_processes(files_);
  ASSERT_TRUE(processes);
  ASSERT_EQ(processes->size(), 3U);
  for (const ProcessEntry& process : *processes) {
    EXPECT_EQ(process.cpu_ticks, 42);
    EXPECT_EQ(process.dead_ticks, 9);
    EXPECT_EQ(process.name, process.pid == 11 ? "odd) (name" : "cc1plus");
  }
  EXPECT_EQ(running_builds(*processes, {}), "2 cc1plus");
  const std::vector<pid_t> groups = {10};
  EXPECT_EQ(running_builds(*processes, groups), "cc1plus");
  EXPECT_EQ(own_cpu_ticks(*processes, groups), 2 * (42 + 9));
  const EnvironmentSample sample = sample_fully({groups, {}, nullptr}, files_);
  EXPECT_EQ(sample.builds, "cc1plus");
  EXPECT_EQ(sample.own_cpu_ticks, 2 * (42 + 9));
}

TEST_F(EnvironmentTest, TheQuickReaderSeesWhatChanges) {
  const auto frequency = files_.sys / "devices/system/cpu/cpu3/cpufreq";
  put(files_.proc / "loadavg", "0.20 0.18 0.12 3/80 11206\n");
  put(files_.proc / "pressure/cpu", "some avg10=1.53 avg60=1.87 avg300=1.73 total=77\n");
  put(frequency / "scaling_cur_freq", "2000000\n");
  const QuickReader reader({{}, {3}, nullptr}, files_);
  EXPECT_EQ(reader.sample().load_1min, 0.20);
  EXPECT_EQ(reader.sample().runnable, 3);
  EXPECT_EQ(reader.sample().cpu_pressure_us, 77);
  EXPECT_EQ(reader.sample().frequency_mhz, 2000);
  put(files_.proc / "loadavg", "1.20 0.18 0.12 4/80 11206\n");
  put(frequency / "scaling_cur_freq", "1500000\n");
  EXPECT_EQ(reader.sample().load_1min, 1.20);
  EXPECT_EQ(reader.sample().runnable, 4);
  EXPECT_EQ(reader.sample().frequency_mhz, 1500);
  put(frequency / "scaling_cur_freq", "<unknown>\n");
  EXPECT_FALSE(reader.sample().frequency_mhz);
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
