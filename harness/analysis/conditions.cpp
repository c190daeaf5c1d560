#include "harness/analysis/conditions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>

#include "base/text.h"
#include "harness/analysis/run_readings.h"
#include "harness/environment/environment.h"
#include "harness/environment/rules.h"

namespace tare::harness {
namespace {

using reports::kMissing;
using reports::Severity;

constexpr double kPercent = 100;
constexpr double kMillijoules = 1e3;

// Samples of counted runs, in the order of time.
std::vector<const EnvironmentSample*> samples_of(const std::vector<RunReadings>& runs) {
  std::vector<const EnvironmentSample*> samples;
  for (const RunReadings& run : runs) {
    samples.push_back(&run.before);
    for (const EnvironmentSample& sample : run.during) samples.push_back(&sample);
    samples.push_back(&run.after);
  }
  std::stable_sort(samples.begin(), samples.end(), [](const auto* a, const auto* b) { return a->utc_ns < b->utc_ns; });
  return samples;
}

using Quantity = std::function<std::optional<double>(const EnvironmentSample&)>;

reports::Reading reading_of(std::string name, std::string unit, const std::vector<const EnvironmentSample*>& samples,
                            const Quantity& quantity) {
  reports::Reading reading;
  reading.name = std::move(name);
  reading.unit = std::move(unit);
  for (const EnvironmentSample* sample : samples) {
    const std::optional<double> value = quantity(*sample);
    if (!value) continue;
    if (!(reading.lowest <= *value)) reading.lowest = *value;
    if (!(reading.highest >= *value)) reading.highest = *value;
  }
  if (!samples.empty()) {
    reading.before = quantity(*samples.front()).value_or(kMissing);
    reading.after = quantity(*samples.back()).value_or(kMissing);
  }
  return reading;
}

// Lowest and highest of a quantity of runs.
reports::Reading by_run(std::string name, std::string unit, const std::vector<RunReadings>& runs, double scale,
                        const std::function<std::optional<double>(const RunReadings&)>& quantity) {
  reports::Reading reading;
  reading.name = std::move(name);
  reading.unit = std::move(unit);
  for (const RunReadings& run : runs) {
    const std::optional<double> value = quantity(run);
    if (!value) continue;
    if (!(reading.lowest <= scale * *value)) reading.lowest = scale * *value;
    if (!(reading.highest >= scale * *value)) reading.highest = scale * *value;
  }
  return reading;
}

bool is_known(const reports::Reading& reading) {
  return !std::isnan(reading.highest);
}

std::optional<double> as_double(const std::optional<std::int64_t>& value) {
  if (!value) return std::nullopt;
  return static_cast<double>(*value);
}

// A quantity of the GPU in a sample.
Quantity of_gpu(std::optional<double> GpuSample::*quantity) {
  return [quantity](const EnvironmentSample& sample) -> std::optional<double> {
    if (!sample.gpu) return std::nullopt;
    return (*sample.gpu).*quantity;
  };
}

void add_readings(const std::vector<RunReadings>& runs, bool with_gpu, reports::Conditions& conditions) {
  const std::vector<const EnvironmentSample*> samples = samples_of(runs);
  std::vector<reports::Reading>& readings = conditions.readings;
  readings.push_back(
      reading_of("load average, 1 min", "", samples, [](const EnvironmentSample& s) { return s.load_1min; }));
  readings.push_back(
      reading_of("CPU pressure, 10 s", "%", samples, [](const EnvironmentSample& s) { return s.cpu_pressure_avg10; }));
  readings.push_back(
      reading_of("CPU clock", "MHz", samples, [](const EnvironmentSample& s) { return s.frequency_mhz; }));
  readings.push_back(reading_of("memory available", "bytes", samples,
                                [](const EnvironmentSample& s) { return as_double(s.memory_available_bytes); }));
  readings.push_back(by_run("time in which a task waited for a core, by run", "%", runs, kPercent, pressure_share));
  readings.push_back(by_run("time taken by the hypervisor, by run", "%", runs, kPercent, steal_share));
  readings.push_back(by_run("cores used by others, by run", "", runs, 1, others_cores));
  readings.push_back(by_run("time stopped by a CPU quota, by run", "%", runs, kPercent, throttled_share));
  if (!with_gpu) return;
  readings.push_back(reading_of("GPU SM clock", "MHz", samples, of_gpu(&GpuSample::sm_clock_mhz)));
  readings.push_back(reading_of("GPU memory clock", "MHz", samples, of_gpu(&GpuSample::memory_clock_mhz)));
  readings.push_back(reading_of("GPU temperature", "\u00b0C", samples, of_gpu(&GpuSample::temperature_c)));
  readings.push_back(reading_of("GPU power", "W", samples, of_gpu(&GpuSample::power_w)));
  readings.push_back(reading_of("GPU power limit", "W", samples, of_gpu(&GpuSample::power_limit_w)));
  readings.push_back(
      reading_of("other processes on the GPU", "", samples, [](const EnvironmentSample& s) -> std::optional<double> {
        if (!s.gpu) return std::nullopt;
        return as_double(s.gpu->other_processes);
      }));
}

double mean_of(const RunReadings& run, const Quantity& quantity) {
  double sum = 0;
  std::size_t count = 0;
  const auto take = [&](const EnvironmentSample& sample) {
    const std::optional<double> value = quantity(sample);
    if (!value) return;
    sum += *value;
    ++count;
  };
  for (const EnvironmentSample& sample : run.during) take(sample);
  if (count == 0) {  // no sampler: what is before and after
    take(run.before);
    take(run.after);
  }
  return count == 0 ? kMissing : sum / static_cast<double>(count);
}

void add_runs(const std::vector<RunReadings>& runs, const std::vector<std::size_t>& rows, bool with_gpu,
              reports::Conditions& conditions) {
  const Clock clock = with_gpu ? Clock::kGpuSm : Clock::kCpu;
  conditions.clock_name = to_text(clock);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunReadings& run = runs[i];
    reports::RunConditions row;
    row.run = rows[i];
    row.samples = run.during.size();
    if (const auto of_run = clock_of(run, clock)) {
      row.clock_mhz = of_run->median_mhz;
      row.clock_lowest_mhz = of_run->lowest_mhz;
      row.clock_highest_mhz = of_run->highest_mhz;
    }
    row.temperature_c = mean_of(run, of_gpu(&GpuSample::temperature_c));
    row.power_w = mean_of(run, of_gpu(&GpuSample::power_w));
    row.energy_j = energy_j(run).value_or(kMissing);
    row.others_cores = others_cores(run).value_or(kMissing);
    row.waited_share = pressure_share(run).value_or(kMissing);
    row.load = mean_of(run, [](const EnvironmentSample& sample) { return sample.load_1min; });
    conditions.runs.push_back(row);
  }
}

// GPUs of the ledger, each once, the latest sitting's facts.
std::vector<GpuFacts> gpus_of(const Gathered& gathered) {
  std::map<std::string, GpuFacts> by_id;
  for (const GpuRecord& gpu : gathered.gpus) by_id[gpu.facts.pci_bus_id] = gpu.facts;
  std::vector<GpuFacts> gpus;
  gpus.reserve(by_id.size());
  for (auto& [id, facts] : by_id) gpus.push_back(std::move(facts));
  return gpus;
}

std::string missing_text(const Machine& machine, const std::vector<reports::Reading>& readings,
                         const std::vector<GpuFacts>& gpus) {
  std::vector<std::string> missing;
  if (!machine.governor) missing.emplace_back("clock governor");
  for (const reports::Reading& reading : readings)
    if (!is_known(reading)) missing.push_back(reading.name);
  for (const GpuFacts& gpu : gpus)
    for (const MissingReading& reading : gpu.missing)
      missing.push_back(fmt::format("GPU {}: {} ({})", gpu.pci_bus_id, reading.reading, reading.why));
  return missing.empty() ? "nothing" : join(missing, "; ");
}

// Energy over the tokens of counted runs, arm by arm. With resident workers the arms take turns within one counter's
// difference, so it has no owner there.
void add_energy(const Gathered& gathered, const std::vector<RunReadings>& runs, const std::vector<std::size_t>& rows,
                reports::Conditions& conditions) {
  if (gathered.experiment.schedule.granularity != Granularity::kRun) return;
  std::map<std::int64_t, const CountedRun*> counted;
  for (const CountedRun& run : gathered.counted) counted[run.record.id] = &run;
  for (std::size_t arm = 0; arm < gathered.experiment.arms.size(); ++arm) {
    double joules = 0;
    double tokens = 0;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const auto energy = energy_j(runs[i]);
      if (runs[i].arm != arm || !energy) continue;
      joules += *energy;
      for (const PromptResult& result : counted.at(gathered.runs[rows[i]].id)->results)
        tokens += static_cast<double>(result.tokens);
    }
    if (tokens > 0 && joules > 0)
      conditions.facts.push_back(
          {fmt::format("GPU energy a token, {}", gathered.experiment.arms[arm].name),
           fmt::format("{:.1f} mJ (prefill and pauses within runs included)", kMillijoules * joules / tokens)});
  }
}

std::string watts(const std::optional<double>& value) {
  return value ? fmt::format("{:.0f} W", *value) : "not readable";
}

void add_gpu_facts(const std::vector<GpuFacts>& gpus, const std::vector<RunReadings>& runs,
                   reports::Conditions& conditions) {
  for (const GpuFacts& gpu : gpus) {
    conditions.facts.push_back({fmt::format("GPU {}", gpu.pci_bus_id), gpu.name});
    if (gpu.driver_version.empty() && gpu.name.empty()) continue;  // NVML gave nothing
    conditions.facts.push_back({"GPU driver", gpu.driver_version});
    conditions.facts.push_back({"GPU default power limit", watts(gpu.default_power_limit_w)});
  }
  std::optional<std::uint64_t> seen;
  for (const RunReadings& run : runs)
    if (const auto reasons = event_reasons(run)) seen = seen.value_or(0) | *reasons;
  if (seen)
    conditions.facts.push_back({"why the GPU\u2019s clock was not higher, all runs", event_reasons_text(*seen)});
}

// How often the sampler read, and what it took of the machine while it did.
std::string sampler_text(const std::vector<RunReadings>& runs) {
  std::size_t samples = 0;
  double seconds = 0;
  double cost_ns = 0;
  for (const RunReadings& run : runs) {
    samples += run.during.size();
    seconds += run.during.empty() ? 0 : duration_s(run).value_or(0);
    for (const EnvironmentSample& sample : run.during) cost_ns += static_cast<double>(sample.cost_ns.value_or(0));
  }
  if (samples == 0 || seconds <= 0) return "off, or runs too short for it";
  return fmt::format("{} samples in {:.0f} s, {:.0f} \u00b5s of processor time each: {:.4f} % of one core", samples,
                     seconds, cost_ns / static_cast<double>(samples) * 1e-3, cost_ns * 1e-9 / seconds * kPercent);
}

std::string cores_text(const std::vector<int>& cores) {
  std::vector<std::string> ranges;
  for (std::size_t i = 0; i < cores.size();) {
    std::size_t end = i + 1;
    while (end < cores.size() && cores[end] == cores[end - 1] + 1) ++end;
    ranges.push_back(end - i == 1 ? std::to_string(cores[i]) : fmt::format("{}-{}", cores[i], cores[end - 1]));
    i = end;
  }
  return join(ranges, ",");
}

}  // namespace

reports::Conditions describe_conditions(const Gathered& gathered, std::vector<reports::Warning>& warnings) {
  reports::Conditions conditions;
  Machine machine;
  if (!gathered.sittings.empty()) {
    machine = machine_from_json(gathered.sittings.back().machine, "sitting's machine");
    conditions.hostname = machine.hostname.value_or("");
    conditions.machine = machine.product.value_or("");
    conditions.cpu = machine.cpu_model.value_or("");
    conditions.cores_usable = machine.usable_cores.size();
    if (machine.memory_bytes) conditions.memory_bytes = static_cast<double>(*machine.memory_bytes);
    conditions.kernel = machine.kernel.value_or("");
    conditions.governor = machine.governor.value_or("");
    if (machine.cores_online)
      conditions.facts.push_back({"cores of the machine", std::to_string(*machine.cores_online)});
    if (machine.max_frequency_mhz)
      conditions.facts.push_back({"highest CPU clock", fmt::format("{:.0f} MHz", *machine.max_frequency_mhz)});
  }
  conditions.facts.push_back({"sittings", std::to_string(gathered.sittings.size())});
  std::vector<int> pinned = gathered.experiment.pinned_cores;
  std::sort(pinned.begin(), pinned.end());
  conditions.cores_pinned = cores_text(pinned);

  const auto [runs, rows] = readings_of_runs(gathered);
  const std::vector<GpuFacts> gpus = gpus_of(gathered);
  add_readings(runs, !gpus.empty(), conditions);
  add_runs(runs, rows, !gpus.empty(), conditions);
  add_gpu_facts(gpus, runs, conditions);
  add_energy(gathered, runs, rows, conditions);
  conditions.facts.push_back({"sampler during runs", sampler_text(runs)});
  conditions.facts.push_back({"could not be read", missing_text(machine, conditions.readings, gpus)});

  std::vector<std::string> arms;
  for (const Arm& arm : gathered.experiment.arms) arms.push_back(arm.name);
  for (const EnvironmentWarning& warning : judge_environment(runs, arms, machine, gpus))
    warnings.push_back(
        {warning.weakens ? Severity::kWarning : Severity::kNote, warning.code, warning.text + "; " + warning.mend, ""});
  return conditions;
}

}  // namespace tare::harness
