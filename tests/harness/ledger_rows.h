// Rows of a ledger for tests: a text, a replay of it, a run directory of its own.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/file.h"
#include "base/sqlite/sqlite.h"
#include "harness/ledger/ledger.h"

namespace tare::harness {

// An empty folder of this test's own, removed at the end. In memory where the system has such a place: a ledger waits
// for the disk at every commit, and the tests make thousands.
class FreshFolder {
 public:
  FreshFolder() {
    const std::filesystem::path memory = "/dev/shm";
    const bool in_memory = std::filesystem::is_directory(memory) && ::access(memory.c_str(), W_OK) == 0;
    std::string name = ((in_memory ? memory : std::filesystem::temp_directory_path()) / "tare_test.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw internal_error("no folder for a test");
    path_ = name;
  }
  FreshFolder(const FreshFolder&) = delete;
  FreshFolder& operator=(const FreshFolder&) = delete;
  ~FreshFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// A ledger of version 1 (tests/fixtures/README.md): as it was then, without checksums of its pages.
inline void write_version_1_ledger(const std::filesystem::path& file) {
  sqlite3* handle = nullptr;
  const std::string sql =
      read_text_file(std::filesystem::path(TARE_SOURCE_DIR) / "tests/fixtures/ledger-v1/ledger.sql");
  const bool written = sqlite3_open(file.c_str(), &handle) == SQLITE_OK &&
                       sqlite3_exec(handle, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK;
  sqlite3_close(handle);
  if (!written) throw internal_error("no ledger of version 1 for a test");
}

inline LedgerIdentity identity_of(const std::string& digest) {
  return {digest, Json::parse(R"({"name": "small"})"), "small"};
}

inline TextRecord text_of(const std::string& prompt) {
  TextRecord text;
  text.prompt_id = prompt;
  text.category = "code";
  text.prompt_tokens = {1, 2, 3};
  text.tokens = {-1, 0, 5, 2147483647};
  text.round_tokens = {1, 1, 1};
  text.outcome = "length";
  text.distinct_4gram_share = 0.75;
  text.period = 3;
  text.repetitive = true;
  return text;
}

inline PromptResult result_of(const std::string& prompt, std::int64_t position) {
  PromptResult result;
  result.prompt_id = prompt;
  result.position = position;
  result.started_utc_ns = 100;
  result.prompt_tokens = 3;
  result.tokens = 4;
  result.prefill_ns = 7;
  result.time_to_first_token_ns = 8;
  result.decode_tokens = 3;
  result.decode_ns = 600;
  result.inner_ns = 700;
  result.outer_ns = 710;
  result.outcome = "forced_text";
  result.agreed_tokens = 4;
  result.text_digest = digest_tokens(text_of(prompt).tokens);
  result.rounds = {{100, 200, 300}, {1, 1, 1}, {0, 10, std::int64_t{1} << 40}};
  return result;
}

// A sitting with one launch of the arm; returns the launch.
inline std::int64_t begin_launch(Ledger& ledger, const std::string& arm) {
  LaunchRecord launch;
  launch.arm = arm;
  launch.purpose = "measurement";
  launch.block = 0;
  launch.sitting = ledger.sittings().empty() ? ledger.begin_sitting({0, 5, Json::object(), Json::object(), "p"}) : 1;
  launch.program = {"tare", "worker"};
  launch.pid = 42;
  launch.started_utc_ns = 10;
  return ledger.begin_launch(launch);
}

// One run from begin to finished, of a ledger that has the texts "1" and "2".
inline std::int64_t finished_run(Ledger& ledger, const RunKey& key, std::int64_t launch_id) {
  const std::int64_t run_id = ledger.begin_run(key, "a", launch_id, 20);
  ledger.finish_run(run_id, {30, {result_of("1", 0), result_of("2", 1)}, {}});
  return run_id;
}

}  // namespace tare::harness
