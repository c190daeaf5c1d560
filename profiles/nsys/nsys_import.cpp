#include "profiles/nsys/nsys_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "profiles/nsys/launch_places.h"
#include "profiles/nsys/nsys_reader.h"

#include "profiles/timeline/timeline.h"

namespace tare::profiles {
namespace {

constexpr double kUsPerNs = 1e-3;
constexpr std::size_t kMostNamed = 5;  // in messages that list names
constexpr const char* kRecordHint = "record with --trace=cuda,nvtx --cuda-graph-trace=node, as scripts/nsys-run does";
constexpr const char* kNodeHint =
    "record with --cuda-graph-trace=node, as scripts/nsys-run does: the default records a graph as one launch";

bool matches(const std::string& name, const std::string& pattern) {
  if (pattern.ends_with('*')) return name.starts_with(std::string_view(pattern).substr(0, pattern.size() - 1));
  return name == pattern;
}

bool is_copy(const std::string& name) {
  return name.starts_with('[');  // as the reader calls what is no kernel
}

class Importer {
 public:
  Importer(const NsysExport& file, const NsysSettings& settings)
      : where_(file.file().string()), settings_(&settings), rows_(read_rows(file)) {
    profile_.schema_version = file.schema_version();
    profile_.nsys_version = file.nsys_version();
  }

  NsysProfile import() {
    check_recorded();
    if (settings_->equal_rounds > 0) {
      cut_equally();
    } else {
      mark_rounds();
      gather_rounds();
    }
    check_plausible();
    add_overhead();
    for (const std::string& text : some_of(rows_.diagnostics)) warn("Nsight Systems says: " + text);
    static_cast<RoundTable&>(profile_) =
        make_round_table(profile_.rounds, rows_.names, profile_.launches,
                         [this](std::size_t round, std::size_t i) { return profile_.labels[round][i]; });
    profile_.names = std::move(rows_.names);
    profile_.ranges = std::move(rows_.ranges);
    profile_.range_names = std::move(rows_.range_names);
    return std::move(profile_);
  }

 private:
  // Of one round while rounds are gathered.
  struct Gathered {
    std::int32_t range = kNoRange;
    std::vector<KernelRecord> records;
    std::vector<RecordLabel> labels;
  };

  std::string where_;
  const NsysSettings* settings_;
  NsysRows rows_;
  NsysProfile profile_;
  std::int64_t begin_ns_ = 0;  // from the first round's begin
  std::int64_t end_ns_ = 0;    // to the last one's end

  [[noreturn]] void refuse(ErrorKind kind, const std::string& what, const std::string& hint) const {
    throw Error(kind, what, where_, hint);
  }
  void warn(const std::string& text) { profile_.warnings.push_back(text); }

  [[noreturn]] void refuse_whole_graphs(std::size_t count, const char* which) const {
    refuse(ErrorKind::kInvalid,
           fmt::format("{} graph launches{} were recorded whole, without their kernels", count, which), kNodeHint);
  }

  static std::vector<std::string> some_of(const std::vector<std::string>& texts) {
    std::vector<std::string> some(texts.begin(),
                                  texts.begin() + static_cast<std::ptrdiff_t>(std::min(texts.size(), kMostNamed)));
    if (texts.size() > some.size()) some.push_back(fmt::format("and {} more", texts.size() - some.size()));
    return some;
  }

  void check_recorded() const {
    const bool kernels = std::any_of(rows_.work.begin(), rows_.work.end(), [](const GpuWork& w) { return w.kernel; });
    if (!kernels && !rows_.graphs.empty()) refuse_whole_graphs(rows_.graphs.size(), "");
    if (!kernels)
      refuse(ErrorKind::kInput, "holds no kernels",
             fmt::format("did the program use a GPU while it was watched? {}", kRecordHint));
    std::set<std::uint64_t> processes;
    for (const ApiCall& call : rows_.calls) processes.insert(call.host.process);
    if (!rows_.processes_known && processes.size() > 1)
      refuse(ErrorKind::kInput,
             fmt::format("its kernels name no process (no column globalPid), and calls come from {} processes",
                         processes.size()),
             "record one process, or export with a newer Nsight Systems");
  }

  // The device whose kernels count, of those that `counts` has.
  [[nodiscard]] std::int32_t chosen_device(const std::map<std::int32_t, std::uint64_t>& counts) const {
    std::vector<std::string> texts;
    texts.reserve(counts.size());
    for (const auto& [device, count] : counts) texts.push_back(fmt::format("{} ({} kernels)", device, count));
    const std::string list = join(texts, ", ");
    if (settings_->device) {
      if (!counts.contains(*settings_->device))
        refuse(ErrorKind::kInput, fmt::format("no kernel of the rounds ran on device {}", *settings_->device),
               "devices: " + list);
      return *settings_->device;
    }
    if (counts.size() > 1)
      refuse(ErrorKind::kInput, fmt::format("the rounds' kernels ran on {} devices: {}", counts.size(), list),
             "choose one with --device; times of several do not add up");
    return counts.begin()->first;
  }

  void cut_equally() {
    if (!rows_.graphs.empty()) refuse_whole_graphs(rows_.graphs.size(), "");
    std::map<std::int32_t, std::uint64_t> counts;
    for (const GpuWork& work : rows_.work)
      if (work.kernel) ++counts[work.device];
    profile_.device = chosen_device(counts);
    LaunchPlaces places(rows_);
    KernelRecords kernels;
    std::vector<RecordLabel> labels;
    for (const GpuWork& work : rows_.work) {
      // Copies are left out: nothing tells a round's from a prompt's.
      if (!work.kernel || work.device != profile_.device) continue;
      if (!work.valid) ++kernels.invalid;
      kernels.records.push_back(work.record);
      labels.push_back({places.path_of(work, places.call_of(work.correlation)), 0});
    }
    try {
      profile_.rounds = split_rounds(kernels, settings_->equal_rounds);
    } catch (const Error& error) {
      throw error.within(where_);
    }
    // Work is sorted by start, as split_rounds cuts it.
    const auto size = static_cast<std::ptrdiff_t>(profile_.rounds.front().size());
    for (auto at = labels.begin(); at != labels.end(); at += size) profile_.labels.emplace_back(at, at + size);
    profile_.launches = places.launches();
    const auto skipped = std::min<std::ptrdiff_t>(settings_->skip_rounds, std::ssize(profile_.rounds));
    profile_.rounds.erase(profile_.rounds.begin(), profile_.rounds.begin() + skipped);
    profile_.labels.erase(profile_.labels.begin(), profile_.labels.begin() + skipped);
    if (profile_.rounds.empty()) refuse_all_skipped(static_cast<std::size_t>(settings_->equal_rounds));
    begin_ns_ = profile_.rounds.front().front().start_ns;
    end_ns_ = profile_.rounds.back().back().end_ns;
  }

  [[noreturn]] void refuse_all_skipped(std::size_t rounds) const {
    refuse(ErrorKind::kInput,
           fmt::format("no round is left: {} were found and {} skipped", rounds, settings_->skip_rounds),
           "--skip-rounds must leave some");
  }

  void mark_rounds() {
    if (!rows_.calls_recorded)
      refuse(ErrorKind::kInput, "holds no calls of the CUDA API, which tie kernels to ranges", kRecordHint);
    if (rows_.ranges.empty())
      refuse(ErrorKind::kInput, "holds no NVTX ranges to find rounds by",
             fmt::format("{}; or cut the capture into equal parts: --equal-rounds N", kRecordHint));
    bool found = false;
    for (HostRange& range : rows_.ranges) {
      range.is_round = matches(rows_.range_names[static_cast<std::size_t>(range.name)], settings_->round_range);
      found = found || range.is_round;
    }
    if (!found) refuse_unknown_range();
  }

  [[noreturn]] void refuse_unknown_range() const {
    std::vector<std::size_t> counts(rows_.range_names.size());
    for (const HostRange& range : rows_.ranges) ++counts[static_cast<std::size_t>(range.name)];
    std::vector<std::size_t> order(counts.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return counts[a] > counts[b]; });
    std::vector<std::string> texts;
    texts.reserve(order.size());
    for (const std::size_t i : order) texts.push_back(fmt::format("'{}' ({} times)", rows_.range_names[i], counts[i]));
    refuse(ErrorKind::kInput, fmt::format("no NVTX range is called '{}'", settings_->round_range),
           "name one with --round-range (* at the end for a beginning); ranges: " + join(some_of(texts), ", "));
  }

  // Rounds in the order of their ranges' starts, without those that no kernel of the device belongs to.
  void gather_rounds() {
    LaunchPlaces places(rows_);
    std::vector<std::int32_t> round_of_work(rows_.work.size(), kNoRange);
    std::vector<bool> call_has_work(rows_.calls.size(), false);
    std::map<std::int32_t, std::uint64_t> counts;
    for (std::size_t i = 0; i < rows_.work.size(); ++i) {
      const std::optional<std::size_t> call = places.call_of(rows_.work[i].correlation);
      if (!call) continue;
      call_has_work[*call] = true;
      round_of_work[i] = places.round_of(*call);
      if (round_of_work[i] != kNoRange && rows_.work[i].kernel) ++counts[rows_.work[i].device];
    }
    check_graphs(places, call_has_work);
    if (counts.empty())
      refuse(ErrorKind::kInvalid, fmt::format("no kernel was launched within a range '{}'", settings_->round_range),
             "is it the range of a decode round, opened by the thread that launches?");
    profile_.device = chosen_device(counts);

    std::map<std::int32_t, Gathered> by_range;
    std::uint64_t orphans = 0;
    std::uint64_t invalid = 0;
    for (std::size_t i = 0; i < rows_.work.size(); ++i) {
      const GpuWork& work = rows_.work[i];
      if (work.device != profile_.device) continue;
      const std::optional<std::size_t> call = places.call_of(work.correlation);
      if (!call) ++orphans;
      if (round_of_work[i] == kNoRange) {
        ++profile_.outside;
        continue;
      }
      Gathered& round = by_range[round_of_work[i]];
      round.records.push_back(work.record);
      round.labels.push_back({places.path_of(work, call), work.bytes});
      if (!work.valid) ++invalid;
    }
    if (invalid > 0)
      refuse(ErrorKind::kInvalid, fmt::format("{} kernels and copies of the rounds have no valid times", invalid),
             "record a shorter stretch; times that lack kernels would not add up");
    if (orphans > 0)
      warn(fmt::format("{} kernels and copies have no API call in the file and belong to no round", orphans));
    profile_.launches = places.launches();
    keep_rounds(by_range);
  }

  // Graphs of the rounds whose kernels are not in the file.
  void check_graphs(const LaunchPlaces& places, const std::vector<bool>& call_has_work) const {
    std::size_t whole = 0;
    for (const GraphRun& graph : rows_.graphs) {
      const std::optional<std::size_t> call = places.call_of(graph.correlation);
      if (call && places.round_of(*call) != kNoRange) ++whole;
    }
    std::size_t empty = 0;
    for (std::size_t i = 0; i < rows_.calls.size(); ++i)
      if (rows_.calls[i].launches_graph && places.round_of(i) != kNoRange && !call_has_work[i]) ++empty;
    if (whole > 0 || empty > 0) refuse_whole_graphs(std::max(whole, empty), " of the rounds");
  }

  void keep_rounds(std::map<std::int32_t, Gathered>& by_range) {
    std::vector<std::int32_t> order;
    std::size_t without_kernels = 0;
    std::size_t cut = 0;
    for (std::size_t i = 0; i < rows_.ranges.size(); ++i) {
      if (!rows_.ranges[i].is_round) continue;
      if (rows_.open_ranges[i]) {
        ++cut;
      } else if (by_range.contains(static_cast<std::int32_t>(i))) {
        order.push_back(static_cast<std::int32_t>(i));
      } else {
        ++without_kernels;
      }
    }
    if (cut > 0) warn(fmt::format("{} rounds were open when the recording ended and are left out", cut));
    if (without_kernels > 0)
      warn(fmt::format("{} ranges of that name launched nothing on device {} (or lie in another) and are no rounds",
                       without_kernels, profile_.device));
    const auto range = [&](std::int32_t i) -> const HostRange& { return rows_.ranges[static_cast<std::size_t>(i)]; };
    std::sort(order.begin(), order.end(),
              [&](std::int32_t a, std::int32_t b) { return range(a).start_ns < range(b).start_ns; });
    const auto skipped = std::min<std::ptrdiff_t>(settings_->skip_rounds, std::ssize(order));
    if (skipped == std::ssize(order)) refuse_all_skipped(order.size());
    order.erase(order.begin(), order.begin() + skipped);

    std::size_t overlapping = 0;
    begin_ns_ = range(order.front()).start_ns;
    for (const std::int32_t i : order) {
      if (range(i).start_ns < end_ns_) ++overlapping;
      end_ns_ = std::max(end_ns_, range(i).end_ns);
      profile_.range_us.push_back(static_cast<double>(range(i).end_ns - range(i).start_ns) * kUsPerNs);
      Gathered& round = by_range[i];
      profile_.rounds.push_back(std::move(round.records));
      profile_.labels.push_back(std::move(round.labels));
    }
    if (overlapping > 0)
      warn(fmt::format("{} rounds begin before the one before has ended (several threads?): each is summed alone",
                       overlapping));
  }

  void check_plausible() {
    profile_.fewest_kernels = std::numeric_limits<std::int64_t>::max();
    std::int64_t all = 0;
    for (const std::vector<KernelRecord>& round : profile_.rounds) {
      const auto kernels = std::count_if(round.begin(), round.end(), [&](const KernelRecord& record) {
        return !is_copy(rows_.names[static_cast<std::size_t>(record.name)]);
      });
      profile_.fewest_kernels = std::min<std::int64_t>(profile_.fewest_kernels, kernels);
      profile_.most_kernels = std::max<std::int64_t>(profile_.most_kernels, kernels);
      all += kernels;
    }
    profile_.kernels_only = static_cast<double>(all) / static_cast<double>(profile_.rounds.size());
    if (profile_.kernels_only < settings_->least_kernels)
      refuse(ErrorKind::kInvalid,
             fmt::format("{:.1f} kernels a round in {} rounds: too few for a decode round", profile_.kernels_only,
                         profile_.rounds.size()),
             fmt::format("{}; if this engine does launch so few: --least-kernels 1", kNodeHint));
    if (profile_.fewest_kernels != profile_.most_kernels)
      warn(fmt::format("rounds launch from {} to {} kernels: means are over unlike rounds", profile_.fewest_kernels,
                       profile_.most_kernels));
  }

  void add_overhead() {
    std::int64_t ns = 0;
    for (const HostRange& overhead : rows_.overhead)
      ns += std::max<std::int64_t>(0, std::min(overhead.end_ns, end_ns_) - std::max(overhead.start_ns, begin_ns_));
    profile_.overhead_us = static_cast<double>(ns) * kUsPerNs / static_cast<double>(profile_.rounds.size());
  }
};

}  // namespace

std::vector<PhaseRow> phases_of(const NsysProfile& profile) {
  std::map<std::string, PhaseRow> phases;
  for (const KernelRow& row : profile.rows) {
    PhaseRow& phase = phases[row.part.substr(0, row.part.find(kPathSeparator))];
    phase.calls += row.calls;
    phase.us += row.us;
  }
  std::vector<PhaseRow> rows;
  for (auto& [name, phase] : phases) {
    phase.phase = name;
    rows.push_back(std::move(phase));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const PhaseRow& a, const PhaseRow& b) { return a.us > b.us; });
  return rows;
}

NsysProfile import_nsys(const std::filesystem::path& file, const NsysSettings& settings) {
  const NsysExport opened(file);
  return Importer(opened, settings).import();
}

}  // namespace tare::profiles
