// Ledgers of older versions: read as they are, brought up to date without being changed, whatever happens meanwhile.
#include <gmock/gmock.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/file.h"
#include "harness/ledger/ledger.h"
#include "harness/ledger/migration.h"
#include "harness/ledger/schema.h"
#include "tests/harness/faults/io_faults.h"
#include "tests/harness/ledger_content.h"
#include "tests/harness/ledger_fixture.h"

namespace tare::harness {
namespace {

using faults::IoFault;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(LedgerTest, ANewerVersionIsRefusedWithBothVersionsAndUntouched) {
  { const Ledger ledger = open(); }
  execute("PRAGMA user_version = " + std::to_string(kLedgerVersion + 1));
  const std::string before = read_text_file(file_);
  const Error error = error_of([&] { (void)open(); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("version " + std::to_string(kLedgerVersion + 1)),
                                  HasSubstr("versions 1 to " + std::to_string(kLedgerVersion))));
  EXPECT_THROW((void)Ledger::open_for_reading(file_), Error);
  EXPECT_EQ(read_text_file(file_), before);
}

// A ledger of an older version: that of the tare that wrote version 1 (tests/fixtures), gone on with by the tares of
// the versions up to the parameter, each of which added its columns and tables; and a profile, where there were any.
class OldLedger : public LedgerTest, public testing::WithParamInterface<std::int64_t> {
 protected:
  void SetUp() override {
    write_version_1_ledger(file_);
    std::string sql;
    for (std::int64_t version = 2; version <= GetParam(); ++version) sql += ledger_migration_to(version);
    if (GetParam() >= 3)
      sql +=
          "INSERT INTO profiles (launch_id, position, prompt_id, fault, source, rounds, records, span_us, idle_us, "
          "round_us, unmatched, rows) VALUES (1, 0, '1', '', 'ops', 3, 30, 10.5, 0.5, 12, '', '[]');";
    sql += "PRAGMA user_version = " + std::to_string(GetParam());
    sqlite3* handle = nullptr;  // as it was then: without checksums
    ASSERT_EQ(sqlite3_open(file_.c_str(), &handle), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(handle, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(handle);
    sqlite3_close(handle);
    columns_ = columns_of(file_);
    content_ = content_of(file_, columns_);
    bytes_ = read_text_file(file_);
    identity_ = Ledger::open_for_reading(file_).identity();
  }

  TableColumns columns_;
  std::string content_;
  std::string bytes_;
  LedgerIdentity identity_;
};

TEST_P(OldLedger, IsReadAsItIs) {
  const Ledger ledger = Ledger::open_for_reading(file_);
  EXPECT_EQ(ledger.runs().size(), 9U);  // a block of eight and a warm-up
  const std::vector<PromptResult> results = ledger.prompt_results(ledger.runs().back().id);
  ASSERT_EQ(results.size(), 2U);
  EXPECT_GT(results[0].rounds.size(), 0U);
  EXPECT_TRUE(results[0].rounds.nodes.empty());
  EXPECT_EQ(results[0].natural_digest, "");
  ASSERT_EQ(ledger.samples().size(), 18U);
  EXPECT_TRUE(ledger.samples()[0].sample.load_1min);
  EXPECT_FALSE(ledger.samples()[0].sample.own_cpu_ticks);
  EXPECT_FALSE(ledger.samples()[0].sample.gpu);
  EXPECT_THAT(ledger.gpus(), IsEmpty());
  EXPECT_TRUE(ledger.texts().at(0).rounds.is_null());
  ASSERT_EQ(ledger.profiles().size(), GetParam() >= 3 ? 1U : 0U);
  if (GetParam() >= 3) {
    EXPECT_EQ(ledger.profiles()[0].span_us, 10.5);
    EXPECT_FALSE(ledger.profiles()[0].started_utc_ns);
    EXPECT_EQ(ledger.profiles()[0].dropped, 0);
  }
  EXPECT_EQ(read_text_file(file_), bytes_);
}

TEST_P(OldLedger, IsBroughtUpToDateWhenItGoesOnAndNoRowChanges) {
  { const Ledger ledger = Ledger::open_for_writing(file_, identity_); }
  EXPECT_EQ(content_of(file_, columns_), content_);
  EXPECT_EQ(read_text_file(kept_ledger(file_, GetParam())), bytes_) << "the old one is kept as it was";
  {
    Ledger ledger = Ledger::open_for_writing(file_, identity_);
    EnvironmentSample sample;
    sample.utc_ns = 1;
    sample.own_cpu_ticks = 7;
    sample.gpu = GpuSample{};
    ledger.store_sample({std::nullopt, "after", sample});
  }
  const Ledger ledger = Ledger::open_for_reading(file_);
  ASSERT_EQ(ledger.samples().size(), 19U);
  EXPECT_FALSE(ledger.samples().front().sample.own_cpu_ticks);
  EXPECT_EQ(ledger.samples().back().sample.own_cpu_ticks, 7);
  EXPECT_TRUE(ledger.samples().back().sample.gpu);
  EXPECT_EQ(ledger.runs().size(), 9U);
}

TEST_P(OldLedger, BroughtUpToDateHasTheTablesAndTheChecksumsOfANewOne) {
  { const Ledger ledger = Ledger::open_for_writing(file_, identity_); }
  constexpr std::size_t kReservedAt = 20;  // of the file's header
  EXPECT_EQ(read_text_file(file_)[kReservedAt], 8);
  EXPECT_EQ(bytes_[kReservedAt], 0);
  const auto schema = [this] {
    Connection connection(file_, OpenMode::kRead, "");
    std::string text;
    Statement row(connection,
                  "SELECT m.name, c.name, c.type, c.\"notnull\", c.pk FROM sqlite_master m, "
                  "pragma_table_info(m.name) c WHERE m.type = 'table' ORDER BY m.name, c.cid");
    while (row.step())
      for (int column = 0; column < 5; ++column) text += row.text(column) + (column == 4 ? "\n" : " ");
    return text;
  };
  const std::string migrated = schema();
  std::filesystem::remove(file_);
  { const Ledger ledger = open(); }
  EXPECT_EQ(migrated, schema());
}

TEST_P(OldLedger, OfAnotherExperimentIsRefusedUntouched) {
  EXPECT_THROW((void)open(), Error);
  EXPECT_EQ(read_text_file(file_), bytes_);
  EXPECT_FALSE(std::filesystem::exists(kept_ledger(file_, GetParam())));
}

// Whatever the migration was doing when it ended: the ledger is the old one or the new one, and goes on.
TEST_P(OldLedger, StaysWholeWhereverTheMigrationIsStruck) {
  for (const IoFault fault : {IoFault::kKill, IoFault::kDiskFull}) {
    long n = 1;
    for (int code = -1; code != 0; ++n) {
      for (const auto& entry : std::filesystem::directory_iterator(folder_)) std::filesystem::remove(entry);
      write_file_atomically(file_, bytes_);
      const pid_t child = ::fork();
      if (child == 0) {
        faults::set_io_fault(fault, n, folder_.string());
        try {
          { const Ledger ledger = Ledger::open_for_writing(file_, identity_); }
          ::_exit(0);
        } catch (const Error& error) {
          ::_exit(error.kind() == ErrorKind::kEnvironment ? 1 : 2);
        }
      }
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      ASSERT_THAT(code, testing::AnyOf(0, fault == IoFault::kKill ? 128 + SIGKILL : 1)) << "change " << n;
      { const Ledger ledger = Ledger::open_for_reading(file_); }
      ASSERT_EQ(content_of(file_, columns_), content_) << "change " << n;
      if (code == 1) {
        ASSERT_EQ(read_text_file(file_), bytes_) << "change " << n;
      }
      ASSERT_NO_THROW((void)Ledger::open_for_writing(file_, identity_)) << "change " << n;
      ASSERT_EQ(content_of(file_, columns_), content_) << "change " << n;
      ASSERT_EQ(read_text_file(kept_ledger(file_, GetParam())), bytes_) << "change " << n;
      ASSERT_FALSE(std::filesystem::exists(file_.string() + ".next")) << "change " << n;
    }
    EXPECT_GT(n, 20) << "the fault struck too seldom to have been everywhere";
  }
}

INSTANTIATE_TEST_SUITE_P(All, OldLedger, testing::Range(kOldestLedgerVersion, kLedgerVersion));

}  // namespace
}  // namespace tare::harness
