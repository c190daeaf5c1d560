// The SQLite file a run directory is built on: everything that was measured, and nothing is ever deleted from it.
// Format and promises: docs/protocol/ledger.md. One process writes (RunLock); any number may read.
//
// Rollback journal with full synchronisation rather than a write-ahead log: there is one commit a run, so speed is no
// matter; the file alone is the whole ledger (copy it, mail it, read it from a read-only folder); and a killed writer
// leaves a journal that the next opening rolls back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/ledger/records.h"

namespace tare::harness {

constexpr const char* kLedgerFile = "ledger.sqlite";
constexpr std::int64_t kLedgerVersion = 7;                 // PRAGMA user_version of what is written
constexpr std::int64_t kOldestLedgerVersion = 1;           // that can be read, and gone on with
constexpr std::int64_t kLedgerApplicationId = 0x74617265;  // PRAGMA application_id: "tare"

// What the ledger is of. A ledger holds one experiment; another digest is refused when it is opened.
struct LedgerIdentity {
  std::string digest;  // experiment_digest()
  Json experiment;     // normalised form
  std::string name;
};

// One invocation of `tare run` on the ledger.
struct SittingRecord {
  std::int64_t id = 0;  // from 1; given by the ledger
  std::int64_t started_utc_ns = 0;
  Json machine;        // to_json(Machine)
  Json harness_build;  // to_json(BuildInfo)
  std::string prompts_digest;
};

// What a run that has ended hands over.
struct RunEnd {
  std::int64_t ended_utc_ns = 0;
  std::vector<PromptResult> prompts;
  std::vector<StoredSample> samples;  // run_id is filled by the ledger
};

// Names a run of the plan.
struct RunKey {
  std::int64_t block = 0;
  std::int64_t slot = 0;
  bool warmup = false;
  friend bool operator==(const RunKey&, const RunKey&) = default;
};

// Not for use by several threads at once.
class Ledger {
 public:
  // Opens for writing; creates the file when there is none, and brings an older version up to date (migration.h).
  // Throws Error: input for a file that is no ledger, is damaged, has another version or
  // belongs to another experiment (both digests are named); environment when the folder cannot be written. The caller
  // holds the RunLock of the folder.
  [[nodiscard]] static Ledger open_for_writing(const std::filesystem::path& file, const LedgerIdentity& identity);
  // Opens for reading. Throws like open_for_writing, and Error (input) when there is no such file.
  [[nodiscard]] static Ledger open_for_reading(const std::filesystem::path& file);

  Ledger(Ledger&&) noexcept;
  Ledger& operator=(Ledger&&) noexcept;
  ~Ledger();

  [[nodiscard]] const LedgerIdentity& identity() const;
  [[nodiscard]] std::int64_t created_utc_ns() const;
  [[nodiscard]] const std::filesystem::path& file() const;

  // Writing. Each call is one transaction: when it returns, what it was given is on disk.
  std::int64_t begin_sitting(const SittingRecord& sitting);  // returns its id
  void store_texts(const std::vector<TextRecord>& texts);    // once; a second set must be equal, else Error (input)
  void store_validation(const ValidationRecord& validation);
  std::int64_t begin_launch(const LaunchRecord& launch);  // returns its id
  void describe_launch(std::int64_t launch_id, const Json& options, const Json& build,
                       const std::string& checkpoint_digest, const std::string& model);
  void end_launch(std::int64_t launch_id, std::int64_t ended_utc_ns, std::optional<std::int64_t> exit_status,
                  std::optional<std::int64_t> peak_memory_bytes, const std::string& last_words);
  // Records a run as begun and returns its id; throws Error (internal) when the key is finished already.
  std::int64_t begin_run(const RunKey& key, const std::string& arm, std::int64_t launch_id,
                         std::int64_t started_utc_ns);
  // The run's prompts, rounds and samples, and the state finished: all or nothing.
  void finish_run(std::int64_t run_id, const RunEnd& end);
  void fail_run(std::int64_t run_id, std::int64_t ended_utc_ns, const std::string& reason);
  void exclude_run(std::int64_t run_id, const std::string& reason);
  void store_sample(const StoredSample& sample);
  // A GPU that an arm uses in this sitting; what is known already is kept.
  void store_gpu(std::int64_t sitting, const GpuFacts& gpu);

  // That the experiment has ended, and why; once.
  void store_stop(const StopRecord& stop);

  // That a blind experiment's analysis is frozen; once.
  void store_unblinding(const UnblindingRecord& unblinding);

  // Profiles of twin launches that walked together: all of them or none.
  void store_profiles(const std::vector<ProfileRecord>& profiles);

  // Going on after an interruption. Marks the running and finished runs (warm-ups included) of every block that is not
  // complete as interrupted, and running warm-ups of complete blocks too; returns the blocks that were marked.
  // `slots_per_block` counts runs without warm-ups.
  std::vector<std::int64_t> interrupt_incomplete_blocks(std::int64_t slots_per_block, const std::string& reason);
  // Blocks with `slots_per_block` finished or excluded runs, ascending.
  [[nodiscard]] std::vector<std::int64_t> complete_blocks(std::int64_t slots_per_block) const;
  // Finished (or excluded) runs, by block, slot.
  [[nodiscard]] std::vector<RunKey> finished_runs() const;

  // Reading, in the order of ids unless said.
  [[nodiscard]] std::vector<SittingRecord> sittings() const;
  [[nodiscard]] std::vector<TextRecord> texts() const;  // in stored order; Error (input) when a digest does not match
  [[nodiscard]] std::vector<ValidationRecord> validations() const;
  [[nodiscard]] std::vector<LaunchRecord> launches() const;
  [[nodiscard]] std::vector<RunRecord> runs() const;
  [[nodiscard]] std::vector<PromptResult> prompt_results(std::int64_t run_id) const;  // by position, rounds included
  [[nodiscard]] std::vector<StoredSample> samples() const;
  [[nodiscard]] std::vector<GpuRecord> gpus() const;                 // by sitting
  [[nodiscard]] std::optional<StopRecord> stop() const;              // absent: not ended, or a ledger before version 6
  [[nodiscard]] std::optional<UnblindingRecord> unblinding() const;  // absent: not unblinded
  [[nodiscard]] std::vector<ProfileRecord> profiles() const;         // by launch, position

 private:
  struct State;
  explicit Ledger(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;

  void read_identity();
};

}  // namespace tare::harness
