#include "profiles/nsys/nsys_export.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace tare::profiles {

const char* const kNsysExportHint =
    "write it again: nsys export --type sqlite --force-overwrite true REPORT.nsys-rep; copies must be whole";

namespace {

namespace fs = std::filesystem;

// Export schemas whose tables mean what we take them for (the number before the first dot).
constexpr int kOldestSchema = 1;
constexpr int kNewestSchema = 3;

const fs::path& existing(const fs::path& file) {
  std::error_code failure;
  if (!fs::exists(file, failure)) throw input_error(file.string(), "there is no such file");
  if (!fs::is_regular_file(file, failure))
    throw input_error(file.string(), "is no file", "name the .sqlite file that nsys export wrote");
  return file;
}

// SQLite takes a last page that was cut for one that ends in zeros: rows would be missing without a word. Its header
// says how long the file is (https://www.sqlite.org/fileformat.html, 1.3).
void check_whole(const fs::path& file) {
  constexpr std::size_t kHeaderBytes = 100;
  std::ifstream stream(file, std::ios::binary);
  std::array<unsigned char, kHeaderBytes> header{};
  stream.read(reinterpret_cast<char*>(header.data()), static_cast<std::streamsize>(header.size()));
  if (stream.gcount() != static_cast<std::streamsize>(header.size())) return;  // SQLite says what is wrong
  const auto number_at = [&](std::size_t place, std::size_t bytes) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) value = value << 8 | header.at(place + i);
    return value;
  };
  std::uint64_t page_bytes = number_at(16, 2);
  if (page_bytes == 1) page_bytes = 65536;
  // Writers older than 2010 leave the number of pages stale; then these two differ.
  const bool counted = number_at(24, 4) == number_at(92, 4);
  const std::uint64_t wanted = number_at(28, 4) * page_bytes;
  const std::uint64_t bytes = fs::file_size(file);
  if (std::memcmp(header.data(), "SQLite format 3", 16) == 0 && counted && bytes < wanted)
    throw input_error(file.string(), fmt::format("is cut short: {} of {} bytes", bytes, wanted), kNsysExportHint);
}

std::string sql_name(const std::string& name) {
  return "\"" + name + "\"";
}

}  // namespace

NsysExport::NsysExport(const fs::path& file) : connection_(existing(file), OpenMode::kRead, kNsysExportHint) {
  check_whole(file);
  read_tables();
  if (columns_.empty()) throw input_error(file.string(), "is an empty database", kNsysExportHint);
  if (!has("StringIds") && !has("META_DATA_EXPORT"))
    throw input_error(file.string(), "is a database, but no export of Nsight Systems: it has no table StringIds",
                      "name the .sqlite file that nsys export --type sqlite wrote");
  read_versions();
}

void NsysExport::read_tables() {
  Statement tables(connection_, "SELECT name FROM sqlite_master WHERE type = 'table'");
  while (tables.step()) columns_[tables.text(0)];
  for (auto& [table, columns] : columns_) {
    Statement row(connection_, "SELECT name FROM pragma_table_info(?)");
    row.bind(table);
    while (row.step()) columns.insert(row.text(0));
  }
}

void NsysExport::read_versions() {
  if (!has("META_DATA_EXPORT")) return;  // the oldest exports say nothing
  Statement row = rows("META_DATA_EXPORT", {"name", "value"}, {"name", "value"});
  while (row.step()) {
    if (row.text(0) == "EXPORT_SCHEMA_VERSION") schema_version_ = row.text(1);
    if (row.text(0) == "EXPORT_PRODUCT_VERSION") nsys_version_ = row.text(1);
  }
  if (schema_version_.empty()) return;
  int major = 0;
  const char* const end = schema_version_.data() + schema_version_.size();
  const auto [rest, fault] = std::from_chars(schema_version_.data(), end, major);
  if (fault != std::errc() || (rest != end && *rest != '.') || major < kOldestSchema || major > kNewestSchema)
    throw input_error(file().string(),
                      fmt::format("has export schema '{}'; schemas {} to {} are known", schema_version_, kOldestSchema,
                                  kNewestSchema),
                      "export the report with another release of Nsight Systems (2020 to 2026 are known to fit)");
}

bool NsysExport::has(const std::string& table, const std::string& column) const {
  const auto entry = columns_.find(table);
  return entry != columns_.end() && entry->second.contains(column);
}

Statement NsysExport::rows(const std::string& table, const std::vector<std::string>& columns,
                           const std::set<std::string>& needed, const std::string& condition) const {
  std::vector<std::string> selected;
  for (const std::string& column : columns) {
    const bool there = has(table, column);
    if (!there && needed.contains(column))
      throw input_error(file().string(), fmt::format("table {} has no column {}", table, column),
                        fmt::format("export schema '{}' is unknown to us in this; export with another release of "
                                    "Nsight Systems",
                                    schema_version_));
    selected.push_back(there ? sql_name(column) : "NULL");
  }
  return {connection_, fmt::format("SELECT {} FROM {}{}{}", join(selected, ", "), sql_name(table),
                                   condition.empty() ? "" : " WHERE ", condition)};
}

}  // namespace tare::profiles
