#include "profiles/format_savings.h"

#include <array>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "engine/formats/weight_format.h"
#include "engine/formats/weight_groups.h"

namespace tare::profiles {
namespace {

using engine::TensorClass;
using engine::WeightFormat;

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// On the CPU q3 lies in q4's words, and fp8 has q8's bytes and slower kernels: they would buy nothing.
std::vector<WeightFormat> formats_of(engine::BackendKind backend) {
  if (backend == engine::BackendKind::kCpu)
    return {WeightFormat::kBF16, WeightFormat::kQ8, WeightFormat::kQ5, WeightFormat::kQ4};
  return {WeightFormat::kBF16,  WeightFormat::kFP8, WeightFormat::kQ8, WeightFormat::kQ5,
          WeightFormat::kNVFP4, WeightFormat::kQ4,  WeightFormat::kQ3};
}

}  // namespace

double bytes_per_weight(WeightFormat format) {
  constexpr double kBitsPerByte = 8;
  constexpr double kScaleBits = 16.0 / static_cast<double>(engine::kGroupSize);
  constexpr double kBlockScaleBits = 8.0 / 16.0;
  switch (format) {
    case WeightFormat::kBF16:
      return 2;
    case WeightFormat::kQ8:
    case WeightFormat::kFP8:
      return (8 + kScaleBits) / kBitsPerByte;
    case WeightFormat::kQ4:
      return (4 + kScaleBits) / kBitsPerByte;
    case WeightFormat::kQ5:
      return (5 + kScaleBits) / kBitsPerByte;
    case WeightFormat::kQ3:
      return (3 + kScaleBits) / kBitsPerByte;
    case WeightFormat::kNVFP4:
      return (4 + kBlockScaleBits) / kBitsPerByte;
  }
  throw internal_error("a weight format has no size");
}

std::optional<TensorClass> class_of(const engine::InventoryEntry& entry) {
  if (entry.pattern != engine::AccessPattern::kStream || entry.bytes_per_round == 0 || entry.format == "fp32")
    return std::nullopt;
  if (contains(entry.tensor, "in_proj_a") || contains(entry.tensor, "in_proj_b")) return std::nullopt;
  constexpr std::array<std::pair<std::string_view, TensorClass>, 6> kParts = {{
      {"drafter.", TensorClass::kDrafter},
      {"mtp.", TensorClass::kMtp},
      {"self_attn.", TensorClass::kAttention},
      {"linear_attn.", TensorClass::kGdn},
      {"mlp.", TensorClass::kMlp},
      {"lm_head", TensorClass::kHead},
  }};
  for (const auto& [part, tensors] : kParts)
    if (contains(entry.tensor, part)) return tensors;
  // Streamed: the head of a model that ties it to its embedding.
  if (contains(entry.tensor, "embed_tokens")) return TensorClass::kHead;
  return std::nullopt;
}

std::vector<FormatSaving> format_savings(const engine::WeightInventory& inventory, engine::BackendKind backend,
                                         double read_bytes_per_s) {
  std::vector<FormatSaving> savings;
  for (const TensorClass tensors : {TensorClass::kAttention, TensorClass::kGdn, TensorClass::kMlp, TensorClass::kHead,
                                    TensorClass::kMtp, TensorClass::kDrafter}) {
    FormatSaving now;
    now.tensors = tensors;
    for (const engine::InventoryEntry& entry : inventory.entries) {
      if (class_of(entry) != tensors) continue;
      // A drafter's weights may be read several times a round, and what it borrows of the target is kept there.
      const std::uint64_t reads = entry.resident_bytes > 0 ? entry.bytes_per_round / entry.resident_bytes : 1;
      now.elements += reads * entry.elements;
      now.bytes += entry.bytes_per_round;
    }
    if (now.elements == 0) continue;
    for (const WeightFormat format : formats_of(backend)) {
      FormatSaving saving = now;
      saving.format = format;
      saving.bytes_then = static_cast<double>(now.elements) * bytes_per_weight(format);
      saving.floor_change_s = (saving.bytes_then - static_cast<double>(now.bytes)) / read_bytes_per_s;
      savings.push_back(saving);
    }
  }
  return savings;
}

}  // namespace tare::profiles
