// What a Ledger holds; shared by its writing half (ledger.cpp) and its reading half (ledger_reading.cpp).
#pragma once

#include "base/sqlite/sqlite.h"
#include "harness/ledger/ledger.h"

namespace tare::harness {

// What to do about a ledger file that SQLite cannot read.
constexpr const char* kDamagedLedgerHint =
    "the file is no ledger, or it is damaged; restore a copy, or measure into another directory";

struct Ledger::State {
  Connection connection;
  LedgerIdentity identity;
  std::int64_t created_utc_ns = 0;
  std::int64_t version = 0;  // of the file; below kLedgerVersion only when it was opened for reading
};

}  // namespace tare::harness
