// docs/protocol/ledger.md promises to list every table and column.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/sqlite/sqlite.h"
#include "harness/ledger/schema.h"

namespace tare::harness {
namespace {

using Tables = std::map<std::string, std::vector<std::string>>;

// Between the first pair of backticks of a line.
std::string backticked(const std::string& line) {
  const std::size_t begin = line.find('`') + 1;
  return line.substr(begin, line.find('`', begin) - begin);
}

Tables tables_of_page() {
  std::istringstream page(read_text_file(std::filesystem::path(TARE_SOURCE_DIR) / "docs/protocol/ledger.md"));
  Tables tables;
  std::string table;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) table = line.starts_with("## `") ? backticked(line) : "";
    if (!table.empty() && line.starts_with("| `")) tables[table].push_back(backticked(line));
  }
  return tables;
}

Tables tables_of_schema() {
  Connection connection(":memory:", OpenMode::kCreate, "");
  connection.execute(ledger_schema());
  Tables tables;
  Statement row(connection,
                "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' "
                "ORDER BY m.name, c.cid");
  while (row.step()) tables[row.text(0)].push_back(row.text(1));
  return tables;
}

TEST(LedgerPage, HasEveryTableAndColumnInOrder) {
  EXPECT_EQ(tables_of_page(), tables_of_schema());
}

TEST(LedgerPage, ItsExampleQueryRuns) {
  const std::string page = read_text_file(std::filesystem::path(TARE_SOURCE_DIR) / "docs/protocol/ledger.md");
  const std::size_t begin = page.find("```\n") + 4;
  const std::string query = page.substr(begin, page.find("```", begin) - begin);
  Connection connection(":memory:", OpenMode::kCreate, "");
  connection.execute(ledger_schema());
  EXPECT_NO_THROW(connection.execute(query));
  EXPECT_THAT(query, testing::HasSubstr("tokens_per_second"));
}

}  // namespace
}  // namespace tare::harness
