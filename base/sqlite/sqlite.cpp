#include "base/sqlite/sqlite.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "base/sqlite/page_checksums.h"

namespace tare {
namespace {

// A reader may hold the file for the moment of its transaction; longer than this is a program that keeps it.
constexpr std::chrono::milliseconds kFirstPatience{5'000};

ErrorKind kind_of(int code) {
  if (code == SQLITE_IOERR_DATA) return ErrorKind::kInput;
  switch (code & 0xff) {  // the primary code of an extended one
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
    case SQLITE_FORMAT:
      return ErrorKind::kInput;
    case SQLITE_PERM:
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_NOMEM:
    case SQLITE_READONLY:
    case SQLITE_IOERR:
    case SQLITE_FULL:
    case SQLITE_CANTOPEN:
    case SQLITE_AUTH:
      return ErrorKind::kEnvironment;
    default:
      return ErrorKind::kInternal;
  }
}

std::string hint_of(int code, const std::string& damaged_hint) {
  if (code == SQLITE_IOERR_DATA) return damaged_hint;
  switch (code & 0xff) {
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
    case SQLITE_FORMAT:
      return damaged_hint;
    case SQLITE_FULL:
      return "make room on the disk and run again";
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return "another program holds the file open; close it and run again";
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
      return "is the directory there, and may you write into it?";
    default:
      return {};
  }
}

}  // namespace

Connection::Connection(const std::filesystem::path& file, OpenMode mode, std::string damaged_hint)
    : file_(file), damaged_hint_(std::move(damaged_hint)) {
  // READWRITE opens a file that may not be written for reading only.
  const int flags = mode == OpenMode::kRead ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(file.c_str(), &handle, flags, checked_file_layer());
  handle_.reset(handle);
  if (code != SQLITE_OK) fail(code);
  if (mode == OpenMode::kCreate) {
    int reserved = kPageChecksumBytes;  // of a new file; one that is there stays as it is
    const int taken = sqlite3_file_control(handle, "main", SQLITE_FCNTL_RESERVE_BYTES, &reserved);
    if (taken != SQLITE_OK) fail(taken);
  }
  sqlite3_extended_result_codes(handle, 1);
  wait_for_locks(kFirstPatience);
  if (mode == OpenMode::kRead) execute("PRAGMA query_only = ON");
}

void Connection::fail(int code) const {
  const std::string said = handle_ ? sqlite3_errmsg(handle_.get()) : sqlite3_errstr(code);
  const std::string what = code == SQLITE_IOERR_DATA ? "is damaged: a page does not have the checksum stored with it"
                                                     : fmt::format("SQLite says: {} (code {})", said, code);
  throw Error(kind_of(code), what, file_.string(), hint_of(code, damaged_hint_));
}

void Connection::wait_for_locks(std::chrono::milliseconds time) {
  sqlite3_busy_timeout(handle_.get(), static_cast<int>(time.count()));
}

void Connection::execute(const std::string& sql) {
  const int code = sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail(code);
}

std::int64_t Connection::integer(const std::string& sql) {
  Statement statement(*this, sql);
  if (!statement.step()) throw internal_error(fmt::format("'{}' gave no row", sql));
  return statement.integer(0);
}

std::string Connection::text(const std::string& sql) {
  Statement statement(*this, sql);
  if (!statement.step()) throw internal_error(fmt::format("'{}' gave no row", sql));
  return statement.text(0);
}

std::int64_t Connection::last_row_id() const {
  return sqlite3_last_insert_rowid(handle_.get());
}

std::int64_t Connection::changed_rows() const {
  return sqlite3_changes(handle_.get());
}

Statement::Statement(const Connection& connection, std::string_view sql) : connection_(&connection) {
  sqlite3_stmt* statement = nullptr;
  check(sqlite3_prepare_v2(connection.handle(), sql.data(), static_cast<int>(sql.size()), &statement, nullptr));
  statement_.reset(statement);
}

void Statement::check(int code) const {
  if (code != SQLITE_OK) connection_->fail(code);
}

Statement& Statement::bind(std::int64_t value) {
  check(sqlite3_bind_int64(statement_.get(), ++bound_, value));
  return *this;
}

Statement& Statement::bind(double value) {
  check(sqlite3_bind_double(statement_.get(), ++bound_, value));
  return *this;
}

Statement& Statement::bind(std::string_view value) {
  // A null pointer would bind NULL where an empty text is meant.
  const char* begin = value.empty() ? "" : value.data();
  check(sqlite3_bind_text64(statement_.get(), ++bound_, begin, value.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
  return *this;
}

Statement& Statement::bind_blob(std::string_view bytes) {
  const char* begin = bytes.empty() ? "" : bytes.data();
  check(sqlite3_bind_blob64(statement_.get(), ++bound_, begin, bytes.size(), SQLITE_TRANSIENT));
  return *this;
}

Statement& Statement::bind_null() {
  check(sqlite3_bind_null(statement_.get(), ++bound_));
  return *this;
}

bool Statement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) connection_->fail(code);
  return false;
}

void Statement::run() {
  while (step()) {
  }
  check(sqlite3_reset(statement_.get()));
  check(sqlite3_clear_bindings(statement_.get()));
  bound_ = 0;
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

double Statement::number(int column) const {
  return sqlite3_column_double(statement_.get(), column);
}

std::string Statement::text(int column) const {
  const unsigned char* begin = sqlite3_column_text(statement_.get(), column);
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column));
  return begin == nullptr ? std::string() : std::string(reinterpret_cast<const char*>(begin), size);
}

std::string_view Statement::blob(int column) const {
  const void* begin = sqlite3_column_blob(statement_.get(), column);
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column));
  return begin == nullptr ? std::string_view() : std::string_view(static_cast<const char*>(begin), size);
}

std::optional<std::int64_t> Statement::optional_integer(int column) const {
  if (is_null(column)) return std::nullopt;
  return integer(column);
}

std::optional<double> Statement::optional_number(int column) const {
  if (is_null(column)) return std::nullopt;
  return number(column);
}

Transaction::Transaction(Connection& connection) : connection_(&connection) {
  connection_->execute("BEGIN IMMEDIATE");
}

Transaction::~Transaction() {
  // After a full disk SQLite has rolled back by itself and this has nothing to do; its complaint is of no use then.
  if (open_) sqlite3_exec(connection_->handle(), "ROLLBACK", nullptr, nullptr, nullptr);
}

void Transaction::commit() {
  connection_->execute("COMMIT");
  open_ = false;
}

}  // namespace tare
