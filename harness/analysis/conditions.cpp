#include "harness/analysis/conditions.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "base/text.h"
#include "harness/environment/environment.h"

namespace tare::harness {
namespace {

using reports::kMissing;
using reports::Severity;

// A run in which tasks waited for a core during more than a twentieth of its time had company: the effect sought may be
// a hundredth of that.
constexpr double kPressureWarned = 0.05;
// And a hypervisor that took more than a hundredth of the busy time was serving others.
constexpr double kStealWarned = 0.01;
constexpr double kPercent = 100;

// Samples around one counted run.
struct Around {
  const EnvironmentSample* before = nullptr;
  const EnvironmentSample* after = nullptr;
};

std::vector<Around> samples_around(const Gathered& gathered) {
  std::map<std::int64_t, Around> by_run;
  for (const CountedRun& run : gathered.counted) by_run[run.record.id];
  for (const StoredSample& stored : gathered.samples) {
    const auto found = stored.run_id ? by_run.find(*stored.run_id) : by_run.end();
    if (found == by_run.end()) continue;
    if (stored.kind == "before") found->second.before = &stored.sample;
    if (stored.kind == "after") found->second.after = &stored.sample;
  }
  std::vector<Around> around;
  for (const auto& [id, samples] : by_run)
    if (samples.before != nullptr && samples.after != nullptr) around.push_back(samples);
  return around;
}

// Samples of counted runs, in the order of time.
std::vector<const EnvironmentSample*> counted_samples(const Gathered& gathered) {
  std::set<std::int64_t> counted;
  for (const CountedRun& run : gathered.counted) counted.insert(run.record.id);
  std::vector<const EnvironmentSample*> samples;
  for (const StoredSample& stored : gathered.samples)
    if (stored.run_id && counted.contains(*stored.run_id)) samples.push_back(&stored.sample);
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

// Share of the run's time in which some task waited for a core.
std::optional<double> pressure_share(const Around& around) {
  const auto& before = around.before->cpu_pressure_us;
  const auto& after = around.after->cpu_pressure_us;
  const double duration_us = static_cast<double>(around.after->utc_ns - around.before->utc_ns) * 1e-3;
  if (!before || !after || duration_us <= 0) return std::nullopt;
  return static_cast<double>(*after - *before) / duration_us;
}

// Ticks that the hypervisor took, as a share of those and the busy ones.
std::optional<double> steal_share(const Around& around) {
  const EnvironmentSample& before = *around.before;
  const EnvironmentSample& after = *around.after;
  if (!before.cpu_steal_ticks || !after.cpu_steal_ticks || !before.cpu_busy_ticks || !after.cpu_busy_ticks)
    return std::nullopt;
  const double steal = static_cast<double>(*after.cpu_steal_ticks - *before.cpu_steal_ticks);
  const double busy = static_cast<double>(*after.cpu_busy_ticks - *before.cpu_busy_ticks);
  if (steal + busy <= 0) return std::nullopt;
  return steal / (steal + busy);
}

// Lowest and highest over the runs, in percent; runs above `warned` are counted.
struct Shares {
  reports::Reading reading;
  std::size_t above = 0;
  std::size_t runs = 0;
};

Shares shares_of(std::string name, const std::vector<Around>& runs,
                 const std::function<std::optional<double>(const Around&)>& share_of, double warned) {
  Shares shares;
  shares.reading.name = std::move(name);
  shares.reading.unit = std::string("%");  // g++ 12 sees an overlap in the plain assignment (its bug 105651)
  for (const Around& run : runs) {
    const std::optional<double> share = share_of(run);
    if (!share) continue;
    ++shares.runs;
    if (*share > warned) ++shares.above;
    const double percent = *share * kPercent;
    if (!(shares.reading.lowest <= percent)) shares.reading.lowest = percent;
    if (!(shares.reading.highest >= percent)) shares.reading.highest = percent;
  }
  return shares;
}

void add_readings(const Gathered& gathered, reports::Conditions& conditions, std::vector<reports::Warning>& warnings) {
  const std::vector<const EnvironmentSample*> samples = counted_samples(gathered);
  conditions.readings.push_back(
      reading_of("load average, 1 min", "", samples, [](const EnvironmentSample& s) { return s.load_1min; }));
  conditions.readings.push_back(
      reading_of("CPU pressure, 10 s", "%", samples, [](const EnvironmentSample& s) { return s.cpu_pressure_avg10; }));
  conditions.readings.push_back(
      reading_of("CPU clock", "MHz", samples, [](const EnvironmentSample& s) { return s.frequency_mhz; }));
  conditions.readings.push_back(
      reading_of("memory available", "bytes", samples, [](const EnvironmentSample& s) -> std::optional<double> {
        if (!s.memory_available_bytes) return std::nullopt;
        return static_cast<double>(*s.memory_available_bytes);
      }));
  const std::vector<Around> runs = samples_around(gathered);
  const Shares waited =
      shares_of("time in which a task waited for a core, by run", runs, pressure_share, kPressureWarned);
  const Shares stolen = shares_of("time taken by the hypervisor, by run", runs, steal_share, kStealWarned);
  conditions.readings.push_back(waited.reading);
  conditions.readings.push_back(stolen.reading);
  if (waited.above > 0)
    warnings.push_back(
        {Severity::kWarning, "cpu_contended",
         fmt::format("in {} of {} runs tasks waited for a core during more than {:.0f} % of the time (at "
                     "most {:.1f} %): something else was running",
                     waited.above, waited.runs, kPressureWarned * kPercent, waited.reading.highest),
         ""});
  if (stolen.above > 0)
    warnings.push_back({Severity::kWarning, "cpu_stolen",
                        fmt::format("in {} of {} runs the hypervisor took more than {:.0f} % of the busy time (at most "
                                    "{:.1f} %): the host serves others",
                                    stolen.above, stolen.runs, kStealWarned * kPercent, stolen.reading.highest),
                        ""});
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
  if (!gathered.sittings.empty()) {
    const Machine machine = machine_from_json(gathered.sittings.back().machine, "sitting's machine");
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
  add_readings(gathered, conditions, warnings);
  return conditions;
}

}  // namespace tare::harness
