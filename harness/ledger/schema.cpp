#include "harness/ledger/schema.h"

#include <fmt/format.h>

#include "base/error.h"

namespace tare::harness {

namespace {

// What version 2 brought; the columns of `samples` that it brought are in both texts below.
constexpr const char* kTablesOfVersion2 = R"sql(
CREATE TABLE gpu_samples (
  sample_id INTEGER PRIMARY KEY REFERENCES samples (id),
  pci_bus_id TEXT NOT NULL,
  sm_clock_mhz REAL,
  memory_clock_mhz REAL,
  temperature_c REAL,
  power_w REAL,
  event_reasons INTEGER,
  power_limit_w REAL,
  energy_mj INTEGER,
  other_processes INTEGER
) STRICT;

CREATE TABLE gpus (
  sitting INTEGER NOT NULL REFERENCES sittings (id),
  pci_bus_id TEXT NOT NULL,
  name TEXT,
  uuid TEXT,
  driver_version TEXT,
  default_power_limit_w REAL,
  max_sm_clock_mhz REAL,
  max_memory_clock_mhz REAL,
  persistence INTEGER CHECK (persistence IN (0, 1)),
  missing TEXT NOT NULL,
  PRIMARY KEY (sitting, pci_bus_id)
) STRICT;
)sql";

// What version 3 brought.
constexpr const char* kTablesOfVersion3 = R"sql(
CREATE TABLE profiles (
  launch_id INTEGER NOT NULL REFERENCES launches (id),
  position INTEGER NOT NULL CHECK (position >= 0),
  prompt_id TEXT NOT NULL REFERENCES texts (prompt_id),
  fault TEXT NOT NULL,
  source TEXT NOT NULL CHECK (source IN ('', 'kernels', 'ops')),
  rounds INTEGER NOT NULL CHECK (rounds >= 0),
  records INTEGER NOT NULL CHECK (records >= 0),
  span_us REAL NOT NULL,
  idle_us REAL NOT NULL,
  round_us REAL NOT NULL,
  unmatched TEXT NOT NULL,
  rows TEXT NOT NULL,
  PRIMARY KEY (launch_id, position)
) STRICT;
)sql";

constexpr const char* kOtherTables = R"sql(
CREATE TABLE experiment (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  digest TEXT NOT NULL,
  name TEXT NOT NULL,
  normalised TEXT NOT NULL,
  created_utc_ns INTEGER NOT NULL
) STRICT;

CREATE TABLE sittings (
  id INTEGER PRIMARY KEY,
  started_utc_ns INTEGER NOT NULL,
  machine TEXT NOT NULL,
  harness_build TEXT NOT NULL,
  prompts_digest TEXT NOT NULL
) STRICT;

CREATE TABLE texts (
  position INTEGER PRIMARY KEY,
  prompt_id TEXT NOT NULL UNIQUE,
  category TEXT NOT NULL,
  prompt_tokens BLOB NOT NULL,
  tokens BLOB NOT NULL,
  round_tokens BLOB NOT NULL,
  outcome TEXT NOT NULL,
  distinct_4gram_share REAL NOT NULL,
  dominant_token_share REAL NOT NULL,
  periodic_suffix_tokens INTEGER NOT NULL,
  period INTEGER NOT NULL,
  repetitive INTEGER NOT NULL CHECK (repetitive IN (0, 1)),
  digest TEXT NOT NULL,
  prompt_digest TEXT NOT NULL
) STRICT;

CREATE TABLE validations (
  id INTEGER PRIMARY KEY,
  utc_ns INTEGER NOT NULL,
  name TEXT NOT NULL,
  is_control INTEGER NOT NULL CHECK (is_control IN (0, 1)),
  prompts INTEGER NOT NULL CHECK (prompts >= 0),
  prompts_equal INTEGER NOT NULL CHECK (prompts_equal BETWEEN 0 AND prompts),
  difference_prompt_id TEXT,
  difference_position INTEGER,
  difference_what TEXT,
  difference_wanted INTEGER,
  difference_got INTEGER
) STRICT;

CREATE TABLE launches (
  id INTEGER PRIMARY KEY,
  sitting INTEGER NOT NULL REFERENCES sittings (id),
  arm TEXT NOT NULL,
  purpose TEXT NOT NULL,
  block INTEGER NOT NULL,
  program TEXT NOT NULL,
  pid INTEGER NOT NULL,
  started_utc_ns INTEGER NOT NULL,
  options TEXT,
  build TEXT,
  checkpoint_digest TEXT,
  model TEXT,
  ended_utc_ns INTEGER,
  exit_status INTEGER,
  peak_memory_bytes INTEGER,
  last_words TEXT
) STRICT;

CREATE TABLE runs (
  id INTEGER PRIMARY KEY,
  block INTEGER NOT NULL CHECK (block >= 0),
  slot INTEGER NOT NULL CHECK (slot >= 0),
  attempt INTEGER NOT NULL CHECK (attempt >= 1),
  warmup INTEGER NOT NULL CHECK (warmup IN (0, 1)),
  arm TEXT NOT NULL,
  launch_id INTEGER NOT NULL REFERENCES launches (id),
  state TEXT NOT NULL CHECK (state IN ('running', 'finished', 'interrupted', 'failed', 'excluded')),
  started_utc_ns INTEGER NOT NULL,
  ended_utc_ns INTEGER,
  reason TEXT NOT NULL,
  UNIQUE (block, slot, warmup, attempt)
) STRICT;

CREATE UNIQUE INDEX one_finished_run ON runs (block, slot, warmup) WHERE state IN ('finished', 'excluded');

CREATE TABLE prompt_results (
  run_id INTEGER NOT NULL REFERENCES runs (id),
  position INTEGER NOT NULL CHECK (position >= 0),
  prompt_id TEXT NOT NULL REFERENCES texts (prompt_id),
  started_utc_ns INTEGER NOT NULL,
  prompt_tokens INTEGER NOT NULL CHECK (prompt_tokens >= 0),
  tokens INTEGER NOT NULL CHECK (tokens >= 0),
  agreed_tokens INTEGER NOT NULL CHECK (agreed_tokens BETWEEN 0 AND tokens),
  prefill_ns INTEGER NOT NULL CHECK (prefill_ns >= 0),
  time_to_first_token_ns INTEGER NOT NULL CHECK (time_to_first_token_ns >= 0),
  decode_tokens INTEGER NOT NULL CHECK (decode_tokens >= 0),
  decode_ns INTEGER NOT NULL CHECK (decode_ns >= 0),
  inner_ns INTEGER NOT NULL CHECK (inner_ns >= 0),
  outer_ns INTEGER NOT NULL CHECK (outer_ns >= 0),
  outcome TEXT NOT NULL,
  text_digest TEXT NOT NULL,
  PRIMARY KEY (run_id, position),
  UNIQUE (run_id, prompt_id)
) STRICT;

CREATE TABLE rounds (
  run_id INTEGER NOT NULL,
  position INTEGER NOT NULL,
  count INTEGER NOT NULL CHECK (count >= 0),
  duration_ns BLOB NOT NULL,
  tokens BLOB NOT NULL,
  spun_ns BLOB NOT NULL,
  PRIMARY KEY (run_id, position),
  FOREIGN KEY (run_id, position) REFERENCES prompt_results (run_id, position)
) STRICT;

CREATE TABLE samples (
  id INTEGER PRIMARY KEY,
  run_id INTEGER REFERENCES runs (id),
  kind TEXT NOT NULL CHECK (kind IN ('before', 'after', 'sampler')),
  utc_ns INTEGER NOT NULL,
  load_1min REAL,
  runnable INTEGER,
  cpu_pressure_avg10 REAL,
  cpu_pressure_us INTEGER,
  cpu_steal_ticks INTEGER,
  cpu_busy_ticks INTEGER,
  frequency_mhz REAL,
  memory_available_bytes INTEGER,
  uptime_s REAL,
  memory_pressure_us INTEGER,
  io_pressure_us INTEGER,
  cgroup_throttled_us INTEGER,
  cgroup_throttled_periods INTEGER,
  own_cpu_ticks INTEGER,
  builds TEXT,
  cost_ns INTEGER
) STRICT;
)sql";

constexpr const char* kNewColumnsOfVersion2 = R"sql(
ALTER TABLE samples ADD COLUMN memory_pressure_us INTEGER;
ALTER TABLE samples ADD COLUMN io_pressure_us INTEGER;
ALTER TABLE samples ADD COLUMN cgroup_throttled_us INTEGER;
ALTER TABLE samples ADD COLUMN cgroup_throttled_periods INTEGER;
ALTER TABLE samples ADD COLUMN own_cpu_ticks INTEGER;
ALTER TABLE samples ADD COLUMN builds TEXT;
ALTER TABLE samples ADD COLUMN cost_ns INTEGER;
)sql";

// A new file gets them the same way, so that the columns lie in one order.
constexpr const char* kNewColumnsOfVersion4 = R"sql(
ALTER TABLE prompt_results ADD COLUMN natural_digest TEXT;
ALTER TABLE profiles ADD COLUMN started_utc_ns INTEGER;
ALTER TABLE profiles ADD COLUMN dropped INTEGER NOT NULL DEFAULT 0 CHECK (dropped >= 0);
ALTER TABLE profiles ADD COLUMN invalid INTEGER NOT NULL DEFAULT 0 CHECK (invalid >= 0);
ALTER TABLE profiles ADD COLUMN natural_digest TEXT;
ALTER TABLE profiles ADD COLUMN round TEXT;
)sql";

// Null: no round of the replay had a draft.
constexpr const char* kNewColumnsOfVersion5 = R"sql(
ALTER TABLE rounds ADD COLUMN nodes BLOB;
ALTER TABLE rounds ADD COLUMN drafted BLOB;
ALTER TABLE rounds ADD COLUMN cut BLOB;
ALTER TABLE rounds ADD COLUMN draft_ns BLOB;
ALTER TABLE rounds ADD COLUMN tree_ns BLOB;
ALTER TABLE rounds ADD COLUMN verify_ns BLOB;
ALTER TABLE rounds ADD COLUMN accept_ns BLOB;
ALTER TABLE rounds ADD COLUMN commit_ns BLOB;
ALTER TABLE texts ADD COLUMN rounds TEXT;
)sql";

// What version 6 brought.
constexpr const char* kTablesOfVersion6 = R"sql(
CREATE TABLE stops (
  id INTEGER PRIMARY KEY,
  utc_ns INTEGER NOT NULL,
  rule TEXT NOT NULL CHECK (rule IN ('fixed', 'precision', 'time')),
  ended_by TEXT NOT NULL CHECK (ended_by IN ('blocks', 'precision', 'time')),
  blocks INTEGER NOT NULL CHECK (blocks >= 1),
  half_width_percent REAL,
  seconds REAL NOT NULL CHECK (seconds >= 0)
) STRICT;
)sql";

// What version 7 brought.
constexpr const char* kTablesOfVersion7 = R"sql(
CREATE TABLE unblindings (
  id INTEGER PRIMARY KEY,
  utc_ns INTEGER NOT NULL,
  findings_digest TEXT NOT NULL
) STRICT;
)sql";

}  // namespace

std::string ledger_schema() {
  return std::string(kOtherTables) + kTablesOfVersion2 + kTablesOfVersion3 + kNewColumnsOfVersion4 +
         kNewColumnsOfVersion5 + kTablesOfVersion6 + kTablesOfVersion7;
}

std::string ledger_migration_to(std::int64_t version) {
  switch (version) {
    case 2:
      return std::string(kNewColumnsOfVersion2) + kTablesOfVersion2;
    case 3:
      return kTablesOfVersion3;
    case 4:
      return kNewColumnsOfVersion4;
    case 5:
      return kNewColumnsOfVersion5;
    case 6:
      return kTablesOfVersion6;
    case 7:
      return kTablesOfVersion7;
    default:
      throw internal_error(fmt::format("there is no way to ledger version {}", version));
  }
}

}  // namespace tare::harness
