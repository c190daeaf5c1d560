// A file of `nsys export --type sqlite`: which tables and columns this one has. Tables without rows are left out by
// nsys, and columns come and go with its versions, so nothing is read that was not looked for first.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/sqlite/sqlite.h"

namespace tare::profiles {

class NsysExport {
 public:
  // Throws Error (input): no such file, no SQLite database or one that is damaged or cut short, no tables, a database
  // of something else, an export schema that is not known.
  explicit NsysExport(const std::filesystem::path& file);

  [[nodiscard]] const std::filesystem::path& file() const { return connection_.file(); }
  [[nodiscard]] const std::string& schema_version() const { return schema_version_; }  // "3.25.0"; empty: not said
  [[nodiscard]] const std::string& nsys_version() const { return nsys_version_; }      // likewise

  [[nodiscard]] bool has(const std::string& table) const { return columns_.contains(table); }
  [[nodiscard]] bool has(const std::string& table, const std::string& column) const;
  // Rows of a table that is there, in stored order; a column that this version lacks reads as NULL. `condition` may
  // name only columns that are there. Throws Error (input) when one of `needed` is missing.
  [[nodiscard]] Statement rows(const std::string& table, const std::vector<std::string>& columns,
                               const std::set<std::string>& needed = {}, const std::string& condition = {}) const;

 private:
  Connection connection_;
  std::map<std::string, std::set<std::string>> columns_;  // by table
  std::string schema_version_;
  std::string nsys_version_;

  void read_tables();
  void read_versions();
};

// What to do about a file that cannot be used, for messages.
extern const char* const kNsysExportHint;

}  // namespace tare::profiles
