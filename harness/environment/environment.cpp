#include "harness/environment/environment.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <sstream>
#include <string_view>

#include "base/error.h"
#include "base/json_reader.h"
#include "harness/environment/cgroup.h"
#include "harness/environment/proc_text.h"
#include "harness/environment/processes.h"

namespace tare::harness {
namespace {

using std::filesystem::path;

constexpr std::int64_t kNsPerSecond = 1'000'000'000;
constexpr std::int64_t kNsPerMs = 1'000'000;
constexpr double kKhzPerMhz = 1000;
constexpr std::uint64_t kBytesPerKib = 1024;

std::optional<std::uint64_t> bytes_in_kib(const path& file, std::string_view key) {
  const auto kib = number_after<std::uint64_t>(file, key);
  if (!kib) return std::nullopt;
  return *kib * kBytesPerKib;
}

std::vector<int> usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  // Of the program, not of the calling thread: the sampler's own may be narrower.
  if (sched_getaffinity(::getpid(), sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(static_cast<std::size_t>(core), &set)) cores.push_back(core);
  return cores;
}

path frequency_folder(const SystemFiles& files, int core) {
  return files.sys / "devices/system/cpu" / fmt::format("cpu{}", core) / "cpufreq";
}

// "0-3,8" -> 5
std::optional<std::int64_t> count_of_ranges(const std::string& text) {
  std::int64_t count = 0;
  std::istringstream ranges(text);
  for (std::string range; std::getline(ranges, range, ',');) {
    const std::size_t dash = range.find('-');
    const auto first = number_in<std::int64_t>(range);
    const auto last = dash == std::string::npos ? first : number_in<std::int64_t>(range.substr(dash + 1));
    if (!first || !last || *last < *first) return std::nullopt;
    count += *last - *first + 1;
  }
  return count;
}

std::optional<std::string> kernel_of(const SystemFiles& files) {
  const auto type = line_of(files.proc / "sys/kernel/ostype");
  const auto release = line_of(files.proc / "sys/kernel/osrelease");
  utsname names{};
  if (!type || !release || ::uname(&names) != 0) return std::nullopt;
  return fmt::format("{} {} {}", *type, *release, names.machine);
}

// Clock of one core by the frequency driver.
std::optional<double> driver_mhz(const SystemFiles& files, int core, const char* file) {
  const auto line = line_of(frequency_folder(files, core) / file);
  const auto khz = line ? number_in<double>(*line) : std::nullopt;
  if (!khz) return std::nullopt;
  return *khz / kKhzPerMhz;
}

std::vector<int> watched_cores(const Watched& watched) {
  return watched.cores.empty() ? usable_cores() : watched.cores;
}

std::optional<double> mean_mhz_by_driver(const SystemFiles& files, const std::vector<int>& cores) {
  double sum = 0;
  for (const int core : cores) {
    const auto mhz = driver_mhz(files, core, "scaling_cur_freq");
    if (!mhz) return std::nullopt;
    sum += *mhz;
  }
  if (cores.empty()) return std::nullopt;
  return sum / static_cast<double>(cores.size());
}

// "cpu MHz" of the usable cores.
std::optional<double> mean_mhz_by_cpuinfo(const SystemFiles& files, const std::vector<int>& cores) {
  const std::optional<std::string> content = content_of(files.proc / "cpuinfo");
  if (!content) return std::nullopt;
  double sum = 0;
  int count = 0;
  bool usable = false;
  std::istringstream lines(*content);
  for (std::string line; std::getline(lines, line);) {
    if (const auto core = value_of(line, "processor"); core) {
      const auto number = number_in<int>(*core);
      usable = number && std::find(cores.begin(), cores.end(), *number) != cores.end();
    }
    const auto text = usable ? value_of(line, "cpu MHz") : std::nullopt;
    const auto mhz = text ? number_in<double>(*text) : std::nullopt;
    if (!mhz) continue;
    sum += *mhz;
    ++count;
  }
  if (count == 0) return std::nullopt;
  return sum / count;
}

// 0.20 0.18 0.12 1/80 11206
void read_load(const std::optional<std::string>& content, EnvironmentSample& sample) {
  if (!content) return;
  sample.load_1min = number_in<double>(*content);
  const std::size_t slash = content->find('/');
  const std::size_t begin = slash == std::string::npos ? slash : content->rfind(' ', slash);
  if (begin != std::string::npos)
    sample.runnable = number_in<std::int64_t>(std::string_view(*content).substr(begin + 1));
}

// "some avg10=0.00 avg60=0.00 avg300=0.00 total=123": a field of the line.
template <class Number>
std::optional<Number> pressure_field(const std::optional<std::string>& some, std::string_view name) {
  const std::size_t begin = some ? some->find(name) : std::string::npos;
  if (begin == std::string::npos) return std::nullopt;
  return number_in<Number>(std::string_view(*some).substr(begin + name.size()));
}

void read_cpu_pressure(const std::optional<std::string>& content, EnvironmentSample& sample) {
  const auto some = content ? value_of(*content, "some") : std::nullopt;
  sample.cpu_pressure_avg10 = pressure_field<double>(some, "avg10=");
  sample.cpu_pressure_us = pressure_field<std::int64_t>(some, "total=");
}

void read_other_pressures(const SystemFiles& files, EnvironmentSample& sample) {
  sample.memory_pressure_us = pressure_field<std::int64_t>(value_in(files.proc / "pressure/memory", "some"), "total=");
  sample.io_pressure_us = pressure_field<std::int64_t>(value_in(files.proc / "pressure/io", "some"), "total=");
}

void read_ticks(const SystemFiles& files, EnvironmentSample& sample) {
  const auto totals = value_in(files.proc / "stat", "cpu ");
  if (!totals) return;
  // user nice system idle iowait irq softirq steal ...
  std::array<std::int64_t, 8> ticks{};
  std::istringstream numbers(*totals);
  for (std::int64_t& value : ticks)
    if (!(numbers >> value)) return;
  const auto [user, nice, system, idle, iowait, irq, softirq, steal] = ticks;
  sample.cpu_busy_ticks = user + nice + system + irq + softirq;
  sample.cpu_steal_ticks = steal;
}

std::int64_t thread_cpu_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * kNsPerSecond + time.tv_nsec;
}

EnvironmentSample sample_machine(const std::vector<int>& cores, const SystemFiles& files) {
  EnvironmentSample sample;
  sample.utc_ns = utc_now_ns();
  read_load(content_of(files.proc / "loadavg"), sample);
  read_cpu_pressure(content_of(files.proc / "pressure/cpu"), sample);
  read_other_pressures(files, sample);
  read_ticks(files, sample);
  sample.frequency_mhz = mean_mhz_by_driver(files, cores);
  if (!sample.frequency_mhz) sample.frequency_mhz = mean_mhz_by_cpuinfo(files, cores);
  if (const auto available = bytes_in_kib(files.proc / "meminfo", "MemAvailable"))
    sample.memory_available_bytes = static_cast<std::int64_t>(*available);
  sample.uptime_s = number_of<double>(files.proc / "uptime");
  const CgroupCpu group = read_cgroup_cpu(files);
  sample.cgroup_throttled_us = group.throttled_us;
  sample.cgroup_throttled_periods = group.throttled_periods;
  return sample;
}

constexpr const char* kUnsupported = "unsupported";

template <class Value>
Json value_or_unsupported(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(kUnsupported);
}

bool is_supported(JsonReader& reader, const std::string& key) {
  return reader.has(key) && reader.any(key) != kUnsupported;
}

}  // namespace

Machine read_machine(const SystemFiles& files) {
  Machine machine;
  machine.hostname = line_of(files.proc / "sys/kernel/hostname");
  machine.product = line_of(files.sys / "class/dmi/id/product_name");
  machine.cpu_model = value_in(files.proc / "cpuinfo", "model name");
  machine.usable_cores = usable_cores();
  if (const auto online = line_of(files.sys / "devices/system/cpu/online"))
    machine.cores_online = count_of_ranges(*online);
  machine.memory_bytes = bytes_in_kib(files.proc / "meminfo", "MemTotal");
  machine.kernel = kernel_of(files);
  if (!machine.usable_cores.empty()) {
    const int core = machine.usable_cores.front();
    machine.governor = line_of(frequency_folder(files, core) / "scaling_governor");
    machine.max_frequency_mhz = driver_mhz(files, core, "cpuinfo_max_freq");
  }
  return machine;
}

EnvironmentSample sample_environment(const SystemFiles& files) {
  return sample_machine(usable_cores(), files);
}

EnvironmentSample sample_fully(const Watched& watched, const SystemFiles& files) {
  const std::int64_t start = thread_cpu_ns();
  EnvironmentSample sample = sample_machine(watched_cores(watched), files);
  if (const auto processes = list_processes(files)) {
    sample.own_cpu_ticks = own_cpu_ticks(*processes, watched.worker_groups);
    sample.builds = running_builds(*processes, watched.worker_groups);
  }
  if (watched.gpu != nullptr) sample.gpu = watched.gpu->sample(watched.worker_groups);
  sample.cost_ns = thread_cpu_ns() - start;
  return sample;
}

QuickReader::QuickReader(Watched watched, const SystemFiles& files)
    : watched_(std::move(watched)), load_(files.proc / "loadavg"), pressure_(files.proc / "pressure/cpu") {
  for (const int core : watched_cores(watched_))
    frequencies_.emplace_back(frequency_folder(files, core) / "scaling_cur_freq");
  const bool all =
      std::all_of(frequencies_.begin(), frequencies_.end(), [](const auto& file) { return file.is_open(); });
  if (!all) frequencies_.clear();
}

EnvironmentSample QuickReader::sample() const {
  const std::int64_t start = thread_cpu_ns();
  EnvironmentSample sample;
  sample.utc_ns = utc_now_ns();
  read_load(load_.content(), sample);
  read_cpu_pressure(pressure_.content(), sample);
  double sum_khz = 0;
  std::size_t known = 0;
  for (const OpenFile& file : frequencies_) {
    const std::optional<std::string> content = file.content();
    const auto khz = content ? number_in<double>(*content) : std::nullopt;
    if (!khz) break;
    sum_khz += *khz;
    ++known;
  }
  if (known > 0 && known == frequencies_.size())
    sample.frequency_mhz = sum_khz / kKhzPerMhz / static_cast<double>(known);
  if (watched_.gpu != nullptr) sample.gpu = watched_.gpu->sample_quickly();
  sample.cost_ns = thread_cpu_ns() - start;
  return sample;
}

std::optional<std::uint64_t> peak_resident_bytes(pid_t pid, const SystemFiles& files) {
  return bytes_in_kib(files.proc / std::to_string(pid) / "status", "VmHWM");
}

Json to_json(const Machine& machine) {
  return {{"hostname", value_or_unsupported(machine.hostname)},
          {"product", value_or_unsupported(machine.product)},
          {"cpu_model", value_or_unsupported(machine.cpu_model)},
          {"usable_cores", machine.usable_cores},
          {"cores_online", value_or_unsupported(machine.cores_online)},
          {"memory_bytes", value_or_unsupported(machine.memory_bytes)},
          {"kernel", value_or_unsupported(machine.kernel)},
          {"governor", value_or_unsupported(machine.governor)},
          {"max_frequency_mhz", value_or_unsupported(machine.max_frequency_mhz)}};
}

Machine machine_from_json(const Json& json, const std::string& where) {
  JsonReader reader(json, where);
  Machine machine;
  if (is_supported(reader, "hostname")) machine.hostname = reader.text("hostname");
  if (is_supported(reader, "product")) machine.product = reader.text("product");
  if (is_supported(reader, "cpu_model")) machine.cpu_model = reader.text("cpu_model");
  for (const Json& core : reader.array("usable_cores")) {
    if (!core.is_number_integer()) throw reader.error("usable_cores", "must hold the numbers of cores");
    machine.usable_cores.push_back(core.get<int>());
  }
  if (is_supported(reader, "cores_online")) machine.cores_online = reader.integer("cores_online", 0);
  if (is_supported(reader, "memory_bytes"))
    machine.memory_bytes = static_cast<std::uint64_t>(reader.integer("memory_bytes", 0));
  if (is_supported(reader, "kernel")) machine.kernel = reader.text("kernel");
  if (is_supported(reader, "governor")) machine.governor = reader.text("governor");
  if (is_supported(reader, "max_frequency_mhz")) machine.max_frequency_mhz = reader.number("max_frequency_mhz", 0);
  reader.refuse_unknown_keys();
  return machine;
}

Machine anonymous(Machine machine) {
  machine.hostname.reset();
  return machine;
}

std::int64_t utc_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::int64_t steady_utc_ns() {
  const auto steady_ns = [] {
    timespec now{};
    ::clock_gettime(CLOCK_BOOTTIME, &now);
    return std::int64_t{now.tv_sec} * kNsPerSecond + now.tv_nsec;
  };
  static const std::int64_t origin_ns = utc_now_ns() - steady_ns();
  return origin_ns + steady_ns();
}

std::string utc_text(std::int64_t utc_ns) {
  const std::time_t seconds = static_cast<std::time_t>(utc_ns / kNsPerSecond);
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(seconds));
}

std::string utc_text_ms(std::int64_t utc_ns) {
  std::string text = utc_text(utc_ns);
  text.pop_back();
  return fmt::format("{}.{:03}Z", text, utc_ns % kNsPerSecond / kNsPerMs);
}

}  // namespace tare::harness
