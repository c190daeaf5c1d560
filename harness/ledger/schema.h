// The ledger's tables (version 4). Columns and units: docs/protocol/ledger.md, kept equal by a test.
#pragma once

#include <string>

namespace tare::harness {

[[nodiscard]] std::string ledger_schema();
// Turns the tables of version 1 into those of ledger_schema(): columns and tables are added, nothing else changes.
[[nodiscard]] std::string ledger_migration_1_to_2();
// Likewise, the tables of version 2.
[[nodiscard]] std::string ledger_migration_2_to_3();
[[nodiscard]] std::string ledger_migration_3_to_4();
[[nodiscard]] std::string ledger_migration_4_to_5();

}  // namespace tare::harness
