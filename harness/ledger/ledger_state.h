// What a Ledger holds; shared by its writing half (ledger.cpp) and its reading half (ledger_reading.cpp).
#pragma once

#include "harness/ledger/ledger.h"
#include "harness/ledger/sqlite.h"

namespace tare::harness {

struct Ledger::State {
  Connection connection;
  LedgerIdentity identity;
  std::int64_t created_utc_ns = 0;
};

}  // namespace tare::harness
