// The ledger's tables, of version kLedgerVersion. Columns and units: docs/protocol/ledger.md, kept equal by a test.
#pragma once

#include <cstdint>
#include <string>

namespace tare::harness {

[[nodiscard]] std::string ledger_schema();
// Turns the tables of the version before into those of `version` (2 to kLedgerVersion): columns and tables are added,
// nothing else changes.
[[nodiscard]] std::string ledger_migration_to(std::int64_t version);

}  // namespace tare::harness
