// What goes wrong around a run, on purpose: workers that end or fall silent, a full disk, a locked ledger, a clock that
// is set, signals, two runs at once. Each time: the exit code and the words, what was measured before is whole, and the
// same command goes on to the end.
#include <elf.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sqlite3.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <ostream>
#include <thread>

#include "harness/ledger/ledger.h"
#include "tests/e2e/workspace.h"

namespace tare::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using namespace std::chrono_literals;

const std::string kShim = std::string(TARE_SOURCE_DIR) + "/tests/harness/shims/worker_shim.py";

// Memory that a program's own image takes: 8 MB, and 77 with CUDA's kernels in it.
std::uint64_t image_bytes(const std::string& program) {
  std::ifstream file(program, std::ios::binary);
  Elf64_Ehdr header{};
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  file.seekg(static_cast<std::streamoff>(header.e_phoff));
  std::uint64_t bytes = 0;
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    file.read(reinterpret_cast<char*>(&segment), sizeof segment);
    if (segment.p_type == PT_LOAD) bytes = std::max<std::uint64_t>(bytes, segment.p_vaddr + segment.p_memsz);
  }
  EXPECT_TRUE(file.good()) << program;
  return bytes;
}

// One that has ended and that nobody has waited for is gone as far as we care.
bool is_alive(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(status, text);
  return !text.empty() && text.find(") Z") == std::string::npos;
}

class Faults : public Workspace {
 protected:
  // Two arms of the worker in another language: quick, and the second one with a fault.
  [[nodiscard]] static Json shim_experiment(const std::vector<std::string>& fault, int blocks = 1) {
    Json experiment = small_experiment();
    experiment["options"] = Json::object();
    std::vector<std::string> program = {kShim};
    program.insert(program.end(), fault.begin(), fault.end());
    experiment["arms"] = {{{"name", "good"}, {"program", {kShim, "good"}}}, {{"name", "faulty"}, {"program", program}}};
    experiment["schedule"]["blocks"] = blocks;
    return experiment;
  }
  [[nodiscard]] harness::Ledger ledger() const {
    return harness::Ledger::open_for_reading(folder_ / "out" / harness::kLedgerFile);
  }
  [[nodiscard]] std::size_t count(harness::RunState state) const {
    std::size_t count = 0;
    for (const harness::RunRecord& run : ledger().runs()) count += run.state == state && !run.warmup ? 1 : 0;
    return count;
  }
  // With a library put before libc's functions.
  [[nodiscard]] Finished run_with(const std::string& library, const std::vector<std::string>& variables,
                                  const std::string& file) const {
    std::vector<std::string> argv = {"/usr/bin/env",
                                     "LD_PRELOAD=" + std::string(TARE_BINARY_DIR) + "/faults/" + library,
                                     "ASAN_OPTIONS=verify_asan_link_order=0"};
    argv.insert(argv.end(), variables.begin(), variables.end());
    argv.insert(argv.end(), {tare(), "run", file, "--out", "out"});
    return run(argv, folder_);
  }
  void expect_the_same_command_goes_on(const std::string& file, std::size_t runs) const {
    const Finished again = tare_run(file);
    EXPECT_EQ(again.code, 0) << again.err;
    EXPECT_EQ(count(harness::RunState::kFinished), runs);
    EXPECT_EQ(count(harness::RunState::kRunning), 0U);
    EXPECT_TRUE(verdict()["valid"]);
  }
};

// ---- workers ----

struct WorkerFault {
  const char* name;
  const char* where;
  const char* words;
};
std::ostream& operator<<(std::ostream& out, const WorkerFault& fault) {
  return out << fault.name;
}

class FaultyWorker : public Faults, public testing::WithParamInterface<WorkerFault> {};

TEST_P(FaultyWorker, IsReportedAndItsBlockIsMeasuredAgain) {
  const std::string flag = write("flag", "");
  Json experiment = shim_experiment({"once", flag, GetParam().name});
  experiment["limits"] = {{"prompt_s", 2}, {"worker_start_s", 10}};
  const std::string file = write(experiment);
  const Finished result = tare_run(file);
  EXPECT_EQ(result.code, 4) << result.err;
  EXPECT_THAT(result.err,
              AllOf(HasSubstr(std::string("error: arm faulty: ") + GetParam().where), HasSubstr(GetParam().words)));
  EXPECT_FALSE(std::filesystem::exists(flag)) << "the fault has struck";
  EXPECT_EQ(count(harness::RunState::kRunning), 0U);
  EXPECT_EQ(ledger().texts().size(), 2U);
  expect_the_same_command_goes_on(file, 8);
}

INSTANTIATE_TEST_SUITE_P(All, FaultyWorker,
                         testing::Values(WorkerFault{"die-at-hello", "hello", "no greeting today"},
                                         WorkerFault{"die-at-open", "open", "on fire"},
                                         WorkerFault{"die-at-run", "prompt", "last words of the worker"},
                                         WorkerFault{"die-in-answer", "prompt", "middle of a word"},
                                         WorkerFault{"killed-at-run", "prompt", "kernel out of memory"},
                                         WorkerFault{"hang-at-run", "prompt", "gave no answer for 2"}),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           std::erase(name, '-');
                           return name;
                         });

// What it measured has been answered by then: it counts, and how the launch ended is kept.
TEST_F(Faults, AWorkerThatDiesWhileClosingKeepsItsRun) {
  const std::string flag = write("flag", "");
  Json experiment = shim_experiment({"once", flag, "die-at-close"});
  experiment["schedule"]["warmup"] = false;  // the first launch of the arm counts
  const Finished result = tare_run(write(experiment));
  EXPECT_EQ(result.code, 0) << result.err;
  std::size_t ended_badly = 0;
  for (const harness::LaunchRecord& launch : ledger().launches()) {
    if (launch.exit_status == 0) continue;
    ++ended_badly;
    EXPECT_EQ(launch.exit_status, 3);
    EXPECT_THAT(launch.last_words, HasSubstr("died while closing"));
  }
  EXPECT_EQ(ended_badly, 1U);
  EXPECT_THAT(read_text_file(folder_ / "out" / "report.md"), HasSubstr("ended badly (launch "));
}

// Our own worker, with less memory than it needs: enough to start, not enough for a context of that length.
TEST_F(Faults, AWorkerThatRunsOutOfMemorySaysSo) {
#ifdef TARE_SANITIZED
  GTEST_SKIP() << "a sanitizer's shadow memory is larger than any limit";
#endif
  Json experiment = small_experiment();
  constexpr std::uint64_t kBesideImage = 53'000'000;  // enough to start and to open the model, not for these caches
  const std::uint64_t kilobytes = (image_bytes(tare()) + kBesideImage) / 1024;
  const std::string limited =
      write("limited.sh", fmt::format("#!/bin/sh\nulimit -v {}\nexec {} worker\n", kilobytes, tare()));
  std::filesystem::permissions(limited, std::filesystem::perms::owner_all);
  experiment["arms"][1]["program"] = {limited};
  experiment["arms"][1]["options"]["context"] = 8192;
  const Finished result = tare_run(write(experiment));
  EXPECT_EQ(result.code, 4) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("error: arm q4: open"), HasSubstr("cannot allocate")));
  EXPECT_EQ(count(harness::RunState::kRunning), 0U);
}

// ---- the disk ----

TEST_F(Faults, AFullDiskLosesNothingThatWasMeasured) {
  const std::string file = write(shim_experiment({"good"}, 2));
  std::size_t finished = 0;
  bool in_the_middle = false;
  // The ledger finds no space at its n-th write, and from there on; each call goes on where the one before stopped.
  for (const char* n : {"3", "40", "150", "400"}) {
    const Finished result =
        run_with("libio_faults.so", {std::string("TARE_IO_FAULT=full:") + n + ":/out/ledger.sqlite"}, file);
    ASSERT_EQ(result.code, 4) << "write " << n << ": " << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr("ledger.sqlite"), HasSubstr("full"), HasSubstr("make room")));
    if (!std::filesystem::exists(folder_ / "out" / harness::kLedgerFile)) continue;
    if (std::filesystem::file_size(folder_ / "out" / harness::kLedgerFile) == 0) continue;  // not made yet
    const std::size_t now = count(harness::RunState::kFinished) + count(harness::RunState::kInterrupted);
    EXPECT_GE(now, finished) << "write " << n;
    in_the_middle = in_the_middle || (now > finished && now < 16);
    finished = now;
  }
  EXPECT_TRUE(in_the_middle) << "no call measured anything before the disk was full";
  expect_the_same_command_goes_on(file, 16);
}

// Runs of resident workers end together: one may be in the ledger when the next one finds no space.
TEST_F(Faults, AFullDiskBetweenTheRunsOfResidentWorkersIsNoFaultOfOurs) {
  Json experiment = shim_experiment({"good"});
  experiment["schedule"] = {{"granularity", "prompt"}, {"blocks", 5}, {"seed", 1}, {"warmup", true}};
  const std::string file = write(experiment);
  bool between = false;
  for (int n = 340; n < 500; n += 24) {  // a run is stored in some 36 writes
    std::filesystem::remove_all(folder_ / "out");
    const Finished result =
        run_with("libio_faults.so", {"TARE_IO_FAULT=full:" + std::to_string(n) + ":/out/ledger.sqlite"}, file);
    EXPECT_EQ(result.code, 4) << "write " << n << ": " << result.err;
    EXPECT_THAT(result.err, HasSubstr("error: out/ledger.sqlite: SQLite says: database or disk is full")) << n;
    between = between || (count(harness::RunState::kFinished) == 1 && count(harness::RunState::kRunning) == 1);
  }
  EXPECT_TRUE(between) << "no call ended between two runs of a block";
  expect_the_same_command_goes_on(file, 10);
}

TEST_F(Faults, AReportThatFindsTheDiskFullIsWrittenByTheNextCall) {
  const std::string file = write(shim_experiment({"good"}));
  for (const char* name : {"/out/report.html", "/out/verdict.json", "/out/effects.csv"}) {
    const Finished result = run_with("libio_faults.so", {std::string("TARE_IO_FAULT=full:1:") + name}, file);
    EXPECT_EQ(result.code, 4) << name << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr(name + 1), HasSubstr("No space left on device"))) << name;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "out"))
      EXPECT_THAT(entry.path().string(), testing::Not(HasSubstr(".tmp"))) << "half a file is left";
    EXPECT_EQ(count(harness::RunState::kFinished), 8U);
  }
  expect_the_same_command_goes_on(file, 8);
}

// The limit on a file's size, as `ulimit -f` sets it: the program gets a signal, and must not end by it.
TEST_F(Faults, ALimitOnFileSizesIsAnErrorLikeAFullDisk) {
  const std::string file = write(shim_experiment({"good"}));
  const std::string limited =
      write("limited.sh", "#!/bin/sh\nulimit -f 40\nexec " + tare() + " run " + file + " --out out\n");
  std::filesystem::permissions(limited, std::filesystem::perms::owner_all);
  const Finished result = run({limited}, folder_);
  EXPECT_EQ(result.code, 4) << result.err;
  expect_the_same_command_goes_on(file, 8);
}

// ---- a ledger in other hands ----

TEST_F(Faults, ALedgerThatAnotherProgramHoldsIsSaidToBe) {
  const std::string file = write(shim_experiment({"good"}));
  ASSERT_EQ(tare_run(file).code, 0);
  const std::string path = (folder_ / "out" / harness::kLedgerFile).string();
  sqlite3* holder = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &holder), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(holder, "BEGIN EXCLUSIVE", nullptr, nullptr, nullptr), SQLITE_OK);
  Running running({tare(), "run", file, "--out", "out"}, folder_);
  const Finished report = run({tare(), "report", "out"}, folder_);
  const Finished result = running.wait();
  for (const Finished& refused : {report, result}) {
    EXPECT_EQ(refused.code, 4) << refused.err;
    EXPECT_THAT(refused.err, AllOf(HasSubstr("ledger.sqlite"), HasSubstr("locked"),
                                   HasSubstr("another program holds the file open")));
  }
  sqlite3_exec(holder, "ROLLBACK", nullptr, nullptr, nullptr);
  sqlite3_close(holder);
  expect_the_same_command_goes_on(file, 8);
}

TEST_F(Faults, ADamagedLedgerIsRefusedAndLeftAsItIs) {
  const std::string file = write(shim_experiment({"good"}));
  ASSERT_EQ(tare_run(file).code, 0);
  const std::filesystem::path path = folder_ / "out" / harness::kLedgerFile;
  std::string bytes = read_text_file(path);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
  write_file_atomically(path, bytes);
  for (const char* command : {"run", "report"}) {
    std::vector<std::string> argv = {tare(), command};
    if (argv.back() == "run") argv.insert(argv.end(), {file, "--out"});
    argv.emplace_back("out");
    const Finished result = run(argv, folder_);
    EXPECT_EQ(result.code, 2) << command;
    EXPECT_THAT(result.err, AllOf(HasSubstr("ledger.sqlite"), HasSubstr("is damaged"), HasSubstr("restore a copy")));
  }
  EXPECT_EQ(read_text_file(path), bytes);
}

TEST_F(Faults, ASecondRunOnOneDirectoryIsRefusedAndTheFirstUnharmed) {
  const std::string file = write(shim_experiment({"good"}, 2));
  Running first({tare(), "run", file, "--out", "out"}, folder_);
  ASSERT_TRUE(first.says("validation", 60s)) << first.err_so_far();
  const Finished second = tare_run(file);
  EXPECT_EQ(second.code, 2);
  EXPECT_THAT(second.err, HasSubstr("process " + std::to_string(first.pid())));
  const Finished result = first.wait();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(count(harness::RunState::kFinished), 16U);
  EXPECT_EQ(count(harness::RunState::kInterrupted), 0U);
}

// ---- the clock ----

TEST_F(Faults, ATimeOfDayThatJumpsIsWarnedOfAndMakesNoDuration) {
  const Finished result = run_with("libclock_faults.so", {}, write(shim_experiment({"good"}, 2)));
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(verdict()["valid"]);
  EXPECT_THAT(read_text_file(folder_ / "out" / "report.md"), HasSubstr("the time of day jumped"));
  bool jumped = false;
  std::int64_t last = 0;
  for (const harness::RunRecord& run : ledger().runs()) {
    EXPECT_GE(run.started_utc_ns, last) << "run " << run.id;
    EXPECT_GT(*run.ended_utc_ns, run.started_utc_ns) << "run " << run.id;
    EXPECT_LT(*run.ended_utc_ns - run.started_utc_ns, std::int64_t{3'000'000'000'000}) << "run " << run.id;
    last = *run.ended_utc_ns;
  }
  std::int64_t before = 0;
  for (const harness::StoredSample& sample : ledger().samples()) {
    jumped = jumped || sample.sample.utc_ns < before;
    before = sample.sample.utc_ns;
  }
  EXPECT_TRUE(jumped) << "the clock was to be set back";
}

// ---- signals ----

class Signals : public Faults, public testing::WithParamInterface<int> {};

TEST_P(Signals, TheFirstStopsAtTheNextPromptAndTheSameCommandGoesOn) {
  const std::string file = write(shim_experiment({"good"}, 3));
  {
    Running running({tare(), "run", file, "--out", "out"}, folder_);
    ASSERT_TRUE(running.says("measurement", 60s)) << running.err_so_far();
    running.signal(GetParam());
    const Finished result = running.wait();
    EXPECT_EQ(result.code, 130) << result.err;
    EXPECT_THAT(result.err, HasSubstr("run the same command again to go on"));
  }
  EXPECT_EQ(count(harness::RunState::kRunning), 0U);
  expect_the_same_command_goes_on(file, 24);
}

// A worker that hangs lets nothing come to its edge; who asks twice is not kept waiting.
TEST_P(Signals, TheSecondStopsAtOnceAndLeavesNoWorker) {
  const std::string flag = write("flag", "");
  const std::string file = write(shim_experiment({"once", flag, "hang-at-run"}));
  pid_t worker = 0;
  {
    Running running({tare(), "run", file, "--out", "out"}, folder_);
    for (int i = 0; i < 12'000 && std::filesystem::exists(flag); ++i) std::this_thread::sleep_for(5ms);
    ASSERT_FALSE(std::filesystem::exists(flag)) << "the worker was to hang";
    worker = static_cast<pid_t>(ledger().launches().back().pid);
    running.signal(GetParam());
    ASSERT_TRUE(running.says("once more stops at once", 60s)) << running.err_so_far();
    running.signal(GetParam() == SIGINT ? SIGTERM : SIGINT);
    EXPECT_EQ(running.wait().code, 128 + (GetParam() == SIGINT ? SIGTERM : SIGINT));
  }
  for (int i = 0; i < 2000 && is_alive(worker); ++i) std::this_thread::sleep_for(5ms);
  EXPECT_FALSE(is_alive(worker)) << worker;
  expect_the_same_command_goes_on(file, 8);
}

INSTANTIATE_TEST_SUITE_P(All, Signals, testing::Values(SIGINT, SIGTERM),
                         [](const auto& info) { return info.param == SIGINT ? "Interrupt" : "Terminate"; });

}  // namespace
}  // namespace tare::e2e
