// What the tests of the ledger share: a ledger in a folder of its own, and the error that an action ends with.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/sqlite/sqlite.h"
#include "tests/error_of.h"
#include "tests/harness/ledger_rows.h"

namespace tare::harness {

class LedgerTest : public testing::Test {
 protected:
  FreshFolder fresh_;
  std::filesystem::path folder_ = fresh_.path();
  std::filesystem::path file_ = folder_ / kLedgerFile;

  Ledger open() { return Ledger::open_for_writing(file_, identity_of("aaaa")); }
  // With texts "1" and "2".
  Ledger open_with_texts() {
    Ledger ledger = open();
    ledger.store_texts({text_of("1"), text_of("2")});
    return ledger;
  }
  void execute(const std::string& sql) const { Connection(file_, OpenMode::kCreate, "").execute(sql); }
};

}  // namespace tare::harness
