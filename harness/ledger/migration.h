// Brings a ledger of an older version up to date. The file itself is never changed: a copy is (columns and tables are
// added, no row changes; its pages get checksums), and takes its place by one rename when it is whole. The old one
// stays beside it. Killed at any moment, the ledger is the old one or the new one.
#pragma once

#include <cstdint>
#include <filesystem>

namespace tare::harness {

// Where the ledger of `version` is kept: ledger.version-4.sqlite beside ledger.sqlite.
[[nodiscard]] std::filesystem::path kept_ledger(const std::filesystem::path& file, std::int64_t version);

// `version` is that of the file, which is sound, at rest and opened by nobody else for writing. Throws Error
// (environment) when there is no room for the copies; the file is then as it was.
void migrate_ledger(const std::filesystem::path& file, std::int64_t version);

}  // namespace tare::harness
