// The ledger's tables as files: CSV with a line an observation, and one JSON with everything.
#pragma once

#include <string>
#include <vector>

#include "harness/ledger/ledger_tables.h"

namespace tare::harness {

struct CsvFile {
  std::string name;  // "runs.csv"
  std::string content;
  std::size_t lines = 0;  // without the heading
};

// TABLE.csv with the columns that hold one value. Lists that run side by side (a replay's rounds) become lines of
// TABLE.csv, counted by the column "index"; other lists become TABLE_lists.csv, a line an element: the table's first
// column, the list's name, index and value.
[[nodiscard]] std::vector<CsvFile> csv_of(const LedgerTable& table);

// {"format": "tare-ledger", "version": 1, "tables": {NAME: [{COLUMN: VALUE}]}}: every row of every table.
[[nodiscard]] std::string json_of(const std::vector<LedgerTable>& tables);

}  // namespace tare::harness
