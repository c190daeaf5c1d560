// The little of SQLite that we need: a connection, prepared statements and transactions that clean up after themselves.
// Faults become tare::Error with the file's name: input for a file that is damaged or no database, environment for a
// full disk, a missing permission or a lock held by another, internal for anything else. Files that we make have
// checksums of their pages (page_checksums.h).
#pragma once

#include <sqlite3.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tare {

enum class OpenMode {
  kRead,  // an existing file; no statement may change it, though SQLite may roll back what a killed writer left behind
  kCreate,  // read and write; made when it is not there
};

class Connection {
 public:
  // `damaged_hint`: what to do when the file is damaged or no database, which only the caller knows.
  Connection(const std::filesystem::path& file, OpenMode mode, std::string damaged_hint);

  // How long every statement from now on waits for a lock that another program holds. At first: five seconds.
  void wait_for_locks(std::chrono::milliseconds time);

  // Statements without parameters and rows; several may be separated by semicolons.
  void execute(const std::string& sql);
  // First column of the first row of a PRAGMA or SELECT.
  [[nodiscard]] std::int64_t integer(const std::string& sql);
  [[nodiscard]] std::string text(const std::string& sql);
  [[nodiscard]] std::int64_t last_row_id() const;
  [[nodiscard]] std::int64_t changed_rows() const;  // by the last statement

  [[nodiscard]] sqlite3* handle() const { return handle_.get(); }
  [[nodiscard]] const std::filesystem::path& file() const { return file_; }
  // Throws the Error that fits the result code.
  [[noreturn]] void fail(int code) const;

 private:
  struct Close {
    void operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }
  };
  std::filesystem::path file_;
  std::string damaged_hint_;
  std::unique_ptr<sqlite3, Close> handle_;
};

// One prepared statement. Parameters are bound in the order of the calls to bind; columns are read by number.
class Statement {
 public:
  Statement(const Connection& connection, std::string_view sql);

  Statement& bind(std::int64_t value);
  Statement& bind(bool value) { return bind(std::int64_t{value ? 1 : 0}); }
  Statement& bind(double value);
  Statement& bind(std::string_view value);
  Statement& bind(const std::string& value) { return bind(std::string_view(value)); }
  Statement& bind(const char* value) { return bind(std::string_view(value)); }
  Statement& bind_blob(std::string_view bytes);
  Statement& bind_null();
  template <class Value>
  Statement& bind(const std::optional<Value>& value) {
    return value ? bind(*value) : bind_null();
  }

  // True when there is a row to read, false at the end.
  bool step();
  // Steps to the end, ready to be bound anew.
  void run();

  [[nodiscard]] bool is_null(int column) const;
  [[nodiscard]] std::int64_t integer(int column) const;
  [[nodiscard]] double number(int column) const;
  [[nodiscard]] std::string text(int column) const;
  [[nodiscard]] std::string_view blob(int column) const;  // valid until the next step
  [[nodiscard]] std::optional<std::int64_t> optional_integer(int column) const;
  [[nodiscard]] std::optional<double> optional_number(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  const Connection* connection_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int bound_ = 0;

  void check(int code) const;
};

// Begins at construction; rolls back at destruction unless committed.
class Transaction {
 public:
  explicit Transaction(Connection& connection);
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction();
  void commit();

 private:
  Connection* connection_;
  bool open_ = true;
};

}  // namespace tare
