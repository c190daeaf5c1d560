#include "profiles/roofline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/error.h"
#include "profiles/format_savings.h"

namespace tare::profiles {
namespace {

using engine::AccessPattern;
using engine::InventoryEntry;
using engine::TensorClass;

constexpr double kUsPerS = 1e6;
constexpr double kOperationsAWeight = 2;
constexpr double kOperationsAStateElement = 7;
constexpr double kOperationsAPosition = 4;  // a query head and dimension
constexpr double kOperationsATap = 2;

std::optional<RooflineClass> of(TensorClass tensors) {
  switch (tensors) {
    case TensorClass::kAttention:
      return RooflineClass::kAttention;
    case TensorClass::kGdn:
      return RooflineClass::kGdn;
    case TensorClass::kMlp:
      return RooflineClass::kMlp;
    case TensorClass::kHead:
      return RooflineClass::kHead;
    case TensorClass::kMtp:
    case TensorClass::kDrafter:
      return std::nullopt;
  }
  throw internal_error("a tensor class has no place in the roofline");
}

bool of_a_drafter(const std::string& tensor) {
  return tensor.find("drafter.") != std::string::npos || tensor.find("mtp.") != std::string::npos ||
         tensor.ends_with("(draft)");  // of the target, read again for a draft
}

bool is_state(const std::string& tensor) {
  return tensor.ends_with("recurrent state");
}

// Of all query heads of a layer over the positions that each of `width` tokens sees, its own included.
double attention_operations(const engine::ModelConfig& config, std::int64_t context, std::int64_t width) {
  const auto tokens = static_cast<double>(width);
  const double positions = tokens * static_cast<double>(context) + tokens * (tokens + 1) / 2;
  return kOperationsAPosition * static_cast<double>(config.query_channels()) * positions;
}

double operations_of(const InventoryEntry& entry, const engine::ModelConfig& config, std::int64_t context,
                     std::int64_t width) {
  const auto tokens = static_cast<double>(width);
  if (entry.pattern == AccessPattern::kCache) return attention_operations(config, context, width);
  if (entry.pattern == AccessPattern::kStream) return kOperationsAWeight * static_cast<double>(entry.elements) * tokens;
  if (!is_state(entry.tensor)) return 0;  // columns and records move with the state: their operations are counted there
  return tokens * (kOperationsAStateElement * static_cast<double>(entry.elements) +
                   kOperationsATap * static_cast<double>(config.conv_channels() * config.conv_kernel));
}

std::optional<RooflineClass> class_of_entry(const InventoryEntry& entry) {
  if (of_a_drafter(entry.tensor)) return std::nullopt;
  if (entry.pattern == AccessPattern::kCache) return RooflineClass::kKeyValueCache;
  if (entry.pattern == AccessPattern::kState) return RooflineClass::kRecurrentState;
  const std::optional<TensorClass> tensors = class_of(entry);
  return tensors ? of(*tensors) : std::nullopt;
}

// The first option that differs, as a path; empty when none does. The length of the caches changes no round.
std::string difference(const Json& a, const Json& b, const std::string& path) {
  if (!a.is_object() || !b.is_object()) return a == b ? "" : path;
  for (const auto& [key, value] : a.items()) {
    const std::string inner = path.empty() ? key : path + "." + key;
    if (inner == "context") continue;
    if (!b.contains(key)) return inner;
    std::string found = difference(value, b.at(key), inner);
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace

std::string to_text(RooflineClass kind) {
  switch (kind) {
    case RooflineClass::kAttention:
      return "attention";
    case RooflineClass::kGdn:
      return "gdn";
    case RooflineClass::kMlp:
      return "mlp";
    case RooflineClass::kHead:
      return "head";
    case RooflineClass::kKeyValueCache:
      return "key-value cache";
    case RooflineClass::kRecurrentState:
      return "recurrent state";
  }
  throw internal_error("a class of the roofline has no name");
}

Roofline make_roofline(const engine::WeightInventory& inventory, const engine::ModelConfig& config,
                       std::int64_t context, std::int64_t width, double read_bytes_per_s,
                       std::optional<double> compute_per_s) {
  Roofline roofline{context, width, read_bytes_per_s, compute_per_s, {}, 0, 0};
  std::map<RooflineClass, RooflineRow> rows;
  for (const InventoryEntry& entry : inventory.entries) {
    const std::optional<RooflineClass> kind = class_of_entry(entry);
    if (!kind || entry.bytes_per_round == 0) continue;
    RooflineRow& row = rows[*kind];
    row.kind = *kind;
    row.bytes += entry.bytes_per_round;
    row.operations += operations_of(entry, config, context, width);
  }
  for (auto& [kind, row] : rows) {
    row.intensity = row.operations / static_cast<double>(row.bytes);
    row.attainable = read_bytes_per_s * row.intensity;
    if (compute_per_s) row.attainable = std::min(row.attainable, *compute_per_s);
    row.floor_s =
        row.attainable > 0 ? row.operations / row.attainable : static_cast<double>(row.bytes) / read_bytes_per_s;
    roofline.rows.push_back(row);
  }
  std::stable_sort(roofline.rows.begin(), roofline.rows.end(),
                   [](const RooflineRow& a, const RooflineRow& b) { return a.bytes > b.bytes; });
  return roofline;
}

std::optional<RooflineClass> class_of_row(const std::string& launch, const std::string& part) {
  if (of_a_drafter(part) || launch.starts_with("draft")) return std::nullopt;
  if (part.find(".weight") != std::string::npos) {
    InventoryEntry entry;
    entry.tensor = part;
    const bool projection = part.find("_proj") != std::string::npos || part.find("lm_head") != std::string::npos ||
                            part.find("embed_tokens") != std::string::npos;
    if (!projection || launch.starts_with("embed")) return std::nullopt;
    entry.bytes_per_round = 1;  // class_of leaves out what is never read
    const std::optional<TensorClass> tensors = class_of(entry);
    return tensors ? of(*tensors) : std::nullopt;
  }
  if (launch.starts_with("gdn")) return RooflineClass::kRecurrentState;
  if (launch.starts_with("attention")) return RooflineClass::kKeyValueCache;
  return std::nullopt;
}

void add_profile(Roofline& roofline, const Json& profile, const Json& options, const std::string& where) {
  if (!profile.is_object() || !profile.contains("rows") || !profile.at("rows").is_array() || profile.at("rows").empty())
    throw input_error(where, "is not what tare profile --json prints: it has no rows");
  const std::int64_t width = profile.value("width", std::int64_t{0});
  if (width != roofline.width)
    throw input_error(where, fmt::format("is of rounds of {} tokens, this is of {}", width, roofline.width),
                      fmt::format("give both the same --width"));
  const std::string differs = difference(options, profile.value("options", Json::object()), "");
  if (!differs.empty())
    throw input_error(where, fmt::format("was made with another {}", differs), "profile with the same options");
  std::map<RooflineClass, double> times;
  for (const Json& element : profile.at("rows")) {
    JsonReader row(element, where + ": rows");
    const double seconds = row.number("us_per_round", 0) / kUsPerS;
    const std::string launch = row.has("launch") ? row.text("launch") : "";
    const std::string part = row.has("part") ? row.text("part") : "";
    const std::optional<RooflineClass> kind = class_of_row(launch.empty() ? row.text("kernel") : launch, part);
    roofline.profiled_s += seconds;
    if (kind) {
      times[*kind] += seconds;
    } else {
      roofline.other_s += seconds;
    }
  }
  for (RooflineRow& row : roofline.rows) {
    const auto found = times.find(row.kind);
    if (found == times.end() || found->second <= 0) continue;
    row.measured_s = found->second;
    row.share = row.floor_s / found->second;
  }
}

}  // namespace tare::profiles
