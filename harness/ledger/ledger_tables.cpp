#include "harness/ledger/ledger_tables.h"

#include <fmt/format.h>

#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "harness/ledger/ledger.h"
#include "harness/ledger/ledger_state.h"
#include "harness/ledger/packing.h"

namespace tare::harness {
namespace {

// What a text holds when it is an object or a list; JSON columns of the ledger hold nothing else.
std::optional<Json> structure_in(const std::string& text) {
  if (!text.starts_with('{') && !text.starts_with('[')) return std::nullopt;
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return std::nullopt;
  return json;
}

struct Column {
  std::string name;
  std::string type;  // as declared
};

std::vector<std::string> table_names(const Connection& connection) {
  std::vector<std::string> names;
  Statement statement(connection,
                      "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' "
                      "ORDER BY rowid");
  while (statement.step()) names.push_back(statement.text(0));
  return names;
}

std::vector<Column> columns_of(const Connection& connection, const std::string& table) {
  std::vector<Column> columns;
  Statement statement(connection, "SELECT name, type FROM pragma_table_info(?) ORDER BY cid");
  statement.bind(table);
  while (statement.step()) columns.push_back({statement.text(0), statement.text(1)});
  return columns;
}

std::string listed(const std::vector<Column>& columns) {
  std::vector<std::string> names;
  for (const Column& column : columns) names.push_back("\"" + column.name + "\"");
  return join(names, ", ");
}

Json value_of(const Statement& row, int index, const Column& column, const std::string& table) {
  if (row.is_null(index)) return nullptr;
  const std::string place = table + "." + column.name;
  if (column.type == "INTEGER") return row.integer(index);
  if (column.type == "REAL") return row.number(index);
  if (column.type == "BLOB") {
    try {
      if (table == "rounds") return unpack_counts(row.blob(index));
      if (table == "texts") return unpack_tokens(row.blob(index));
    } catch (const Error& error) {
      throw error.within(place);
    }
  }
  if (column.type != "TEXT") throw internal_error(fmt::format("{} is of a kind that is not known here", place));
  const std::string text = row.text(index);
  return structure_in(text).value_or(Json(text));
}

void rewrite_strings(Json& json, const TextRewrite& rewrite) {
  if (json.is_string()) {
    json = rewrite(json.get<std::string>());
  } else if (json.is_structured()) {
    for (Json& element : json) rewrite_strings(element, rewrite);
  }
}

std::string rewritten(const std::string& text, const TextRewrite& rewrite) {
  std::optional<Json> json = structure_in(text);
  if (!json) return rewrite(text);
  rewrite_strings(*json, rewrite);
  return json->dump();
}

struct Change {
  std::int64_t row;
  std::string column;
  std::string text;
};

void rewrite_table(Connection& connection, const std::string& table, const TextRewrite& rewrite) {
  std::vector<Column> columns = columns_of(connection, table);
  std::erase_if(columns, [](const Column& column) { return column.type != "TEXT"; });
  if (columns.empty()) return;
  std::vector<Change> changes;
  Statement rows(connection, fmt::format("SELECT rowid, {} FROM \"{}\"", listed(columns), table));
  while (rows.step()) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const int index = static_cast<int>(i) + 1;
      if (rows.is_null(index)) continue;
      const std::string before = rows.text(index);
      std::string after = rewritten(before, rewrite);
      if (after != before) changes.push_back({rows.integer(0), columns[i].name, std::move(after)});
    }
  }
  for (const Change& change : changes)
    Statement(connection, fmt::format("UPDATE \"{}\" SET \"{}\" = ? WHERE rowid = ?", table, change.column))
        .bind(change.text)
        .bind(change.row)
        .run();
}

}  // namespace

std::vector<LedgerTable> read_ledger_tables(const std::filesystem::path& file) {
  (void)Ledger::open_for_reading(file);  // refuses what is no sound ledger of ours
  const Connection connection(file, OpenMode::kRead, kDamagedLedgerHint);
  std::vector<LedgerTable> tables;
  for (const std::string& name : table_names(connection)) {
    const std::vector<Column> columns = columns_of(connection, name);
    LedgerTable table{name, {}, {}};
    for (const Column& column : columns) table.columns.push_back(column.name);
    Statement rows(connection, fmt::format("SELECT {} FROM \"{}\" ORDER BY rowid", listed(columns), name));
    while (rows.step()) {
      std::vector<Json> row;
      for (std::size_t i = 0; i < columns.size(); ++i)
        row.push_back(value_of(rows, static_cast<int>(i), columns[i], name));
      table.rows.push_back(std::move(row));
    }
    tables.push_back(std::move(table));
  }
  return tables;
}

void copy_ledger(const std::filesystem::path& from, const std::filesystem::path& to, const TextRewrite& rewrite) {
  (void)Ledger::open_for_reading(from);
  std::error_code ignored;
  std::filesystem::remove(to, ignored);
  {
    Connection source(from, OpenMode::kRead, kDamagedLedgerHint);
    source.execute("PRAGMA query_only = OFF");  // of which VACUUM INTO is afraid, though it changes nothing here
    Statement(source, "VACUUM INTO ?").bind(to.string()).run();
  }
  if (!rewrite) return;
  Connection copy(to, OpenMode::kCreate, kDamagedLedgerHint);
  {
    Transaction transaction(copy);
    for (const std::string& table : table_names(copy)) rewrite_table(copy, table, rewrite);
    transaction.commit();
  }
  copy.execute("VACUUM");  // free pages still hold the old texts
}

}  // namespace tare::harness
