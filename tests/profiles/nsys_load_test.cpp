// A million kernels: time and memory of an import, measured in a process of its own.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "profiles/nsys/nsys_import.h"
#include "tests/profiles/nsys_fixture.h"

namespace tare::profiles {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kRounds = 1000;
constexpr std::int64_t kLaunches = 500;  // a round: so many one by one, and a graph of as many
constexpr double kMostSeconds = 5;       // of processor time, which other work on the machine does not lengthen
constexpr double kMostMb = 500;

// Ranges around every launch, so that the sweep has work.
void write_million(const fs::path& file) {
  NsysWriter out(file, known_schemas().back());
  std::int64_t correlation = 0;
  for (std::int64_t node = 0; node < kLaunches; ++node) out.node(1'000 + node, node + 1);
  FixtureKernel kernel{.signature = "void product<(int)16>(const float *)", .short_name = "product"};
  for (std::int64_t round = 0; round < kRounds; ++round) {
    const std::int64_t base = 1'000'000'000 + round * 10'000'000;
    out.range(base, base + 8'000'000, "round");
    for (std::int64_t i = 0; i < kLaunches; ++i) {
      const std::int64_t at = base + 1'000 + i * 8'000;
      out.range(at, at + 7'000, "layers." + std::to_string(i / 10) + ".mlp");
      out.call(at + 10, ++correlation, "cudaLaunchKernel");
      kernel.start_ns = at + 4'000;
      kernel.end_ns = at + 11'000;
      kernel.correlation = correlation;
      kernel.node = 0;
      out.kernel(kernel);
    }
    out.call(base + 4'100'000, ++correlation, "cudaGraphLaunch");
    for (std::int64_t i = 0; i < kLaunches; ++i) {
      kernel.start_ns = base + 4'200'000 + i * 6'000;
      kernel.end_ns = kernel.start_ns + 7'000;
      kernel.correlation = correlation;
      kernel.node = i + 1;
      out.kernel(kernel);
    }
  }
}

// Exit codes of the child.
constexpr int kRight = 0;
constexpr int kWrong = 1;

int import_million(const fs::path& file) {
  const NsysProfile profile = import_nsys(file, {});
  double sum = profile.idle_us;
  double calls = 0;
  for (const KernelRow& row : profile.rows) {
    sum += row.us;
    calls += row.calls;
  }
  const bool right = profile.rounds.size() == kRounds && profile.records == 2 * kLaunches * kRounds &&
                     profile.rows.size() == 2 && calls == 2 * kLaunches && sum > 0.999999 * profile.span_us &&
                     sum < 1.000001 * profile.span_us;
  return right ? kRight : kWrong;
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

TEST(NsysLoad, AMillionKernelsTakeSecondsAndLittleMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers change both";
#endif
  const fs::path file = fs::path(testing::TempDir()) / "tare-million.sqlite";
  fs::remove(file);
  write_million(file);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    try {
      _exit(import_million(file));
    } catch (const std::exception& failure) {
      std::fprintf(stderr, "%s\n", failure.what());
      _exit(kWrong);
    }
  }
  int status = 0;
  rusage usage{};
  ASSERT_EQ(wait4(child, &status, 0, &usage), child);
  fs::remove(file);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), kRight);
  const double used_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  const double peak_mb = static_cast<double>(usage.ru_maxrss) * 1024 / 1e6;
  std::printf("a million kernels: %.2f s of processor time, %.0f MB\n", used_s, peak_mb);
  EXPECT_LT(used_s, kMostSeconds);
  EXPECT_LT(peak_mb, kMostMb);
  EXPECT_GT(peak_mb, 32);  // a million records alone: the measurement is of the child that imported
}

}  // namespace
}  // namespace tare::profiles
