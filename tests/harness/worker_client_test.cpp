#include "harness/worker/worker_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <string_view>
#include <thread>

#include "tests/error_of.h"

namespace tare::harness {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

const std::string kShim = std::string(TARE_SOURCE_DIR) + "/tests/harness/shims/worker_shim.py";

WorkerClient shim(const std::string& fault, double call_s = 20) {
  return {"a", {kShim, fault}, {20, call_s}};
}

bool is_alive(pid_t pid) {
  // A killed process that nobody waited for is a zombie: gone as far as we care.
  std::ifstream status("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(status, text);
  return !text.empty() && text.find(") Z") == std::string::npos;
}

bool ends_within(pid_t pid, std::chrono::milliseconds time) {
  const auto deadline = std::chrono::steady_clock::now() + time;
  while (is_alive(pid)) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

RunCall some_call() {
  RunCall call;
  call.prompt_id = "1";
  call.prompt = {1, 2, 3};
  call.max_tokens = 5;
  return call;
}

TEST(WorkerClient, RunsAWorkerInAnotherLanguage) {
  WorkerClient worker = shim("good");
  EXPECT_EQ(worker.hello().program, "shim");
  EXPECT_EQ(worker.open({"any", Json::object(), {}}).vocab_size, 500);
  EXPECT_EQ(worker.encode({{"three small words"}}).tokens.front().size(), 3U);
  const TimedRun free = worker.run(some_call());
  EXPECT_EQ(free.reply.tokens.size(), 5U);
  EXPECT_GT(free.outer_ns, 0);
  RunCall forced = some_call();
  forced.forced = free.reply.tokens;
  forced.natural = true;
  EXPECT_EQ(worker.run(forced).reply.natural, free.reply.tokens);
  EXPECT_EQ(worker.close().code, 0);
}

TEST(WorkerClient, ReportsADeadWorkerWithItsLastWords) {
  WorkerClient worker = shim("die-at-run");
  (void)worker.open({"any", Json::object(), {}});
  const Error error = error_of([&] { (void)worker.run(some_call()); });
  EXPECT_EQ(error.kind(), ErrorKind::kEnvironment);
  EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("arm a: prompt 1"), HasSubstr("killed by signal 11")));
  EXPECT_THAT(error.parts().hint, HasSubstr("last words of the worker"));
}

TEST(WorkerClient, ReportsAWorkerThatDiesWhileOpening) {
  WorkerClient worker = shim("die-at-open");
  const Error error = error_of([&] { (void)worker.open({"any", Json::object(), {}}); });
  EXPECT_THAT(error.what(), HasSubstr("exit code 3"));
  EXPECT_THAT(error.parts().hint, HasSubstr("on fire"));
}

TEST(WorkerClient, StopsAHungWorkerAndSaysSo) {
  WorkerClient worker = shim("hang-at-run", 0.3);
  (void)worker.open({"any", Json::object(), {}});
  const Error error = error_of([&] { (void)worker.run(some_call()); });
  EXPECT_EQ(error.kind(), ErrorKind::kEnvironment);
  EXPECT_THAT(error.what(), HasSubstr("gave no answer"));
  EXPECT_THAT(error.parts().hint, HasSubstr("going to sleep"));
  EXPECT_TRUE(ends_within(worker.pid(), 2000ms));
}

// Each way to fall silent, or to end, names the arm and the call that was waited for, and nobody is left behind.
struct Silence {
  const char* fault;
  const char* call;
  const char* what;
  const char* hint;
};
std::ostream& operator<<(std::ostream& out, const Silence& silence) {
  return out << silence.fault;
}

class SilentWorker : public testing::TestWithParam<Silence> {};

TEST_P(SilentWorker, IsReportedWithItsArmAndWhatItWasAskedFor) {
  const bool hangs = std::string_view(GetParam().fault).starts_with("hang");
  // One that is to hang while it starts gets no more time than it needs to say its last words.
  const double start_s = hangs && std::string_view(GetParam().call) != "prompt 1" ? 4 : 20;
  const Error error = error_of([&] {
    WorkerClient worker("a", {kShim, GetParam().fault}, {start_s, 0.3});
    (void)worker.open({"any", Json::object(), {}});
    (void)worker.run(some_call());
  });
  EXPECT_EQ(error.kind(), ErrorKind::kEnvironment);
  EXPECT_EQ(error.parts().where, std::string("arm a: ") + GetParam().call);
  EXPECT_THAT(error.parts().what, HasSubstr(GetParam().what));
  EXPECT_THAT(error.parts().hint, HasSubstr(GetParam().hint));
}

INSTANTIATE_TEST_SUITE_P(All, SilentWorker,
                         testing::Values(Silence{"die-at-hello", "hello", "ended: exit code 3", "no greeting today"},
                                         Silence{"die-in-answer", "prompt 1", "ended: exit code 3", "middle of a word"},
                                         Silence{"killed-at-run", "prompt 1", "killed by signal 9",
                                                 "kernel out of memory"},
                                         Silence{"hang-at-hello", "hello", "gave no answer for", "going to sleep"},
                                         Silence{"hang-at-open", "open", "gave no answer for", "going to sleep"},
                                         Silence{"hang-at-run", "prompt 1", "gave no answer for", "going to sleep"}),
                         [](const auto& info) {
                           std::string name = info.param.fault;
                           std::erase(name, '-');
                           return name;
                         });

// A call larger than a pipe holds: to write it must not take for ever.
TEST(WorkerClient, StopsAWorkerThatReadsNoMore) {
  WorkerClient worker = shim("deaf", 0.3);
  (void)worker.open({"any", Json::object(), {}});
  RunCall call = some_call();
  call.prompt.assign(100'000, 17);
  const Error error = error_of([&] { (void)worker.run(call); });
  EXPECT_EQ(error.kind(), ErrorKind::kEnvironment);
  EXPECT_THAT(error.what(), HasSubstr("did not take the call"));
  EXPECT_TRUE(ends_within(worker.pid(), 2000ms));
}

TEST(WorkerClient, StopsAWorkerWhoseLineNeverEnds) {
  WorkerClient worker = shim("flood");
  (void)worker.open({"any", Json::object(), {}});
  EXPECT_THAT(error_of([&] { (void)worker.run(some_call()); }).what(), HasSubstr("without ending its line"));
  EXPECT_TRUE(ends_within(worker.pid(), 2000ms));
}

TEST(WorkerClient, EndsAWorkerThatDoesNotWantToClose) {
  WorkerClient hanging("a", {kShim, "hang-at-close"}, {20, 20, 0.3});
  (void)hanging.open({"any", Json::object(), {}});
  EXPECT_EQ(hanging.close().code, 128 + SIGKILL);
  WorkerClient dying = shim("die-at-close");
  (void)dying.open({"any", Json::object(), {}});
  EXPECT_EQ(dying.close().code, 3);
  EXPECT_THAT(dying.last_words(), HasSubstr("died while closing"));
}

TEST(WorkerClient, PassesOnTheWorkersOwnError) {
  WorkerClient worker = shim("good");
  const Error error = error_of([&] { (void)worker.open({"missing", Json::object(), {}}); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_THAT(error.what(), HasSubstr("there is no such model"));
  EXPECT_NO_THROW((void)worker.open({"any", Json::object(), {}}));  // it is still usable
}

TEST(WorkerClient, RefusesNonsenseAndOtherVersions) {
  WorkerClient worker = shim("nonsense");
  (void)worker.open({"any", Json::object(), {}});
  EXPECT_THAT(error_of([&] { (void)worker.run(some_call()); }).parts().hint, HasSubstr("warming up"));
  EXPECT_THAT(error_of([] { (void)shim("wrong-version"); }).what(), HasSubstr("version 2"));
}

TEST(WorkerClient, RefusesAProgramThatIsNotThere) {
  const Error error = error_of([] { WorkerClient("a", {"/nonexistent/worker"}, {}); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_THAT(error.what(), HasSubstr("/nonexistent/worker"));
}

TEST(WorkerClient, LeavesNoProcessBehind) {
  pid_t pid = 0;
  {
    WorkerClient worker = shim("good");
    pid = worker.pid();
    EXPECT_TRUE(is_alive(pid));
  }
  EXPECT_TRUE(ends_within(pid, 2000ms));
}

TEST(WorkerClient, EndsTheWorkersOwnChildrenToo) {
  const std::string file = testing::TempDir() + "/grandchild.pid";
  std::filesystem::remove(file);
  {
    WorkerClient worker("a", {kShim, "grandchild", file}, {20, 20});
    (void)worker.close();
  }
  pid_t grandchild = 0;
  std::ifstream(file) >> grandchild;
  ASSERT_GT(grandchild, 0);
  EXPECT_TRUE(ends_within(grandchild, 2000ms));
}

// The harness is killed outright: its worker must not live on.
TEST(ChildProcess, DiesWithItsParent) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    ChildProcess child({"/bin/sleep", "300"});
    const pid_t pid = child.pid();
    (void)!::write(ends[1], &pid, sizeof pid);
    ::kill(::getpid(), SIGKILL);
  }
  pid_t pid = 0;
  ASSERT_EQ(::read(ends[0], &pid, sizeof pid), static_cast<ssize_t>(sizeof pid));
  ::waitpid(parent, nullptr, 0);
  EXPECT_TRUE(ends_within(pid, 2000ms));
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(ChildProcess, KeepsTheEndOfLongErrorOutput) {
  ChildProcess child({"/bin/sh", "-c", "for i in $(seq 1 5000); do echo line $i >&2; done; echo done; exit 7"});
  std::string line;
  EXPECT_EQ(child.read_line(line, 10s), ChildProcess::ReadResult::kLine);
  EXPECT_EQ(line, "done");
  EXPECT_EQ(child.read_line(line, 10s), ChildProcess::ReadResult::kEnd);
  const auto status = child.wait(5s);
  ASSERT_TRUE(status);
  EXPECT_EQ(status->code, 7);
  EXPECT_THAT(child.last_words(), testing::AllOf(HasSubstr("line 5000"), testing::Not(HasSubstr("line 4979\n"))));
}

TEST(ChildProcess, WritingToADeadChildIsNotASignal) {
  ChildProcess child({"/bin/true"});
  (void)child.wait(5s);
  bool good = true;
  for (int i = 0; i < 100 && good; ++i)
    good = child.write_line(std::string(10'000, 'x'), 5s) == ChildProcess::WriteResult::kWritten;
  EXPECT_FALSE(good);
}

// Both pipes are full at once: who only writes, or only reads, waits for ever.
TEST(ChildProcess, ReadsWhileItWrites) {
  ChildProcess child({"/bin/cat"});
  const std::string long_line(1'000'000, 'y');
  ASSERT_EQ(child.write_line(long_line, 10s), ChildProcess::WriteResult::kWritten);
  std::string line;
  ASSERT_EQ(child.read_line(line, 10s), ChildProcess::ReadResult::kLine);
  EXPECT_EQ(line, long_line);
}

}  // namespace
}  // namespace tare::harness
