// The ledger as bare tables: for exports, which carry every row without knowing what it means.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/json_reader.h"

namespace tare::harness {

struct LedgerTable {
  std::string name;
  std::vector<std::string> columns;
  std::vector<std::vector<Json>> rows;  // null, number, text, list (of a blob), or what a JSON column holds
};

// Every table, in the order of their making. Throws Error (input) as Ledger::open_for_reading does, and where a blob or
// a JSON text cannot be read.
[[nodiscard]] std::vector<LedgerTable> read_ledger_tables(const std::filesystem::path& file);

// Rewrites one text (a JSON text is handed over string by string).
using TextRewrite = std::function<std::string(const std::string&)>;

// Copies the ledger at `from` to `to` (replaced when it is there); with `rewrite` every text of every row goes through
// it, and no page of the copy holds what was there before.
void copy_ledger(const std::filesystem::path& from, const std::filesystem::path& to, const TextRewrite& rewrite = {});

}  // namespace tare::harness
