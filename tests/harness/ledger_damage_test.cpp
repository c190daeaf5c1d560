// What becomes of a ledger when its bytes turn, its file is cut, its disk is full or its writer dies.
#include <gmock/gmock.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <fstream>
#include <functional>

#include "base/file.h"
#include "harness/ledger/ledger.h"
#include "tests/harness/faults/io_faults.h"
#include "tests/harness/ledger_content.h"
#include "tests/harness/ledger_fixture.h"

namespace tare::harness {
namespace {

using faults::IoFault;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(LedgerTest, AFileThatIsNoDatabaseIsInputNotACrash) {
  std::ofstream(file_) << std::string(5000, 'x');
  EXPECT_EQ(error_of([&] { (void)open(); }).kind(), ErrorKind::kInput);
  EXPECT_EQ(error_of([&] { (void)Ledger::open_for_reading(file_); }).kind(), ErrorKind::kInput);
}

TEST_F(LedgerTest, ADamagedFileIsFoundWhenItIsOpened) {
  {
    Ledger ledger = open_with_texts();
    const std::int64_t launch = begin_launch(ledger, "a");
    for (std::int64_t slot = 0; slot < 40; ++slot) finished_run(ledger, {0, slot, false}, launch);
  }
  std::string bytes = read_text_file(file_);
  ASSERT_GT(bytes.size(), 40'000U);
  bytes.replace(16'384, 12'288, std::string(12'288, '\x5a'));
  std::ofstream(file_, std::ios::binary) << bytes;
  const Error error = error_of([&] { (void)Ledger::open_for_reading(file_); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_THAT(error.what(), HasSubstr(kLedgerFile));
}

TEST_F(LedgerTest, ATruncatedFileIsFoundWhenItIsOpened) {
  { Ledger ledger = open_with_texts(); }
  const std::string bytes = read_text_file(file_);
  std::ofstream(file_, std::ios::binary) << bytes.substr(0, bytes.size() / 2);
  EXPECT_EQ(error_of([&] { (void)Ledger::open_for_reading(file_); }).kind(), ErrorKind::kInput);
}

TEST_F(LedgerTest, AChangedTextIsFoundByItsDigest) {
  { Ledger ledger = open_with_texts(); }
  execute("UPDATE texts SET tokens = x'0100000002000000' WHERE prompt_id = '2'");
  const Ledger ledger = Ledger::open_for_reading(file_);
  EXPECT_THAT(error_of([&] { (void)ledger.texts(); }).what(), AllOf(HasSubstr("prompt '2'"), HasSubstr("digest")));
}

// A child begins a transaction, writes a part of it, and is killed: the ledger is as before.
TEST_F(LedgerTest, AKilledWriterLeavesNothingHalfWritten) {
  {
    Ledger ledger = open_with_texts();
    finished_run(ledger, {0, 0, false}, begin_launch(ledger, "a"));
  }
  std::array<int, 2> pipe_ends{};
  ASSERT_EQ(::pipe(pipe_ends.data()), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    sqlite3* handle = nullptr;
    // A cache of one page makes SQLite write into the file before the commit, with a journal beside it.
    const bool written = sqlite3_open(file_.c_str(), &handle) == SQLITE_OK &&
                         sqlite3_exec(handle,
                                      "PRAGMA cache_size = 1; BEGIN IMMEDIATE; UPDATE runs SET state = 'failed'; "
                                      "DELETE FROM rounds; UPDATE texts SET outcome = hex(zeroblob(20000));",
                                      nullptr, nullptr, nullptr) == SQLITE_OK;
    const char done = written ? 'y' : 'n';
    (void)!::write(pipe_ends[1], &done, 1);
    ::pause();
    ::_exit(0);
  }
  char done = 0;
  ASSERT_EQ(::read(pipe_ends[0], &done, 1), 1);
  EXPECT_EQ(done, 'y');
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
  ASSERT_TRUE(std::filesystem::exists(file_.string() + "-journal")) << "the child was to be in the middle";
  const Ledger ledger = Ledger::open_for_reading(file_);
  EXPECT_EQ(ledger.runs().at(0).state, RunState::kFinished);
  EXPECT_EQ(ledger.prompt_results(ledger.runs().at(0).id).at(0).rounds.size(), 3U);
  EXPECT_EQ(ledger.texts().at(0).outcome, "length");
}

TEST_F(LedgerTest, ALedgerBegunAndKilledBeforeItsTablesIsMadeAnew) {
  std::ofstream(file_).flush();  // what SQLite leaves after a rollback of the first transaction
  const Ledger ledger = open();
  EXPECT_EQ(ledger.identity().digest, "aaaa");
}

// Longer than a program that opens the ledger would wait.
TEST_F(LedgerTest, ARunThatWasMeasuredWaitsForALedgerThatIsHeld) {
  Ledger ledger = open_with_texts();
  const std::int64_t run = ledger.begin_run({0, 0, false}, "a", begin_launch(ledger, "a"), 20);
  std::array<int, 2> pipe_ends{};
  ASSERT_EQ(::pipe(pipe_ends.data()), 0);
  const pid_t holder = ::fork();
  if (holder == 0) {
    sqlite3* handle = nullptr;
    const bool held = sqlite3_open(file_.c_str(), &handle) == SQLITE_OK &&
                      sqlite3_exec(handle, "BEGIN EXCLUSIVE", nullptr, nullptr, nullptr) == SQLITE_OK;
    const char done = held ? 'y' : 'n';
    (void)!::write(pipe_ends[1], &done, 1);
    ::sleep(6);
    ::_exit(0);
  }
  char done = 0;
  ASSERT_EQ(::read(pipe_ends[0], &done, 1), 1);
  ASSERT_EQ(done, 'y');
  EXPECT_EQ(error_of([&] { (void)Ledger::open_for_reading(file_); }).kind(), ErrorKind::kEnvironment);
  EXPECT_NO_THROW(ledger.finish_run(run, {30, {result_of("1", 0)}, {}}));
  EXPECT_EQ(::waitpid(holder, nullptr, 0), holder);
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
}

// ---- bits that turn ----

class TurnedBits : public LedgerTest {
 protected:
  // With rows of every table that holds what was measured.
  void SetUp() override {
    Ledger ledger = open_with_texts();
    const std::int64_t launch = begin_launch(ledger, "a");
    ledger.store_validation({9, "own texts", false, 2, 2, std::nullopt});
    EnvironmentSample sample;
    sample.utc_ns = 21;
    sample.gpu = GpuSample{};
    for (std::int64_t slot = 0; slot < 12; ++slot) {
      const std::int64_t run = ledger.begin_run({0, slot, false}, "a", launch, 20);
      ledger.store_sample({run, "before", sample});
      ledger.finish_run(run, {30, {result_of("1", 0), result_of("2", 1)}, {{std::nullopt, "after", sample}}});
    }
    ProfileRecord profile;
    profile.launch_id = launch;
    profile.prompt_id = "1";
    profile.rows = Json::array();
    for (int row = 0; row < 200; ++row)
      profile.rows.push_back({{"kernel", "norm"}, {"us", row}});  // longer than a page
    ledger.store_profiles({profile});
  }

  struct Outcome {
    int tried = 0;
    int refused = 0;
    int passed_as_another = 0;  // read without an error, and not what was stored
  };
  // Turns one bit after the other, a step apart, and reads all of the ledger each time.
  Outcome turn(const std::filesystem::path& file, std::size_t begin, std::size_t end, std::size_t step) const {
    const std::string sound = read_text_file(file);
    const TableColumns columns = columns_of(file);
    const std::string content = content_of(file, columns);
    const std::filesystem::path spoiled = folder_ / "spoiled.sqlite";
    Outcome outcome;
    for (std::size_t bit = 8 * begin; bit < 8 * std::min(end, sound.size()); bit += step) {
      std::string bytes = sound;
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
      std::ofstream(spoiled, std::ios::binary | std::ios::trunc) << bytes;
      ++outcome.tried;
      try {
        { const Ledger ledger = Ledger::open_for_reading(spoiled); }
        if (content_of(spoiled, columns) != content) ++outcome.passed_as_another;
      } catch (const Error& error) {
        ++outcome.refused;
        EXPECT_EQ(error.kind(), ErrorKind::kInput) << "bit " << bit << ": " << error.what();
        EXPECT_THAT(error.what(), HasSubstr("spoiled.sqlite")) << "bit " << bit;
      }
    }
    return outcome;
  }
};

TEST_F(TurnedBits, EveryBitOfTheHeaderIsFound) {
  const Outcome outcome = turn(file_, 0, 100, 1);
  EXPECT_EQ(outcome.tried, 800);
  EXPECT_EQ(outcome.refused, outcome.tried);
}

TEST_F(TurnedBits, AreFoundInEveryPageOrAreInNoPageInUse) {
  constexpr std::size_t kStep = 8 * 61 + 3;  // comes through all bits of a byte and all places of a page
  const Outcome outcome = turn(file_, 100, std::filesystem::file_size(file_), kStep);
  EXPECT_GT(outcome.tried, 1000);
  EXPECT_EQ(outcome.passed_as_another, 0);
  EXPECT_EQ(outcome.refused, outcome.tried) << "no page of this ledger is free";
}

// The control: without checksums, turned bits come out as other numbers.
TEST_F(TurnedBits, PassAsOtherNumbersWithoutChecksums) {
  const std::filesystem::path bare = folder_ / "bare.sqlite";
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open(bare.c_str(), &handle), SQLITE_OK);
  const std::string copy = "ATTACH '" + file_.string() +
                           "' AS sound; PRAGMA application_id = " + std::to_string(kLedgerApplicationId) +
                           "; PRAGMA user_version = " + std::to_string(kLedgerVersion) + ";";
  ASSERT_EQ(sqlite3_exec(handle, copy.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(handle);
  for (const auto& [table, columns] : columns_of(file_)) {
    const std::string sql = "CREATE TABLE " + table + " AS SELECT * FROM sound." + table;
    ASSERT_EQ(sqlite3_exec(handle, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(handle);
  }
  sqlite3_close(handle);
  EXPECT_GT(turn(bare, 4096, std::filesystem::file_size(bare), 8 * 61 + 3).passed_as_another, 10);
}

// ---- a disk that is full, a writer that dies ----

// Runs `action` in a process of its own whose n-th change of the ledger's files is struck; 0: it came to its end, 1: by
// an Error of the environment, 128 + signal: killed, anything else: a fault.
int with_fault(IoFault fault, long n, const std::filesystem::path& folder, const std::function<void()>& action) {
  const pid_t child = ::fork();
  if (child == 0) {
    faults::set_io_fault(fault, n, folder.string());
    int code = 0;
    try {
      action();
    } catch (const Error& error) {
      code = error.kind() == ErrorKind::kEnvironment ? 1 : 2;
    } catch (...) {
      code = 3;
    }
    ::_exit(code);
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child) return 4;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

class StruckWriter : public LedgerTest, public testing::WithParamInterface<IoFault> {
 protected:
  // How an action ends that is struck.
  [[nodiscard]] static int struck() { return GetParam() == IoFault::kKill ? 128 + SIGKILL : 1; }
};

TEST_P(StruckWriter, LeavesARunWholeOrNotAtAll) {
  std::int64_t run = 0;
  {
    Ledger ledger = open_with_texts();
    const std::int64_t launch = begin_launch(ledger, "a");
    finished_run(ledger, {0, 0, false}, launch);
    run = ledger.begin_run({0, 1, false}, "a", launch, 20);
  }
  const std::string before = read_text_file(file_);
  const auto finish = [&] { open().finish_run(run, {30, {result_of("1", 0), result_of("2", 1)}, {}}); };
  long n = 1;
  for (int code = -1; code != 0; ++n) {
    std::filesystem::remove(file_.string() + "-journal");
    std::ofstream(file_, std::ios::binary | std::ios::trunc) << before;
    code = with_fault(GetParam(), n, folder_, finish);
    ASSERT_THAT(code, testing::AnyOf(0, struck())) << "change " << n;
    const Ledger ledger = Ledger::open_for_reading(file_);
    EXPECT_EQ(ledger.runs().at(0).state, RunState::kFinished);
    EXPECT_EQ(ledger.prompt_results(ledger.runs().at(0).id).size(), 2U) << "what was measured before";
    const bool whole = ledger.runs().at(1).state == RunState::kFinished;
    EXPECT_EQ(ledger.prompt_results(run).size(), whole ? 2U : 0U) << "change " << n;
    if (code == 0) {
      EXPECT_TRUE(whole);
    }
    if (code == 1) {
      EXPECT_FALSE(whole) << "said to have failed at change " << n;
    }
  }
  EXPECT_GT(n, 4) << "the fault struck too seldom to have been everywhere";
}

TEST_P(StruckWriter, LeavesANewLedgerThatCanBeBegunAgain) {
  long n = 1;
  for (int code = -1; code != 0; ++n) {
    code = with_fault(GetParam(), n, folder_, [&] { (void)open(); });
    ASSERT_THAT(code, testing::AnyOf(0, struck())) << "change " << n;
    EXPECT_NO_THROW((void)open()) << "change " << n;
    std::filesystem::remove(file_);
  }
  EXPECT_GT(n, 4);
}

INSTANTIATE_TEST_SUITE_P(All, StruckWriter, testing::Values(IoFault::kKill, IoFault::kDiskFull),
                         [](const auto& info) { return info.param == IoFault::kKill ? "Killed" : "DiskFull"; });

}  // namespace
}  // namespace tare::harness
