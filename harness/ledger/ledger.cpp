#include "harness/ledger/ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/digest.h"
#include "base/error.h"
#include "harness/ledger/ledger_state.h"
#include "harness/ledger/migration.h"
#include "harness/ledger/packing.h"
#include "harness/ledger/schema.h"

namespace tare::harness {
namespace {

// A run that has been measured waits so long for its place while another program holds the file: minutes of measuring
// are not to be lost to somebody's open editor.
constexpr std::chrono::minutes kWriterPatience{10};

// NULL for a field that is not known yet.
std::optional<std::string> dump_or_null(const Json& json) {
  if (json.is_null()) return std::nullopt;
  return json.dump();
}
std::optional<std::string> text_or_null(const std::string& text) {
  if (text.empty()) return std::nullopt;
  return text;
}

bool is_new(Connection& connection) {
  return connection.integer("PRAGMA application_id") == 0 && connection.integer("PRAGMA user_version") == 0 &&
         connection.integer("SELECT count(*) FROM sqlite_master") == 0;
}

// Throws unless the file is an undamaged ledger of our version.
void check_format(Connection& connection) {
  const std::string where = connection.file().string();
  if (connection.integer("PRAGMA application_id") != kLedgerApplicationId)
    throw input_error(where, "is a SQLite file, but no ledger of tare", "measure into another directory");
  const std::int64_t version = connection.integer("PRAGMA user_version");
  if (version < kOldestLedgerVersion || version > kLedgerVersion)
    throw input_error(where,
                      fmt::format("has ledger version {}, this tare reads versions {} to {}", version,
                                  kOldestLedgerVersion, kLedgerVersion),
                      "read it with the tare that wrote it");
  const std::string found = connection.text("PRAGMA quick_check(1)");
  if (found != "ok")
    throw input_error(where, fmt::format("is damaged: {}", found), "restore a copy, or measure into another directory");
}

void create(Connection& connection, const LedgerIdentity& identity) {
  Transaction transaction(connection);
  connection.execute(ledger_schema());
  Statement(connection, "INSERT INTO experiment (id, digest, name, normalised, created_utc_ns) VALUES (1, ?, ?, ?, ?)")
      .bind(identity.digest)
      .bind(identity.name)
      .bind(identity.experiment.dump())
      .bind(utc_now_ns())
      .run();
  connection.execute(fmt::format("PRAGMA application_id = {}", kLedgerApplicationId));
  connection.execute(fmt::format("PRAGMA user_version = {}", kLedgerVersion));
  transaction.commit();
}

void insert_text(Connection& connection, std::int64_t position, const TextRecord& text) {
  Statement(connection,
            "INSERT INTO texts (position, prompt_id, category, prompt_tokens, tokens, round_tokens, outcome, "
            "distinct_4gram_share, dominant_token_share, periodic_suffix_tokens, period, repetitive, digest, "
            "prompt_digest, rounds) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
      .bind(position)
      .bind(text.prompt_id)
      .bind(text.category)
      .bind_blob(pack_tokens(text.prompt_tokens))
      .bind_blob(pack_tokens(text.tokens))
      .bind_blob(pack_tokens(text.round_tokens))
      .bind(text.outcome)
      .bind(text.distinct_4gram_share)
      .bind(text.dominant_token_share)
      .bind(text.periodic_suffix_tokens)
      .bind(text.period)
      .bind(text.repetitive)
      .bind(digest_tokens(text.tokens))
      .bind(digest_tokens(text.prompt_tokens))
      .bind(text_or_null(text.rounds.is_null() ? "" : text.rounds.dump()))
      .run();
}

void insert_prompt(Connection& connection, std::int64_t run_id, const PromptResult& result) {
  Statement(connection,
            "INSERT INTO prompt_results (run_id, position, prompt_id, started_utc_ns, prompt_tokens, tokens, "
            "agreed_tokens, prefill_ns, time_to_first_token_ns, decode_tokens, decode_ns, inner_ns, outer_ns, outcome, "
            "text_digest, natural_digest) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
      .bind(run_id)
      .bind(result.position)
      .bind(result.prompt_id)
      .bind(result.started_utc_ns)
      .bind(result.prompt_tokens)
      .bind(result.tokens)
      .bind(result.agreed_tokens)
      .bind(result.prefill_ns)
      .bind(result.time_to_first_token_ns)
      .bind(result.decode_tokens)
      .bind(result.decode_ns)
      .bind(result.inner_ns)
      .bind(result.outer_ns)
      .bind(result.outcome)
      .bind(result.text_digest)
      .bind(text_or_null(result.natural_digest))
      .run();
}

void insert_rounds(Connection& connection, std::int64_t run_id, const PromptResult& result) {
  const Rounds& rounds = result.rounds;
  if (rounds.tokens.size() != rounds.size() || rounds.spun_ns.size() != rounds.size())
    throw internal_error(fmt::format("the rounds of prompt '{}' have columns of different lengths", result.prompt_id));
  Statement statement(connection,
                      "INSERT INTO rounds (run_id, position, count, duration_ns, tokens, spun_ns, nodes, drafted, cut, "
                      "draft_ns, tree_ns, verify_ns, accept_ns, commit_ns) "
                      "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  statement.bind(run_id)
      .bind(result.position)
      .bind(static_cast<std::int64_t>(rounds.size()))
      .bind_blob(pack_counts(rounds.duration_ns))
      .bind_blob(pack_counts(rounds.tokens))
      .bind_blob(pack_counts(rounds.spun_ns));
  for (const std::vector<std::int64_t>* column : columns_of_drafts(rounds)) {
    if (column->empty()) {
      statement.bind_null();
    } else if (column->size() == rounds.size()) {
      statement.bind_blob(pack_counts(*column));
    } else {
      throw internal_error(
          fmt::format("the drafts of prompt '{}' have columns of different lengths", result.prompt_id));
    }
  }
  statement.run();
}

void insert_gpu_sample(Connection& connection, std::int64_t sample_id, const GpuSample& gpu) {
  Statement statement(connection,
                      "INSERT INTO gpu_samples (sample_id, pci_bus_id, sm_clock_mhz, memory_clock_mhz, temperature_c, "
                      "power_w, power_limit_w, energy_mj, other_processes, event_reasons) "
                      "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  statement.bind(sample_id)
      .bind(gpu.pci_bus_id)
      .bind(gpu.sm_clock_mhz)
      .bind(gpu.memory_clock_mhz)
      .bind(gpu.temperature_c)
      .bind(gpu.power_w)
      .bind(gpu.power_limit_w)
      .bind(gpu.energy_mj)
      .bind(gpu.other_processes);
  if (gpu.event_reasons) statement.bind(static_cast<std::int64_t>(*gpu.event_reasons));
  statement.run();  // an unbound parameter is NULL
}

void insert_sample(Connection& connection, std::optional<std::int64_t> run_id, const StoredSample& stored) {
  const EnvironmentSample& sample = stored.sample;
  Statement(connection,
            "INSERT INTO samples (run_id, kind, utc_ns, load_1min, runnable, cpu_pressure_avg10, cpu_pressure_us, "
            "cpu_steal_ticks, cpu_busy_ticks, frequency_mhz, memory_available_bytes, uptime_s, memory_pressure_us, "
            "io_pressure_us, cgroup_throttled_us, cgroup_throttled_periods, own_cpu_ticks, builds, cost_ns) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
      .bind(run_id)
      .bind(stored.kind)
      .bind(sample.utc_ns)
      .bind(sample.load_1min)
      .bind(sample.runnable)
      .bind(sample.cpu_pressure_avg10)
      .bind(sample.cpu_pressure_us)
      .bind(sample.cpu_steal_ticks)
      .bind(sample.cpu_busy_ticks)
      .bind(sample.frequency_mhz)
      .bind(sample.memory_available_bytes)
      .bind(sample.uptime_s)
      .bind(sample.memory_pressure_us)
      .bind(sample.io_pressure_us)
      .bind(sample.cgroup_throttled_us)
      .bind(sample.cgroup_throttled_periods)
      .bind(sample.own_cpu_ticks)
      .bind(sample.builds)
      .bind(sample.cost_ns)
      .run();
  if (sample.gpu) insert_gpu_sample(connection, connection.last_row_id(), *sample.gpu);
}

void insert_profile(Connection& connection, const ProfileRecord& profile) {
  Statement(connection,
            "INSERT INTO profiles (launch_id, position, prompt_id, fault, source, rounds, records, span_us, idle_us, "
            "round_us, unmatched, rows, started_utc_ns, dropped, invalid, natural_digest, round) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
      .bind(profile.launch_id)
      .bind(profile.position)
      .bind(profile.prompt_id)
      .bind(profile.fault)
      .bind(profile.source)
      .bind(profile.rounds)
      .bind(profile.records)
      .bind(profile.span_us)
      .bind(profile.idle_us)
      .bind(profile.round_us)
      .bind(profile.unmatched)
      .bind(profile.rows.dump())
      .bind(profile.started_utc_ns)
      .bind(profile.dropped)
      .bind(profile.invalid)
      .bind(text_or_null(profile.natural_digest))
      .bind(dump_or_null(profile.round))
      .run();
}

// A running run becomes `state`; anything else is a fault of the caller.
void end_run(Connection& connection, std::int64_t run_id, RunState state, std::int64_t ended_utc_ns,
             const std::string& reason) {
  Statement(connection, "UPDATE runs SET state = ?, ended_utc_ns = ?, reason = ? WHERE id = ? AND state = 'running'")
      .bind(to_text(state))
      .bind(ended_utc_ns)
      .bind(reason)
      .bind(run_id)
      .run();
  if (connection.changed_rows() != 1) throw internal_error(fmt::format("run {} is not running", run_id));
}

void expect_one_launch(const Connection& connection, std::int64_t launch_id) {
  if (connection.changed_rows() != 1) throw internal_error(fmt::format("there is no launch {}", launch_id));
}

}  // namespace

Ledger::Ledger(std::unique_ptr<State> state) : state_(std::move(state)) {}
Ledger::Ledger(Ledger&&) noexcept = default;
Ledger& Ledger::operator=(Ledger&&) noexcept = default;
Ledger::~Ledger() = default;

Ledger Ledger::open_for_writing(const std::filesystem::path& file, const LedgerIdentity& identity) {
  auto state =
      std::make_unique<State>(State{Connection(file, OpenMode::kCreate, kDamagedLedgerHint), {}, 0, kLedgerVersion});
  Connection& connection = state->connection;
  connection.execute("PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON");
  if (is_new(connection)) create(connection, identity);
  check_format(connection);
  const std::int64_t version = connection.integer("PRAGMA user_version");
  std::optional<Ledger> ledger = Ledger(std::move(state));
  ledger->read_identity();
  const std::string& stored = ledger->identity().digest;
  if (stored != identity.digest)
    throw input_error(file.string(),
                      fmt::format("holds another experiment: '{}' with digest {}, asked for is '{}' with digest {}",
                                  ledger->identity().name, stored, identity.name, identity.digest),
                      "give another --out; an experiment that was changed is another experiment");
  if (version == kLedgerVersion) {
    ledger->state_->connection.wait_for_locks(kWriterPatience);
    return std::move(*ledger);
  }
  ledger.reset();  // nobody may have the file open while another takes its place
  migrate_ledger(file, version);
  return open_for_writing(file, identity);
}

Ledger Ledger::open_for_reading(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file))
    throw input_error(file.string(), "there is no ledger", "give a directory in which `tare run` has measured");
  auto state = std::make_unique<State>(State{Connection(file, OpenMode::kRead, kDamagedLedgerHint), {}, 0, 0});
  check_format(state->connection);
  state->version = state->connection.integer("PRAGMA user_version");
  Ledger ledger(std::move(state));
  ledger.read_identity();
  return ledger;
}

std::int64_t Ledger::begin_sitting(const SittingRecord& sitting) {
  Connection& connection = state_->connection;
  Statement(connection,
            "INSERT INTO sittings (started_utc_ns, machine, harness_build, prompts_digest) VALUES (?, ?, ?, ?)")
      .bind(sitting.started_utc_ns)
      .bind(sitting.machine.dump())
      .bind(sitting.harness_build.dump())
      .bind(sitting.prompts_digest)
      .run();
  return connection.last_row_id();
}

void Ledger::store_texts(const std::vector<TextRecord>& texts) {
  Connection& connection = state_->connection;
  Transaction transaction(connection);
  const std::vector<TextRecord> stored = this->texts();
  if (stored.empty()) {
    std::int64_t position = 0;
    for (const TextRecord& text : texts) insert_text(connection, position++, text);
    transaction.commit();
    return;
  }
  if (stored.size() != texts.size())
    throw input_error(connection.file().string(), fmt::format("holds {} texts already, and {} others were to be stored",
                                                              stored.size(), texts.size()));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const bool equal = stored[i].prompt_id == texts[i].prompt_id && stored[i].tokens == texts[i].tokens &&
                       stored[i].prompt_tokens == texts[i].prompt_tokens;
    if (!equal)
      throw input_error(connection.file().string(),
                        fmt::format("holds another text for prompt '{}' already", texts[i].prompt_id),
                        "texts are written once; give another --out to measure others");
  }
}

void Ledger::store_validation(const ValidationRecord& validation) {
  const auto& difference = validation.first_difference;
  Statement statement(state_->connection,
                      "INSERT INTO validations (utc_ns, name, is_control, prompts, prompts_equal, "
                      "difference_prompt_id, difference_position, difference_what, difference_wanted, difference_got) "
                      "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  statement.bind(validation.utc_ns)
      .bind(validation.name)
      .bind(validation.is_control)
      .bind(validation.prompts)
      .bind(validation.prompts_equal);
  if (difference) {
    statement.bind(difference->prompt_id)
        .bind(difference->position)
        .bind(difference->what)
        .bind(difference->wanted)
        .bind(difference->got);
  }
  statement.run();  // unbound parameters are NULL
}

void Ledger::store_stop(const StopRecord& stop) {
  if (this->stop()) throw internal_error("the experiment has ended already");
  Statement(state_->connection,
            "INSERT INTO stops (utc_ns, rule, ended_by, blocks, half_width_percent, seconds) VALUES (?, ?, ?, ?, ?, ?)")
      .bind(stop.utc_ns)
      .bind(stop.rule)
      .bind(stop.ended_by)
      .bind(stop.blocks)
      .bind(stop.half_width_percent)
      .bind(stop.seconds)
      .run();
}

void Ledger::store_unblinding(const UnblindingRecord& unblinding) {
  if (this->unblinding()) throw internal_error("the experiment is unblinded already");
  Statement(state_->connection, "INSERT INTO unblindings (utc_ns, findings_digest) VALUES (?, ?)")
      .bind(unblinding.utc_ns)
      .bind(unblinding.findings_digest)
      .run();
}

std::int64_t Ledger::begin_launch(const LaunchRecord& launch) {
  Connection& connection = state_->connection;
  Statement(connection,
            "INSERT INTO launches (sitting, arm, purpose, block, program, pid, started_utc_ns) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)")
      .bind(launch.sitting)
      .bind(launch.arm)
      .bind(launch.purpose)
      .bind(launch.block)
      .bind(Json(launch.program).dump())
      .bind(launch.pid)
      .bind(launch.started_utc_ns)
      .run();
  return connection.last_row_id();
}

void Ledger::describe_launch(std::int64_t launch_id, const Json& options, const Json& build,
                             const std::string& checkpoint_digest, const std::string& model) {
  Connection& connection = state_->connection;
  Statement(connection, "UPDATE launches SET options = ?, build = ?, checkpoint_digest = ?, model = ? WHERE id = ?")
      .bind(dump_or_null(options))
      .bind(dump_or_null(build))
      .bind(text_or_null(checkpoint_digest))
      .bind(text_or_null(model))
      .bind(launch_id)
      .run();
  expect_one_launch(connection, launch_id);
}

void Ledger::end_launch(std::int64_t launch_id, std::int64_t ended_utc_ns, std::optional<std::int64_t> exit_status,
                        std::optional<std::int64_t> peak_memory_bytes, const std::string& last_words) {
  Connection& connection = state_->connection;
  Statement(connection,
            "UPDATE launches SET ended_utc_ns = ?, exit_status = ?, peak_memory_bytes = ?, last_words = ? WHERE id = ?")
      .bind(ended_utc_ns)
      .bind(exit_status)
      .bind(peak_memory_bytes)
      .bind(text_or_null(last_words))
      .bind(launch_id)
      .run();
  expect_one_launch(connection, launch_id);
}

std::int64_t Ledger::begin_run(const RunKey& key, const std::string& arm, std::int64_t launch_id,
                               std::int64_t started_utc_ns) {
  Connection& connection = state_->connection;
  Transaction transaction(connection);
  Statement earlier(connection,
                    "SELECT coalesce(max(attempt), 0), coalesce(max(state IN ('finished', 'excluded')), 0) "
                    "FROM runs WHERE block = ? AND slot = ? AND warmup = ?");
  earlier.bind(key.block).bind(key.slot).bind(key.warmup).step();
  const std::int64_t attempt = earlier.integer(0) + 1;
  if (earlier.integer(1) != 0)
    throw internal_error(fmt::format("block {}, slot {} is finished already", key.block, key.slot));
  Statement(connection,
            "INSERT INTO runs (block, slot, attempt, warmup, arm, launch_id, state, started_utc_ns, reason) "
            "VALUES (?, ?, ?, ?, ?, ?, 'running', ?, '')")
      .bind(key.block)
      .bind(key.slot)
      .bind(attempt)
      .bind(key.warmup)
      .bind(arm)
      .bind(launch_id)
      .bind(started_utc_ns)
      .run();
  const std::int64_t run_id = connection.last_row_id();
  transaction.commit();
  return run_id;
}

void Ledger::finish_run(std::int64_t run_id, const RunEnd& end) {
  Connection& connection = state_->connection;
  Transaction transaction(connection);
  for (const PromptResult& result : end.prompts) {
    insert_prompt(connection, run_id, result);
    insert_rounds(connection, run_id, result);
  }
  for (const StoredSample& sample : end.samples) insert_sample(connection, run_id, sample);
  end_run(connection, run_id, RunState::kFinished, end.ended_utc_ns, "");
  transaction.commit();
}

void Ledger::fail_run(std::int64_t run_id, std::int64_t ended_utc_ns, const std::string& reason) {
  end_run(state_->connection, run_id, RunState::kFailed, ended_utc_ns, reason);
}

void Ledger::exclude_run(std::int64_t run_id, const std::string& reason) {
  Connection& connection = state_->connection;
  Statement(connection, "UPDATE runs SET state = 'excluded', reason = ? WHERE id = ? AND state = 'finished'")
      .bind(reason)
      .bind(run_id)
      .run();
  if (connection.changed_rows() != 1) throw internal_error(fmt::format("run {} is not finished", run_id));
}

void Ledger::store_sample(const StoredSample& sample) {
  Transaction transaction(state_->connection);
  insert_sample(state_->connection, sample.run_id, sample);
  transaction.commit();
}

void Ledger::store_gpu(std::int64_t sitting, const GpuFacts& gpu) {
  Json missing = Json::array();
  for (const MissingReading& reading : gpu.missing)
    missing.push_back({{"reading", reading.reading}, {"why", reading.why}});
  Statement(state_->connection,
            "INSERT INTO gpus (sitting, pci_bus_id, name, uuid, driver_version, default_power_limit_w, "
            "max_sm_clock_mhz, max_memory_clock_mhz, persistence, missing) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (sitting, pci_bus_id) DO NOTHING")
      .bind(sitting)
      .bind(gpu.pci_bus_id)
      .bind(text_or_null(gpu.name))
      .bind(text_or_null(gpu.uuid))
      .bind(text_or_null(gpu.driver_version))
      .bind(gpu.default_power_limit_w)
      .bind(gpu.max_sm_clock_mhz)
      .bind(gpu.max_memory_clock_mhz)
      .bind(gpu.persistence)
      .bind(missing.dump())
      .run();
}

void Ledger::store_profiles(const std::vector<ProfileRecord>& profiles) {
  Transaction transaction(state_->connection);
  for (const ProfileRecord& profile : profiles) insert_profile(state_->connection, profile);
  transaction.commit();
}

std::vector<std::int64_t> Ledger::interrupt_incomplete_blocks(std::int64_t slots_per_block, const std::string& reason) {
  Connection& connection = state_->connection;
  Transaction transaction(connection);
  std::vector<std::int64_t> incomplete;
  Statement blocks(connection,
                   "SELECT block FROM runs WHERE state IN ('running', 'finished', 'excluded') GROUP BY block "
                   "HAVING sum(warmup = 0 AND state IN ('finished', 'excluded')) < ? OR sum(state = 'running') > 0 "
                   "ORDER BY block");
  blocks.bind(slots_per_block);
  while (blocks.step()) incomplete.push_back(blocks.integer(0));
  const std::vector<std::int64_t> complete = complete_blocks(slots_per_block);
  for (const std::int64_t block : incomplete) {
    const bool only_running = std::find(complete.begin(), complete.end(), block) != complete.end();
    Statement(connection,
              only_running ? "UPDATE runs SET state = 'interrupted', reason = ? WHERE block = ? AND state = 'running'"
                           : "UPDATE runs SET state = 'interrupted', reason = ? WHERE block = ? AND state IN "
                             "('running', 'finished', 'excluded')")
        .bind(reason)
        .bind(block)
        .run();
  }
  transaction.commit();
  return incomplete;
}

}  // namespace tare::harness
