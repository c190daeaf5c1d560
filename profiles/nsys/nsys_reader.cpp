#include "profiles/nsys/nsys_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "profiles/timeline/kernel_name.h"

namespace tare::profiles {
namespace {

const std::string kKernels = "CUPTI_ACTIVITY_KIND_KERNEL";
const std::string kCopies = "CUPTI_ACTIVITY_KIND_MEMCPY";
const std::string kFills = "CUPTI_ACTIVITY_KIND_MEMSET";

// A stream begins its next kernel at most this long before the one before has ended, whatever overlaps: programmatic
// launch overlaps by microseconds, times that were recorded wrongly by whole hundreds of milliseconds.
constexpr std::int64_t kLongestOverlapNs = 100'000'000;

// NVTX_EVENTS.eventType
constexpr std::int64_t kPushPopRange = 59;
constexpr std::int64_t kStartEndRange = 60;
constexpr std::int64_t kTextPushPopRange = 70;
constexpr std::int64_t kTextStartEndRange = 71;

// DIAGNOSTIC_EVENT.severity above which something went wrong.
constexpr std::int64_t kInformation = 1;

// globalTid: process and machine above, thread in the low bits. globalPid has zeros there.
constexpr int kThreadBits = 24;
constexpr int kCorrelationBits = 32;

std::uint64_t process_of(std::int64_t global_id) {
  return static_cast<std::uint64_t>(global_id) >> kThreadBits;
}

// Texts that are printed hold no control characters.
std::string printable(std::string text) {
  for (char& character : text)
    if (static_cast<unsigned char>(character) < 0x20) character = ' ';
  return text;
}

// Numbers names from 0 in the order of their first use.
class Numbering {
 public:
  std::int32_t of(const std::string& name) {
    const auto [entry, fresh] = numbers_.try_emplace(name, static_cast<std::int32_t>(names_.size()));
    if (fresh) names_.push_back(name);
    return entry->second;
  }
  std::vector<std::string> take() { return std::move(names_); }

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::int32_t> numbers_;
};

class Reader {
 public:
  explicit Reader(const NsysExport& file) : file_(&file) { read_strings(); }

  NsysRows read() {
    rows_.processes_known = !file_->has(kKernels) || file_->has(kKernels, "globalPid");
    read_kernels();
    read_copies();
    read_fills();
    rows_.names = names_.take();
    std::sort(rows_.work.begin(), rows_.work.end(), [](const GpuWork& a, const GpuWork& b) {
      return std::tuple(a.record.start_ns, a.record.end_ns, a.record.graph_node) <
             std::tuple(b.record.start_ns, b.record.end_ns, b.record.graph_node);
    });
    find_endless();
    for (const char* table : {"CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_DRIVER"}) read_calls(table);
    read_graphs();
    read_nodes();
    for (const char* table : {"NVTX_EVENTS", "NVTX_EVENTS_V2", "NVTX_EVENTS_V3"}) read_ranges(table);
    rows_.range_names = range_names_.take();
    close_open_ranges();
    read_overhead();
    read_diagnostics();
    return std::move(rows_);
  }

 private:
  const NsysExport* file_;
  NsysRows rows_;
  std::unordered_map<std::int64_t, std::string> strings_;
  std::unordered_map<std::uint64_t, std::uint32_t> processes_;
  Numbering names_;
  Numbering range_names_;
  std::int64_t last_ns_ = 0;  // the latest time that was seen

  void read_strings() {
    if (!file_->has("StringIds")) return;
    Statement row = file_->rows("StringIds", {"id", "value"}, {"id", "value"});
    while (row.step()) strings_.emplace(row.integer(0), row.text(1));
  }

  // The text of a column that holds an id of StringIds; null when there is none.
  const std::string* string_at(const Statement& row, int column) const {
    if (row.is_null(column)) return nullptr;
    const auto entry = strings_.find(row.integer(column));
    return entry == strings_.end() || entry->second.empty() ? nullptr : &entry->second;
  }

  std::uint32_t process_number(std::uint64_t process) {
    if (!rows_.processes_known) return 0;
    return processes_.try_emplace(process, static_cast<std::uint32_t>(processes_.size())).first->second;
  }

  static Correlation correlation(std::uint32_t process, std::int64_t id) {
    return static_cast<Correlation>(process) << kCorrelationBits | static_cast<std::uint32_t>(id);
  }

  void saw(std::int64_t ns) { last_ns_ = std::max(last_ns_, ns); }

  // Columns 0 to 5 of work: start, end, deviceId, streamId, correlationId, globalPid; 6: graphNodeId.
  GpuWork work_of(const Statement& row) {
    GpuWork work;
    work.record.start_ns = row.integer(0);
    work.record.end_ns = row.integer(1);
    work.device = static_cast<std::int32_t>(row.integer(2));
    work.record.stream = static_cast<std::uint32_t>(row.integer(3));
    work.process = process_number(process_of(row.integer(5)));
    work.correlation = correlation(work.process, row.integer(4));
    work.record.graph_node = static_cast<std::uint64_t>(row.integer(6));
    // 0: not collected; NULL reads as 0.
    work.valid = work.record.start_ns != 0 && work.record.end_ns >= work.record.start_ns;
    saw(work.record.end_ns);
    return work;
  }

  static std::vector<std::string> work_columns(const std::vector<std::string>& others) {
    std::vector<std::string> columns = {"start",         "end",       "deviceId",   "streamId",
                                        "correlationId", "globalPid", "graphNodeId"};
    columns.insert(columns.end(), others.begin(), others.end());
    return columns;
  }

  // The fullest name there is: signatures and mangled names have the template arguments, short names do not.
  std::int32_t kernel_name(const Statement& row, std::map<std::array<std::int64_t, 3>, std::int32_t>& known) {
    constexpr std::array kColumns = {7, 8, 9};
    std::array<std::int64_t, 3> ids{};
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = row.is_null(kColumns[i]) ? -1 : row.integer(kColumns[i]);
    const auto entry = known.find(ids);
    if (entry != known.end()) return entry->second;
    std::string name;
    for (std::size_t i = 0; i < ids.size() && name.empty(); ++i)
      if (const std::string* text = string_at(row, kColumns[i])) name = printable(short_kernel_name(*text));
    if (name.empty()) name = fmt::format("<unknown kernel #{}>", *std::max_element(ids.begin(), ids.end()));
    return known.emplace(ids, names_.of(name)).first->second;
  }

  void read_kernels() {
    if (!file_->has(kKernels)) return;
    std::map<std::array<std::int64_t, 3>, std::int32_t> known;
    Statement row = file_->rows(kKernels, work_columns({"demangledName", "mangledName", "shortName"}),
                                {"start", "end", "deviceId", "streamId", "correlationId"});
    while (row.step()) {
      GpuWork work = work_of(row);
      work.record.name = kernel_name(row, known);
      rows_.work.push_back(work);
    }
  }

  void read_copies() {
    if (!file_->has(kCopies)) return;
    Statement row = file_->rows(kCopies, work_columns({"bytes", "copyKind"}),
                                {"start", "end", "deviceId", "streamId", "correlationId"});
    while (row.step()) {
      GpuWork work = work_of(row);
      work.kernel = false;
      work.bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(0, row.integer(7)));
      work.record.name = names_.of(copy_name(static_cast<int>(row.integer(8))));
      rows_.work.push_back(work);
    }
  }

  void read_fills() {
    if (!file_->has(kFills)) return;
    Statement row =
        file_->rows(kFills, work_columns({"bytes"}), {"start", "end", "deviceId", "streamId", "correlationId"});
    while (row.step()) {
      GpuWork work = work_of(row);
      work.kernel = false;
      work.bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(0, row.integer(7)));
      work.record.name = names_.of(kFillName);
      rows_.work.push_back(work);
    }
  }

  // Kernels that end long after the next one of their stream has begun. `work` is sorted by start.
  void find_endless() {
    std::map<std::tuple<std::uint32_t, std::int32_t, std::uint32_t>, GpuWork*> last;
    for (GpuWork& work : rows_.work) {
      if (!work.valid) continue;
      GpuWork*& before = last[{work.process, work.device, work.record.stream}];
      if (before != nullptr && before->record.end_ns > work.record.start_ns + kLongestOverlapNs) before->valid = false;
      before = &work;
    }
  }

  static HostCall host_call(std::int64_t global_thread, std::int64_t start_ns) {
    return {process_of(global_thread), static_cast<std::uint64_t>(global_thread), start_ns};
  }

  void read_calls(const std::string& table) {
    if (!file_->has(table)) return;
    rows_.calls_recorded = true;
    std::unordered_map<std::int64_t, bool> launches_graph;
    Statement row =
        file_->rows(table, {"start", "globalTid", "correlationId", "nameId"}, {"start", "globalTid", "correlationId"});
    while (row.step()) {
      ApiCall call;
      call.host = host_call(row.integer(1), row.integer(0));
      call.correlation = correlation(process_number(call.host.process), row.integer(2));
      const auto [entry, fresh] = launches_graph.try_emplace(row.integer(3), false);
      if (fresh)
        if (const std::string* name = string_at(row, 3)) entry->second = name->find("GraphLaunch") != std::string::npos;
      call.launches_graph = entry->second;
      rows_.calls.push_back(call);
      saw(call.host.start_ns);
    }
  }

  void read_graphs() {
    const std::string table = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";
    if (!file_->has(table)) return;
    Statement row = file_->rows(table, {"deviceId", "correlationId", "globalPid"}, {"correlationId"});
    while (row.step())
      rows_.graphs.push_back({correlation(process_number(process_of(row.integer(2))), row.integer(1)),
                              static_cast<std::int32_t>(row.integer(0))});
  }

  void read_nodes() {
    const std::string table = "CUDA_GRAPH_NODE_EVENTS";
    if (!file_->has(table)) return;
    Statement row = file_->rows(table, {"start", "globalTid", "graphNodeId", "originalGraphNodeId"},
                                {"start", "globalTid", "graphNodeId"});
    while (row.step())
      rows_.nodes.push_back({host_call(row.integer(1), row.integer(0)), static_cast<std::uint64_t>(row.integer(2)),
                             static_cast<std::uint64_t>(row.integer(3))});
  }

  void read_ranges(const std::string& table) {
    if (!file_->has(table)) return;
    Statement row = file_->rows(table, {"start", "end", "eventType", "globalTid", "text", "textId"},
                                {"start", "end", "eventType", "globalTid"});
    while (row.step()) {
      const std::int64_t type = row.integer(2);
      const bool process_wide = type == kStartEndRange || type == kTextStartEndRange;
      if (!process_wide && type != kPushPopRange && type != kTextPushPopRange) continue;
      HostRange range;
      range.start_ns = row.integer(0);
      range.end_ns = row.integer(1);
      range.thread = static_cast<std::uint64_t>(row.integer(3));
      range.process = process_of(row.integer(3));
      range.process_wide = process_wide;
      std::string name = row.text(4);
      if (name.empty())
        if (const std::string* text = string_at(row, 5)) name = *text;
      range.name = range_names_.of(name.empty() ? "(no name)" : printable(name));
      // Older schemas have no NULL and write -1 or 0.
      const bool open = row.is_null(1) || range.end_ns < range.start_ns;
      rows_.open_ranges.push_back(open);
      rows_.ranges.push_back(range);
      saw(open ? range.start_ns : range.end_ns);
    }
  }

  void close_open_ranges() {
    for (std::size_t i = 0; i < rows_.ranges.size(); ++i)
      if (rows_.open_ranges[i]) rows_.ranges[i].end_ns = last_ns_ + 1;
  }

  void read_overhead() {
    if (!file_->has("PROFILER_OVERHEAD")) return;
    Statement row = file_->rows("PROFILER_OVERHEAD", {"start", "end"}, {"start", "end"});
    while (row.step()) {
      HostRange range;
      range.start_ns = row.integer(0);
      range.end_ns = row.integer(1);
      if (range.end_ns > range.start_ns) rows_.overhead.push_back(range);
    }
  }

  void read_diagnostics() {
    const std::string table = "DIAGNOSTIC_EVENT";
    if (!file_->has(table, "severity") || !file_->has(table, "text")) return;
    Statement row = file_->rows(table, {"severity", "text"});
    while (row.step())
      if (row.integer(0) > kInformation) rows_.diagnostics.push_back(printable(row.text(1)));
  }
};

}  // namespace

NsysRows read_rows(const NsysExport& file) {
  return Reader(file).read();
}

}  // namespace tare::profiles
