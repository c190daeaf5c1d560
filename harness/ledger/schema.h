// The ledger's tables (version 1). Columns and units: docs/protocol/ledger.md, kept equal by a test.
#pragma once

namespace tare::harness {

[[nodiscard]] const char* ledger_schema();

}  // namespace tare::harness
