// The sampler's thread, alone and on things that really happen: a busy process, a build, a clock that steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "harness/environment/processes.h"
#include "harness/environment/rules.h"
#include "harness/environment/sampler.h"
#include "tests/harness/fake_nvml/fake_gpu.h"
#include "tests/harness/ledger_rows.h"
#include "tests/harness/test_child.h"

namespace tare::harness {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr double kFast = 200;  // Hz; tests need not wait as long as experiments do

// Until the condition holds; a slow machine is given time, not a failure.
template <class Condition>
bool comes_true(const Condition& condition) {
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (std::chrono::steady_clock::now() < deadline) {
    if (condition()) return true;
    std::this_thread::sleep_for(5ms);
  }
  return false;
}

std::int64_t ticks_of(pid_t pid) {
  const auto processes = list_processes();
  if (!processes) return 0;
  for (const ProcessEntry& process : *processes)
    if (process.pid == pid) return process.cpu_ticks;
  return 0;
}

TEST(SamplerTest, ReadsOnlyWhileItFollows) {
  Sampler sampler(kFast, {});
  std::this_thread::sleep_for(50ms);
  sampler.follow();
  std::this_thread::sleep_for(300ms);
  const std::int64_t rested = utc_now_ns();
  sampler.rest();
  std::this_thread::sleep_for(100ms);
  const std::vector<EnvironmentSample> samples = sampler.finish();
  ASSERT_THAT(samples, Not(IsEmpty()));
  // One may have been begun before rest() and ended behind it; no more.
  std::size_t late = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (samples[i].utc_ns > rested) ++late;
    EXPECT_GE(samples[i].utc_ns, samples[i == 0 ? 0 : i - 1].utc_ns);
    EXPECT_GT(samples[i].cost_ns.value_or(0), 0);
  }
  EXPECT_LE(late, 1U);
}

TEST(SamplerTest, AtRestItReadsNothing) {
  Sampler sampler(kFast, {});
  std::this_thread::sleep_for(100ms);
  EXPECT_THAT(sampler.finish(), IsEmpty());
}

TEST(SamplerTest, ItsRowsHoldOnlyWhatIsCheap) {
  Sampler sampler(kFast, {});
  sampler.follow();
  std::this_thread::sleep_for(100ms);
  const std::vector<EnvironmentSample> samples = sampler.finish();
  ASSERT_THAT(samples, Not(IsEmpty()));
  EXPECT_TRUE(samples[0].load_1min);
  EXPECT_FALSE(samples[0].cpu_busy_ticks);
  EXPECT_FALSE(samples[0].own_cpu_ticks);
  EXPECT_FALSE(samples[0].builds);
  EXPECT_FALSE(samples[0].memory_available_bytes);
  EXPECT_FALSE(samples[0].gpu);
}

TEST(SamplerTest, EndsAtOnceHoweverSlowItsTicks) {
  const auto start = std::chrono::steady_clock::now();
  {
    Sampler sampler(0.01, {});
    sampler.follow();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, 50s);
}

// A signal to the process goes to any thread that takes it; the one that waits for a worker must be woken by it.
TEST(SamplerTest, LeavesSignalsToTheProgram) {
  static std::atomic<pid_t> taken_by{0};
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) { taken_by = static_cast<pid_t>(::syscall(SYS_gettid)); };
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  {
    Sampler sampler(kFast, {});
    sampler.follow();
    sigset_t blocked;
    sigset_t old;
    ::sigemptyset(&blocked);
    ::sigaddset(&blocked, SIGUSR1);
    ::pthread_sigmask(SIG_BLOCK, &blocked, &old);  // so that only the sampler could take it
    ::kill(::getpid(), SIGUSR1);
    std::this_thread::sleep_for(50ms);
    EXPECT_EQ(taken_by, 0);
    ::pthread_sigmask(SIG_SETMASK, &old, nullptr);
    EXPECT_EQ(taken_by, ::getpid());
  }
  ::sigaction(SIGUSR1, &before, nullptr);
}

TEST(SamplerTest, ARateOfNothingIsRefused) {
  EXPECT_THROW(Sampler(0, {}), Error);
}

// A power cap that bites in the middle of a run, and a clock that steps with it: neither is in the readings before and
// after, both are in the sampler's.
TEST(SamplerTest, CatchesWhatHappensWithinARun) {
  const FreshFolder folder;
  FakeGpu gpu(folder.path() / "gpu.txt");
  const Nvml nvml(TARE_BINARY_DIR "/fake_nvml/libnvidia-ml.so.1");
  const GpuDevice device = nvml.device(kFakeGpu);
  const Watched watched{{}, {}, &device};
  RunReadings run;
  run.before = sample_fully(watched);
  Sampler sampler(kFast, watched);
  sampler.follow();
  std::this_thread::sleep_for(200ms);
  gpu.set("sm_clock", "1700");
  gpu.set("reasons", "4");
  std::this_thread::sleep_for(200ms);
  run.during = sampler.finish();
  gpu.set("sm_clock", "1980");
  gpu.set("reasons", "0");
  run.after = sample_fully(watched);
  ASSERT_GE(run.during.size(), 6U);
  std::vector<std::string> codes;
  for (const EnvironmentWarning& warning : judge_environment({&run, 1}, {"a"}, {}, {})) codes.push_back(warning.code);
  EXPECT_THAT(codes, testing::Contains("gpu_clock_step"));
  EXPECT_THAT(codes, testing::Contains("gpu_slowed"));
  EXPECT_EQ(event_reasons(run), kReasonPowerCap);
  const RunReadings blind{run.name, 0, run.sitting, run.before, run.after, {}};
  EXPECT_EQ(event_reasons(blind), 0U);
}

TEST(Neighbours, ABusyProcessIsCaught) {
  const TestChild busy(spin_for_ever);
  RunReadings run;
  run.before = sample_fully({});
  const auto start = std::chrono::steady_clock::now();
  const std::int64_t used_before = ticks_of(busy.pid());
  ASSERT_TRUE(comes_true(
      [&] { return ticks_of(busy.pid()) - used_before >= 50 && std::chrono::steady_clock::now() - start > 1100ms; }));
  run.after = sample_fully({});
  ASSERT_TRUE(others_cores(run));
  // At least what it used; on a crowded machine others are in it too.
  EXPECT_GE(*others_cores(run) * *duration_s(run), 0.45);
  std::vector<std::string> codes;
  for (const EnvironmentWarning& warning : judge_environment({&run, 1}, {"a"}, {}, {})) codes.push_back(warning.code);
  EXPECT_THAT(codes, testing::Contains("neighbour_busy"));
}

TEST(Neighbours, TheSameProcessAsAWorkerIsOurs) {
  const TestChild busy([] {
    ::setpgid(0, 0);
    spin_for_ever();
  });
  ASSERT_TRUE(comes_true([&] { return ::getpgid(busy.pid()) == busy.pid(); }));
  const std::vector<pid_t> groups = {busy.pid()};
  const std::int64_t before = sample_fully({groups, {}, nullptr}).own_cpu_ticks.value_or(0);
  const std::int64_t used_before = ticks_of(busy.pid());
  ASSERT_TRUE(comes_true([&] { return ticks_of(busy.pid()) - used_before >= 30; }));
  const EnvironmentSample after = sample_fully({groups, {}, nullptr});
  EXPECT_GE(after.own_cpu_ticks.value_or(0) - before, 30);
}

TEST(Neighbours, ABuildIsCaughtByItsToolsNamesUnlessItIsOurs) {
  const TestChild build([] {
    ::setpgid(0, 0);
    ::prctl(PR_SET_NAME, "rustc");
    ::pause();
  });
  ASSERT_TRUE(comes_true([] { return sample_fully({}).builds.value_or("").find("rustc") != std::string::npos; }));
  const std::vector<pid_t> groups = {build.pid()};
  EXPECT_THAT(sample_fully({groups, {}, nullptr}).builds.value_or(""), Not(HasSubstr("rustc")));
}

TEST(Neighbours, BusyProcessesAreNamedTheLargestFirst) {
  std::vector<ProcessEntry> before = {{10, 10, "idle", 100, 0}, {11, 11, "busy", 100, 0}, {12, 12, "ours", 0, 0}};
  std::vector<ProcessEntry> after = before;
  after[1].cpu_ticks += 100;
  after[2].cpu_ticks += 500;
  after.push_back({13, 13, "new", 300, 0});
  const std::vector<pid_t> groups = {12};
  const std::vector<BusyProcess> busy = busy_processes(before, after, 2, groups);
  ASSERT_EQ(busy.size(), 2U);
  EXPECT_EQ(busy[0].name, "new");
  EXPECT_EQ(busy[1].name, "busy");
  EXPECT_DOUBLE_EQ(busy[1].cores, 100 / ticks_per_second() / 2);
}

}  // namespace
}  // namespace tare::harness
