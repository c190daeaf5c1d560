// Everything that lies in a ledger, as text: for tests that ask whether two are equal.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/sqlite/sqlite.h"

namespace tare::harness {

using TableColumns = std::map<std::string, std::vector<std::string>>;

// Columns of every table, in order.
inline TableColumns columns_of(const std::filesystem::path& file) {
  Connection connection(file, OpenMode::kRead, "");
  TableColumns columns;
  Statement row(connection,
                "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' "
                "ORDER BY m.name, c.cid");
  while (row.step()) columns[row.text(0)].push_back(row.text(1));
  return columns;
}

// All rows of these tables and columns.
inline std::string content_of(const std::filesystem::path& file, const TableColumns& columns) {
  Connection connection(file, OpenMode::kRead, "");
  std::string content;
  for (const auto& [table, names] : columns) {
    std::string list;
    for (const std::string& name : names) list += (list.empty() ? "quote(\"" : ", quote(\"") + name + "\")";
    content += table + "\n";
    Statement row(connection, "SELECT " + list + " FROM " + table + " ORDER BY " + list);
    while (row.step())
      for (std::size_t column = 0; column < names.size(); ++column)
        content += row.text(static_cast<int>(column)) + (column + 1 == names.size() ? "\n" : " ");
  }
  return content;
}

}  // namespace tare::harness
