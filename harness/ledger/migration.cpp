#include "harness/ledger/migration.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <system_error>

#include "base/error.h"
#include "base/sqlite/sqlite.h"
#include "harness/ledger/ledger_state.h"
#include "harness/ledger/schema.h"

namespace tare::harness {
namespace {

namespace fs = std::filesystem;

// Names that only a killed migration leaves behind; the next one writes them anew.
fs::path next_to(const fs::path& file) {
  return file.string() + ".next";
}

void check(const std::error_code& failure, const fs::path& file, const char* what) {
  if (failure)
    throw Error(ErrorKind::kEnvironment, fmt::format("{}: {}", what, failure.message()), file.string(),
                "make room on the disk and run again; the ledger is as it was");
}

// So that a rename is on the disk, not only what it names.
void sync_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;  // a file system without such a thing; the rename stands either way
  ::fsync(descriptor);
  ::close(descriptor);
}

void remove_leftovers(const fs::path& next) {
  std::error_code failure;
  for (const char* ending : {"", "-journal"}) {
    fs::remove(next.string() + ending, failure);
    check(failure, next, "cannot be removed");
  }
}

void write_up_to_date(const fs::path& file, const fs::path& next, std::int64_t version) {
  {
    Connection old(file, OpenMode::kCreate, kDamagedLedgerHint);
    Statement(old, "VACUUM INTO ?").bind(next.string()).run();
  }
  Connection connection(next, OpenMode::kCreate, kDamagedLedgerHint);
  connection.execute("PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON");
  Transaction transaction(connection);
  for (std::int64_t step = version + 1; step <= kLedgerVersion; ++step) connection.execute(ledger_migration_to(step));
  connection.execute(fmt::format("PRAGMA user_version = {}", kLedgerVersion));
  transaction.commit();
}

}  // namespace

fs::path kept_ledger(const fs::path& file, std::int64_t version) {
  return file.parent_path() / fmt::format("{}.version-{}{}", file.stem().string(), version, file.extension().string());
}

void migrate_ledger(const fs::path& file, std::int64_t version) {
  const fs::path next = next_to(file);
  const fs::path kept = kept_ledger(file, version);
  const fs::path keeping = next_to(kept);
  remove_leftovers(next);
  write_up_to_date(file, next, version);
  std::error_code failure;
  fs::copy_file(file, keeping, fs::copy_options::overwrite_existing, failure);
  check(failure, keeping, "cannot be written");
  fs::rename(keeping, kept, failure);
  check(failure, kept, "cannot be written");
  fs::rename(next, file, failure);
  check(failure, file, "cannot be replaced");
  sync_folder(file.parent_path());
}

}  // namespace tare::harness
