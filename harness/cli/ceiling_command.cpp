#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json_reader.h"
#include "base/text.h"
#include "harness/cli/ceiling_tables.h"
#include "harness/cli/commands.h"
#include "harness/cli/model_arguments.h"
#include "harness/environment/environment.h"
#include "profiles/ceiling.h"
#include "profiles/gpu_read_rate.h"
#include "profiles/layer_names.h"

namespace tare::harness {
namespace {

constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;
constexpr double kUsPerS = 1e6;
constexpr std::size_t kRowsShown = 12;  // largest readers in the table

struct Arguments {
  ModelArguments model;
  profiles::CeilingSettings settings;
  std::uint64_t memory_bytes = 0;  // 0: the device's
  double compute_tera_per_s = 0;   // 0: not known
  std::string profile;             // file of `tare profile --json`
  std::string figure;              // of the roofline
  bool json = false;
};

// What follows from a ceiling.
struct Derived {
  std::vector<profiles::FloorPhase> phases;
  profiles::PrefillFloor prefill;
  profiles::Roofline roofline;
  profiles::Capacity capacity;
};

Json to_json(const profiles::Ceiling& ceiling, const Derived& derived, const engine::Backend& backend) {
  Json repetitions = Json::array();
  for (const profiles::CeilingRepetition& repetition : ceiling.repetitions)
    repetitions.push_back({{"read_gb_per_s", repetition.read_bytes_per_s / kGiga},
                           {"round_s", repetition.round_s},
                           {"context", repetition.context}});
  Json inventory = Json::array();
  Json unread = Json::array();
  for (const engine::InventoryEntry& entry : ceiling.inventory.entries) {
    inventory.push_back({{"tensor", entry.tensor},
                         {"format", entry.format},
                         {"bytes_per_round", entry.bytes_per_round},
                         {"resident_bytes", entry.resident_bytes}});
    if (entry.bytes_per_round == 0) unread.push_back(entry.tensor);
  }
  Json savings = Json::array();
  for (const profiles::FormatSaving& saving : ceiling.savings)
    savings.push_back({{"tensors", engine::to_text(saving.tensors)},
                       {"elements", saving.elements},
                       {"bytes_per_round", saving.bytes},
                       {"format", engine::to_text(saving.format)},
                       {"bytes_per_round_then", saving.bytes_then},
                       {"floor_change_s", saving.floor_change_s}});
  return {{"reader", ceiling.reader},
          {"memory_read_gb_per_s", ceiling.memory_bytes_per_s / kGiga},
          {"memory_read_bytes", ceiling.memory_bytes},
          {"read_gb_per_s", ceiling.read_bytes_per_s / kGiga},
          {"context", ceiling.context},
          {"width", ceiling.width},
          {"bytes_per_round", ceiling.bytes_per_round},
          {"floor_s", ceiling.floor_s},
          {"round_s", ceiling.round_s},
          {"tokens_per_s", static_cast<double>(ceiling.width) / ceiling.round_s},
          {"share", ceiling.share},
          {"ratio", 1 / ceiling.share},
          {"repetitions", repetitions},
          {"phases", phases_json(derived.phases)},
          {"prefill", prefill_json(derived.prefill)},
          {"roofline", roofline_json(derived.roofline)},
          {"capacity", capacity_json(derived.capacity)},
          {"savings", savings},
          {"never_read", unread},
          {"inventory", inventory},
          {"backend", backend.description()},
          {"options", engine::to_json(backend.options())}};
}

// Entries that are the same in every layer.
struct Tensors {
  std::string name;  // "layers.*.mlp.down_proj.weight"
  std::string format;
  std::int64_t count = 0;
  std::uint64_t bytes_per_round = 0;
  std::uint64_t elements = 0;
};

std::vector<Tensors> by_name(const engine::WeightInventory& inventory) {
  std::map<std::pair<std::string, std::string>, Tensors> groups;
  for (const engine::InventoryEntry& entry : inventory.entries) {
    const std::string name = profiles::without_layer_number(entry.tensor);
    Tensors& group = groups.try_emplace({name, entry.format}, Tensors{name, entry.format}).first->second;
    ++group.count;
    group.bytes_per_round += entry.bytes_per_round;
    group.elements += entry.elements;
  }
  std::vector<Tensors> sorted;
  sorted.reserve(groups.size());
  for (auto& [key, group] : groups) sorted.push_back(std::move(group));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Tensors& a, const Tensors& b) { return a.bytes_per_round > b.bytes_per_round; });
  return sorted;
}

void print_inventory(const engine::WeightInventory& inventory, double read_bytes_per_s) {
  const std::vector<Tensors> groups = by_name(inventory);
  fmt::print("{:>12} {:>12} {:>5} {:>6}  {}\n", "bytes/round", "floor us", "count", "format", "tensor");
  for (std::size_t i = 0; i < std::min(kRowsShown, groups.size()); ++i)
    fmt::print("{:>12} {:12.2f} {:>5} {:>6}  {}\n", human_bytes(groups[i].bytes_per_round),
               static_cast<double>(groups[i].bytes_per_round) / read_bytes_per_s * kUsPerS, groups[i].count,
               groups[i].format, groups[i].name);
  if (groups.size() > kRowsShown) fmt::print("and {} more (--json has every tensor)\n", groups.size() - kRowsShown);
  for (const Tensors& group : groups)
    if (group.bytes_per_round == 0) fmt::print("never read: {} ({} elements)\n", group.name, group.elements);
}

// A line a class: what its bytes are, and what each format would do to the floor.
void print_savings(const std::vector<profiles::FormatSaving>& savings, double floor_s) {
  for (std::size_t i = 0; i < savings.size(); ++i) {
    const profiles::FormatSaving& saving = savings[i];
    if (i == 0 || savings[i - 1].tensors != saving.tensors)
      fmt::print("{}{:<10} {:>10}:", i == 0 ? "\nfloor if these were in another format\n" : "\n",
                 engine::to_text(saving.tensors), human_bytes(saving.bytes));
    fmt::print("  {} {:+.1f} %", engine::to_text(saving.format), saving.floor_change_s / floor_s * 100);
  }
  if (!savings.empty()) fmt::print("\n");
}

void print(const profiles::Ceiling& ceiling, const Derived& derived) {
  print_inventory(ceiling.inventory, ceiling.read_bytes_per_s);
  print_phases(derived.phases, derived.prefill);
  print_savings(ceiling.savings, ceiling.floor_s);
  print_roofline(derived.roofline);
  print_capacity(derived.capacity);
  fmt::print("\nread rate of memory          {:9.1f} GB/s ({}, {})\n", ceiling.memory_bytes_per_s / kGiga,
             ceiling.reader, human_bytes(ceiling.memory_bytes));
  fmt::print("read rate at {:>8}        {:9.1f} GB/s\n", human_bytes(ceiling.bytes_per_round),
             ceiling.read_bytes_per_s / kGiga);
  fmt::print("floor of a round             {:9.3f} ms ({} tokens wide, {} in the caches)\n", ceiling.floor_s * 1e3,
             ceiling.width, ceiling.context);
  fmt::print("measured round               {:9.3f} ms ({:.1f} tok/s)\n", ceiling.round_s * 1e3,
             static_cast<double>(ceiling.width) / ceiling.round_s);
  fmt::print("share of the ceiling         {:9.1f} %, {:.3f} times the floor\n", ceiling.share * 100,
             1 / ceiling.share);
}

// The memory that the backend's weights stream from.
profiles::ReadRateSource source_of(const engine::Backend& backend) {
  if (backend.options().backend == engine::BackendKind::kCuda)
    return profiles::gpu_read_rate(static_cast<int>(backend.options().cuda.device));
  return profiles::cpu_read_rate(backend.description().at("threads").get<int>());
}

// A GPU's backend knows its memory; for the host's it is this machine's.
profiles::Capacity capacity_of(const engine::Backend& backend, std::uint64_t memory_bytes) {
  if (memory_bytes > 0) return profiles::measure_capacity(backend, memory_bytes, "as named by --memory");
  if (backend.device_memory().total_bytes > 0) return profiles::measure_capacity(backend, 0, "");
  return profiles::measure_capacity(backend, read_machine().memory_bytes.value_or(0), "of this machine");
}

Derived derive(const profiles::Ceiling& ceiling, const engine::Backend& backend, const Arguments& arguments,
               const Json& profile) {
  const std::optional<double> compute =
      arguments.compute_tera_per_s > 0 ? std::optional(arguments.compute_tera_per_s * kTera) : std::nullopt;
  Derived derived{profiles::floor_phases(ceiling.inventory, ceiling.read_bytes_per_s),
                  profiles::prefill_floor(backend, arguments.settings.context, ceiling.read_bytes_per_s, compute),
                  profiles::make_roofline(ceiling.inventory, backend.config(), ceiling.context, ceiling.width,
                                          ceiling.read_bytes_per_s, compute),
                  capacity_of(backend, arguments.memory_bytes)};
  if (!profile.is_null())
    profiles::add_profile(derived.roofline, profile, engine::to_json(backend.options()), arguments.profile);
  return derived;
}

int measure(const Arguments& arguments) {
  const Json profile = arguments.profile.empty() ? Json(nullptr) : read_json_file(arguments.profile);
  const OpenModel opened = open_model(arguments.model.model, arguments.model.options());
  const profiles::Ceiling ceiling =
      profiles::measure_ceiling(*opened.backend, source_of(*opened.backend), arguments.settings);
  const Derived derived = derive(ceiling, *opened.backend, arguments, profile);
  if (!arguments.figure.empty()) write_roofline_figure(derived.roofline, arguments.figure);
  if (arguments.json) {
    fmt::print("{}\n", to_json(ceiling, derived, *opened.backend).dump(2));
  } else {
    print(ceiling, derived);
  }
  return 0;
}

}  // namespace

void add_ceiling_command(CommandLine& line) {
  const auto arguments = std::make_shared<Arguments>();
  const Command command =
      line.add_command("ceiling", "bytes a round reads, the floor they set, and how near the engine comes");
  arguments->model.add_to(command);
  command.add_option("--context", arguments->settings.context, "tokens in the caches").show_default();
  command.add_option("--width", arguments->settings.width, "tokens a round verifies and commits").show_default();
  command.add_option("--seconds", arguments->settings.seconds, "of reading and of decoding, a repetition")
      .show_default();
  command.add_option("--repetitions", arguments->settings.repetitions, "alternations of the two").show_default();
  command
      .add_option("--memory", arguments->memory_bytes,
                  "bytes that capacity is computed for (0: those free on the GPU, or this machine's)")
      .show_default();
  command
      .add_option("--compute", arguments->compute_tera_per_s,
                  "10^12 operations a second that arithmetic can do, measured elsewhere (0: not known)")
      .not_negative()
      .show_default();
  command.add_option("--profile", arguments->profile,
                     "what tare profile --json printed: measured shares in the roofline");
  command.add_option("--figure", arguments->figure, "write the roofline as SVG");
  command.add_flag("--json", arguments->json, "all tensors and repetitions as JSON");
  command.set_footer("Example: tare ceiling --model models/embedded --set weights.format=q4");
  command.set_action([arguments] { return measure(*arguments); });
}

}  // namespace tare::harness
