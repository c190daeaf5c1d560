#include "engine/cpu/kernels.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "engine/cpu/kernel_tables.h"
//
#include <hwy/targets.h>

namespace tare::engine {
namespace {

// Targets compiled in and supported here, best first (Highway gives better targets lower bits).
std::vector<std::int64_t> available_targets() {
  std::vector<std::int64_t> targets;
  std::int64_t supported = hwy::SupportedTargets() & HWY_TARGETS;
#if HWY_ARCH_X86
  if (!__builtin_cpu_supports("avx512vnni")) supported &= ~HWY_AVX3_DL;
#endif
  for (int bit = 0; bit < 63; ++bit)
    if ((supported >> bit & 1) != 0) targets.push_back(std::int64_t{1} << bit);
  // The plain target always runs; Highway lists it only where nothing better exists.
  if (std::find(targets.begin(), targets.end(), HWY_BASELINE_SCALAR) == targets.end() &&
      (HWY_TARGETS & HWY_BASELINE_SCALAR) != 0)
    targets.push_back(HWY_BASELINE_SCALAR);
  return targets;
}

}  // namespace

std::vector<std::string> available_instruction_sets() {
  std::vector<std::string> names;
  for (const std::int64_t target : available_targets()) names.emplace_back(hwy::TargetName(target));
  return names;
}

Kernels select_kernels(const std::string& name) {
  for (const std::int64_t target : available_targets()) {
    if (name != "auto" && name != hwy::TargetName(target)) continue;
    return {hwy::TargetName(target), matrix_kernels(target), *vector_kernels(target), *attention_kernels(target),
            *gdn_kernels(target)};
  }
  throw input_error("cpu.instruction_set", fmt::format("'{}' is not an instruction set of this machine", name),
                    fmt::format("auto, or one of: {}", join(available_instruction_sets(), ", ")));
}

}  // namespace tare::engine
