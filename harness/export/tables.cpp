#include "harness/export/tables.h"

#include <algorithm>

#include "base/text.h"
#include "reports/csv_line.h"

namespace tare::harness {
namespace {

// A table whose lists belong together: element i of each is of one observation.
constexpr const char* kTableOfRounds = "rounds";

bool is_list_of_numbers(const Json& value) {
  return value.is_array() && std::all_of(value.begin(), value.end(), [](const Json& v) { return v.is_number(); });
}

// Places of the columns that hold lists of numbers in some row (blobs: JSON lists of texts stay in their cell).
std::vector<bool> list_columns(const LedgerTable& table) {
  std::vector<bool> lists(table.columns.size(), false);
  for (std::size_t c = 0; c < lists.size(); ++c) {
    const auto holds_list = [&](const std::vector<Json>& row) { return row[c].is_array() && !row[c].empty(); };
    lists[c] = std::any_of(table.rows.begin(), table.rows.end(), holds_list) &&
               std::all_of(table.rows.begin(), table.rows.end(), [&](const std::vector<Json>& row) {
                 return row[c].is_null() || is_list_of_numbers(row[c]);
               });
  }
  return lists;
}

void add(reports::CsvLine& line, const Json& value) {
  if (value.is_null()) {
    line.text("");
  } else if (value.is_string()) {
    line.text(value.get_ref<const std::string&>());
  } else if (value.is_number_float()) {
    line.number(value.get<double>());
  } else {
    line.text(value.dump());
  }
}

CsvFile rounds_csv(const LedgerTable& table, const std::vector<bool>& lists) {
  CsvFile file{table.name + ".csv", {}, 0};
  reports::CsvLine heading;
  for (std::size_t c = 0; c < lists.size(); ++c)
    if (!lists[c]) heading.text(table.columns[c]);
  heading.text("index");
  for (std::size_t c = 0; c < lists.size(); ++c)
    if (lists[c]) heading.text(table.columns[c]);
  file.content = heading.done();
  for (const std::vector<Json>& row : table.rows) {
    std::size_t length = 0;
    for (std::size_t c = 0; c < lists.size(); ++c)
      if (lists[c]) length = std::max(length, row[c].size());
    for (std::size_t i = 0; i < length; ++i) {
      reports::CsvLine line;
      for (std::size_t c = 0; c < lists.size(); ++c)
        if (!lists[c]) add(line, row[c]);
      line.integer(i);
      for (std::size_t c = 0; c < lists.size(); ++c)
        if (lists[c]) add(line, i < row[c].size() ? row[c][i] : Json());
      file.content += line.done();
      ++file.lines;
    }
  }
  return file;
}

CsvFile lists_csv(const LedgerTable& table, const std::vector<bool>& lists) {
  CsvFile file{table.name + "_lists.csv", {}, 0};
  file.content = reports::CsvLine().text(table.columns.front()).text("list").text("index").text("value").done();
  for (const std::vector<Json>& row : table.rows) {
    for (std::size_t c = 0; c < lists.size(); ++c) {
      if (!lists[c]) continue;
      for (std::size_t i = 0; i < row[c].size(); ++i) {
        reports::CsvLine line;
        add(line, row.front());
        line.text(table.columns[c]).integer(i);
        add(line, row[c][i]);
        file.content += line.done();
        ++file.lines;
      }
    }
  }
  return file;
}

}  // namespace

std::vector<CsvFile> csv_of(const LedgerTable& table) {
  const std::vector<bool> lists = list_columns(table);
  if (table.name == kTableOfRounds) return {rounds_csv(table, lists)};
  CsvFile file{table.name + ".csv", {}, table.rows.size()};
  reports::CsvLine heading;
  for (std::size_t c = 0; c < lists.size(); ++c)
    if (!lists[c]) heading.text(table.columns[c]);
  file.content = heading.done();
  for (const std::vector<Json>& row : table.rows) {
    reports::CsvLine line;
    for (std::size_t c = 0; c < lists.size(); ++c)
      if (!lists[c]) add(line, row[c]);
    file.content += line.done();
  }
  if (std::find(lists.begin(), lists.end(), true) == lists.end()) return {file};
  return {file, lists_csv(table, lists)};
}

std::string json_of(const std::vector<LedgerTable>& tables) {
  Json all = Json::object();
  for (const LedgerTable& table : tables) {
    Json rows = Json::array();
    for (const std::vector<Json>& row : table.rows) {
      Json object = Json::object();
      for (std::size_t c = 0; c < table.columns.size(); ++c) object[table.columns[c]] = row[c];
      rows.push_back(std::move(object));
    }
    all[table.name] = std::move(rows);
  }
  return Json{{"format", "tare-ledger"}, {"version", 1}, {"tables", std::move(all)}}.dump() + "\n";
}

}  // namespace tare::harness
