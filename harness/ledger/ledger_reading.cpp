#include <fmt/format.h>

#include <utility>

#include "base/digest.h"
#include "base/error.h"
#include "harness/ledger/ledger.h"
#include "harness/ledger/ledger_state.h"
#include "harness/ledger/packing.h"

namespace tare::harness {
namespace {

Json json_or_null(const Statement& row, int column, const std::string& where) {
  return row.is_null(column) ? Json() : parse_json(row.text(column), where);
}

RunState run_state_of(const std::string& text) {
  for (const RunState state :
       {RunState::kRunning, RunState::kFinished, RunState::kInterrupted, RunState::kFailed, RunState::kExcluded})
    if (to_text(state) == text) return state;
  throw internal_error(fmt::format("'{}' is no state of a run", text));
}

// Columns of a list read through a function that throws without a place: adds the place.
template <class Unpack>
auto unpacked(const Statement& row, int column, const std::string& where, Unpack unpack) {
  try {
    return unpack(row.blob(column));
  } catch (const Error& error) {
    throw error.within(where);
  }
}

// Columns of gpu_samples from `first` on.
GpuSample gpu_sample(const Statement& row, int first) {
  GpuSample gpu;
  gpu.pci_bus_id = row.text(first);
  gpu.sm_clock_mhz = row.optional_number(first + 1);
  gpu.memory_clock_mhz = row.optional_number(first + 2);
  gpu.temperature_c = row.optional_number(first + 3);
  gpu.power_w = row.optional_number(first + 4);
  if (const auto reasons = row.optional_integer(first + 5)) gpu.event_reasons = static_cast<std::uint64_t>(*reasons);
  gpu.power_limit_w = row.optional_number(first + 6);
  gpu.energy_mj = row.optional_integer(first + 7);
  gpu.other_processes = row.optional_integer(first + 8);
  return gpu;
}

}  // namespace

std::string to_text(RunState state) {
  switch (state) {
    case RunState::kRunning:
      return "running";
    case RunState::kFinished:
      return "finished";
    case RunState::kInterrupted:
      return "interrupted";
    case RunState::kFailed:
      return "failed";
    case RunState::kExcluded:
      return "excluded";
  }
  throw internal_error("a state of a run has no name");
}

void Ledger::read_identity() {
  Statement row(state_->connection, "SELECT digest, name, normalised, created_utc_ns FROM experiment");
  const std::string where = state_->connection.file().string();
  if (!row.step()) throw input_error(where, "names no experiment", "the file is damaged; restore a copy");
  state_->identity.digest = row.text(0);
  state_->identity.name = row.text(1);
  state_->identity.experiment = parse_json(row.text(2), where + ": experiment");
  state_->created_utc_ns = row.integer(3);
}

const LedgerIdentity& Ledger::identity() const {
  return state_->identity;
}

std::int64_t Ledger::created_utc_ns() const {
  return state_->created_utc_ns;
}

const std::filesystem::path& Ledger::file() const {
  return state_->connection.file();
}

std::vector<std::int64_t> Ledger::complete_blocks(std::int64_t slots_per_block) const {
  Statement row(state_->connection,
                "SELECT block FROM runs WHERE warmup = 0 AND state IN ('finished', 'excluded') GROUP BY block "
                "HAVING count(*) >= ? ORDER BY block");
  row.bind(slots_per_block);
  std::vector<std::int64_t> blocks;
  while (row.step()) blocks.push_back(row.integer(0));
  return blocks;
}

std::vector<RunKey> Ledger::finished_runs() const {
  Statement row(state_->connection,
                "SELECT block, slot, warmup FROM runs WHERE state IN ('finished', 'excluded') "
                "ORDER BY block, slot, warmup DESC");
  std::vector<RunKey> keys;
  while (row.step()) keys.push_back({row.integer(0), row.integer(1), row.integer(2) != 0});
  return keys;
}

std::vector<SittingRecord> Ledger::sittings() const {
  const std::string where = file().string() + ": sittings";
  Statement row(state_->connection,
                "SELECT id, started_utc_ns, machine, harness_build, prompts_digest FROM sittings ORDER BY id");
  std::vector<SittingRecord> sittings;
  while (row.step())
    sittings.push_back(
        {row.integer(0), row.integer(1), json_or_null(row, 2, where), json_or_null(row, 3, where), row.text(4)});
  return sittings;
}

std::optional<StopRecord> Ledger::stop() const {
  if (state_->version < 6) return std::nullopt;
  Statement row(state_->connection,
                "SELECT utc_ns, rule, ended_by, blocks, half_width_percent, seconds FROM stops ORDER BY id");
  if (!row.step()) return std::nullopt;
  return StopRecord{row.integer(0), row.text(1), row.text(2), row.integer(3), row.optional_number(4), row.number(5)};
}

std::optional<UnblindingRecord> Ledger::unblinding() const {
  if (state_->version < 7) return std::nullopt;
  Statement row(state_->connection, "SELECT utc_ns, findings_digest FROM unblindings ORDER BY id");
  if (!row.step()) return std::nullopt;
  return UnblindingRecord{row.integer(0), row.text(1)};
}

std::vector<TextRecord> Ledger::texts() const {
  Statement row(state_->connection,
                "SELECT prompt_id, category, prompt_tokens, tokens, round_tokens, outcome, distinct_4gram_share, "
                "dominant_token_share, periodic_suffix_tokens, period, repetitive, digest, prompt_digest, " +
                    std::string(state_->version < 5 ? "NULL" : "rounds") + " FROM texts ORDER BY position");
  std::vector<TextRecord> texts;
  while (row.step()) {
    TextRecord text;
    text.prompt_id = row.text(0);
    const std::string where = fmt::format("{}: text of prompt '{}'", file().string(), text.prompt_id);
    text.category = row.text(1);
    text.prompt_tokens = unpacked(row, 2, where, unpack_tokens);
    text.tokens = unpacked(row, 3, where, unpack_tokens);
    text.round_tokens = unpacked(row, 4, where, unpack_tokens);
    text.outcome = row.text(5);
    text.distinct_4gram_share = row.number(6);
    text.dominant_token_share = row.number(7);
    text.periodic_suffix_tokens = row.integer(8);
    text.period = row.integer(9);
    text.repetitive = row.integer(10) != 0;
    text.digest = row.text(11);
    text.prompt_digest = row.text(12);
    if (!row.is_null(13)) text.rounds = parse_json(row.text(13), where);
    if (text.digest != digest_tokens(text.tokens) || text.prompt_digest != digest_tokens(text.prompt_tokens))
      throw input_error(where, "does not have the digest that was stored with it",
                        "the ledger was changed from outside; restore a copy");
    texts.push_back(std::move(text));
  }
  return texts;
}

std::vector<ValidationRecord> Ledger::validations() const {
  Statement row(state_->connection,
                "SELECT utc_ns, name, is_control, prompts, prompts_equal, difference_prompt_id, difference_position, "
                "difference_what, difference_wanted, difference_got FROM validations ORDER BY id");
  std::vector<ValidationRecord> validations;
  while (row.step()) {
    ValidationRecord validation;
    validation.utc_ns = row.integer(0);
    validation.name = row.text(1);
    validation.is_control = row.integer(2) != 0;
    validation.prompts = row.integer(3);
    validation.prompts_equal = row.integer(4);
    if (!row.is_null(5))
      validation.first_difference =
          TextDifference{row.text(5), row.integer(6), row.text(7), row.integer(8), row.integer(9)};
    validations.push_back(std::move(validation));
  }
  return validations;
}

std::vector<LaunchRecord> Ledger::launches() const {
  Statement row(state_->connection,
                "SELECT id, sitting, arm, purpose, block, program, pid, started_utc_ns, options, build, "
                "checkpoint_digest, model, ended_utc_ns, exit_status, peak_memory_bytes, last_words "
                "FROM launches ORDER BY id");
  std::vector<LaunchRecord> launches;
  while (row.step()) {
    LaunchRecord launch;
    launch.id = row.integer(0);
    const std::string where = fmt::format("{}: launch {}", file().string(), launch.id);
    launch.sitting = row.integer(1);
    launch.arm = row.text(2);
    launch.purpose = row.text(3);
    launch.block = row.integer(4);
    launch.program = parse_json(row.text(5), where).get<std::vector<std::string>>();
    launch.pid = row.integer(6);
    launch.started_utc_ns = row.integer(7);
    launch.options = json_or_null(row, 8, where);
    launch.build = json_or_null(row, 9, where);
    launch.checkpoint_digest = row.text(10);
    launch.model = row.text(11);
    launch.ended_utc_ns = row.optional_integer(12);
    launch.exit_status = row.optional_integer(13);
    launch.peak_memory_bytes = row.optional_integer(14);
    launch.last_words = row.text(15);
    launches.push_back(std::move(launch));
  }
  return launches;
}

std::vector<RunRecord> Ledger::runs() const {
  Statement row(state_->connection,
                "SELECT id, block, slot, attempt, warmup, arm, launch_id, state, started_utc_ns, ended_utc_ns, reason "
                "FROM runs ORDER BY id");
  std::vector<RunRecord> runs;
  while (row.step()) {
    RunRecord run;
    run.id = row.integer(0);
    run.block = row.integer(1);
    run.slot = row.integer(2);
    run.attempt = row.integer(3);
    run.warmup = row.integer(4) != 0;
    run.arm = row.text(5);
    run.launch_id = row.integer(6);
    run.state = run_state_of(row.text(7));
    run.started_utc_ns = row.integer(8);
    run.ended_utc_ns = row.optional_integer(9);
    run.reason = row.text(10);
    runs.push_back(std::move(run));
  }
  return runs;
}

std::vector<PromptResult> Ledger::prompt_results(std::int64_t run_id) const {
  Statement row(
      state_->connection,
      "SELECT p.position, prompt_id, started_utc_ns, prompt_tokens, p.tokens, agreed_tokens, prefill_ns, "
      "time_to_first_token_ns, decode_tokens, decode_ns, inner_ns, outer_ns, outcome, text_digest, "
      "duration_ns, r.tokens, spun_ns, count, " +
          std::string(state_->version < 4 ? "NULL" : "natural_digest") +
          (state_->version < 5 ? ", NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL"
                               : ", nodes, drafted, cut, draft_ns, tree_ns, verify_ns, accept_ns, commit_ns") +
          " FROM prompt_results p LEFT JOIN rounds r "
          "ON r.run_id = p.run_id AND r.position = p.position WHERE p.run_id = ? ORDER BY p.position");
  row.bind(run_id);
  std::vector<PromptResult> results;
  while (row.step()) {
    PromptResult result;
    result.position = row.integer(0);
    result.prompt_id = row.text(1);
    result.started_utc_ns = row.integer(2);
    result.prompt_tokens = row.integer(3);
    result.tokens = row.integer(4);
    result.agreed_tokens = row.integer(5);
    result.prefill_ns = row.integer(6);
    result.time_to_first_token_ns = row.integer(7);
    result.decode_tokens = row.integer(8);
    result.decode_ns = row.integer(9);
    result.inner_ns = row.integer(10);
    result.outer_ns = row.integer(11);
    result.outcome = row.text(12);
    result.text_digest = row.text(13);
    if (!row.is_null(18)) result.natural_digest = row.text(18);
    const std::string where = fmt::format("{}: run {}, prompt '{}'", file().string(), run_id, result.prompt_id);
    result.rounds.duration_ns = unpacked(row, 14, where, unpack_counts);
    result.rounds.tokens = unpacked(row, 15, where, unpack_counts);
    result.rounds.spun_ns = unpacked(row, 16, where, unpack_counts);
    const auto count = static_cast<std::size_t>(row.integer(17));
    int next_column = 19;
    for (std::vector<std::int64_t>* column : columns_of_drafts(result.rounds)) {
      const int index = next_column++;
      if (row.is_null(index)) continue;
      *column = unpacked(row, index, where, unpack_counts);
      if (column->size() != count)
        throw input_error(where, "has another number of drafts than of rounds", "restore a copy of the ledger");
    }
    if (result.rounds.size() != count || result.rounds.tokens.size() != count || result.rounds.spun_ns.size() != count)
      throw input_error(where, "has another number of rounds than was stored with it", "restore a copy of the ledger");
    results.push_back(std::move(result));
  }
  return results;
}

std::vector<StoredSample> Ledger::samples() const {
  // Version 1 has neither the columns nor the table.
  const char* newer =
      state_->version == 1
          ? "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM "
            "samples s "
          : "memory_pressure_us, io_pressure_us, cgroup_throttled_us, cgroup_throttled_periods, own_cpu_ticks, builds, "
            "cost_ns, g.pci_bus_id, g.sm_clock_mhz, g.memory_clock_mhz, g.temperature_c, g.power_w, g.event_reasons, "
            "g.power_limit_w, g.energy_mj, g.other_processes FROM samples s LEFT JOIN gpu_samples g ON g.sample_id = "
            "s.id ";
  Statement row(state_->connection,
                fmt::format("SELECT run_id, kind, utc_ns, load_1min, runnable, cpu_pressure_avg10, cpu_pressure_us, "
                            "cpu_steal_ticks, cpu_busy_ticks, frequency_mhz, memory_available_bytes, uptime_s, {} "
                            "ORDER BY s.id",
                            newer));
  std::vector<StoredSample> samples;
  while (row.step()) {
    StoredSample stored;
    stored.run_id = row.optional_integer(0);
    stored.kind = row.text(1);
    EnvironmentSample& sample = stored.sample;
    sample.utc_ns = row.integer(2);
    sample.load_1min = row.optional_number(3);
    sample.runnable = row.optional_integer(4);
    sample.cpu_pressure_avg10 = row.optional_number(5);
    sample.cpu_pressure_us = row.optional_integer(6);
    sample.cpu_steal_ticks = row.optional_integer(7);
    sample.cpu_busy_ticks = row.optional_integer(8);
    sample.frequency_mhz = row.optional_number(9);
    sample.memory_available_bytes = row.optional_integer(10);
    sample.uptime_s = row.optional_number(11);
    sample.memory_pressure_us = row.optional_integer(12);
    sample.io_pressure_us = row.optional_integer(13);
    sample.cgroup_throttled_us = row.optional_integer(14);
    sample.cgroup_throttled_periods = row.optional_integer(15);
    sample.own_cpu_ticks = row.optional_integer(16);
    if (!row.is_null(17)) sample.builds = row.text(17);
    sample.cost_ns = row.optional_integer(18);
    if (!row.is_null(19)) sample.gpu = gpu_sample(row, 19);
    samples.push_back(std::move(stored));
  }
  return samples;
}

std::vector<GpuRecord> Ledger::gpus() const {
  std::vector<GpuRecord> gpus;
  if (state_->version == 1) return gpus;
  const std::string where = file().string() + ": gpus";
  Statement row(state_->connection,
                "SELECT sitting, pci_bus_id, name, uuid, driver_version, default_power_limit_w, max_sm_clock_mhz, "
                "max_memory_clock_mhz, persistence, missing FROM gpus ORDER BY sitting, pci_bus_id");
  while (row.step()) {
    GpuRecord gpu;
    gpu.sitting = row.integer(0);
    gpu.facts.pci_bus_id = row.text(1);
    gpu.facts.name = row.text(2);
    gpu.facts.uuid = row.text(3);
    gpu.facts.driver_version = row.text(4);
    gpu.facts.default_power_limit_w = row.optional_number(5);
    gpu.facts.max_sm_clock_mhz = row.optional_number(6);
    gpu.facts.max_memory_clock_mhz = row.optional_number(7);
    if (!row.is_null(8)) gpu.facts.persistence = row.integer(8) != 0;
    for (const Json& entry : parse_json(row.text(9), where)) {
      JsonReader reader(entry, where);
      gpu.facts.missing.push_back({reader.text("reading"), reader.text("why")});
    }
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

std::vector<ProfileRecord> Ledger::profiles() const {
  std::vector<ProfileRecord> profiles;
  if (state_->version < 3) return profiles;
  const std::string where = file().string() + ": profiles";
  Statement row(state_->connection,
                "SELECT launch_id, position, prompt_id, fault, source, rounds, records, span_us, idle_us, round_us, "
                "unmatched, rows, " +
                    std::string(state_->version < 4 ? "NULL, 0, 0, NULL, NULL"
                                                    : "started_utc_ns, dropped, invalid, natural_digest, round") +
                    " FROM profiles ORDER BY launch_id, position");
  while (row.step()) {
    ProfileRecord profile;
    profile.launch_id = row.integer(0);
    profile.position = row.integer(1);
    profile.prompt_id = row.text(2);
    profile.fault = row.text(3);
    profile.source = row.text(4);
    profile.rounds = row.integer(5);
    profile.records = row.integer(6);
    profile.span_us = row.number(7);
    profile.idle_us = row.number(8);
    profile.round_us = row.number(9);
    profile.unmatched = row.text(10);
    profile.rows = parse_json(row.text(11), where);
    profile.started_utc_ns = row.optional_integer(12);
    profile.dropped = row.integer(13);
    profile.invalid = row.integer(14);
    if (!row.is_null(15)) profile.natural_digest = row.text(15);
    if (!row.is_null(16)) profile.round = parse_json(row.text(16), where);
    profiles.push_back(std::move(profile));
  }
  return profiles;
}

}  // namespace tare::harness
