#include "stats/warning.h"

namespace tare::stats {

std::string_view warning_name(WarningCode code) {
  switch (code) {
    case WarningCode::kFewPrompts:
      return "few_prompts";
    case WarningCode::kFewDegreesOfFreedom:
      return "few_degrees_of_freedom";
    case WarningCode::kFewBlocks:
      return "few_blocks";
    case WarningCode::kOneBlock:
      return "one_block";
    case WarningCode::kDriftLarge:
      return "drift_large";
    case WarningCode::kDriftConfounded:
      return "drift_confounded";
    case WarningCode::kSlotOrderUnbalanced:
      return "slot_order_unbalanced";
    case WarningCode::kStartOrderUnbalanced:
      return "start_order_unbalanced";
    case WarningCode::kStartOrderConfounded:
      return "start_order_confounded";
    case WarningCode::kOutlierRun:
      return "outlier_run";
    case WarningCode::kLaunchSpreadDominates:
      return "launch_spread_dominates";
    case WarningCode::kPromptSpreadDominates:
      return "prompt_spread_dominates";
    case WarningCode::kTokensDiffer:
      return "tokens_differ";
    case WarningCode::kDegenerate:
      return "degenerate";
    case WarningCode::kBcaFellBack:
      return "bca_fell_back";
    case WarningCode::kHolmChangedVerdict:
      return "holm_changed_verdict";
    case WarningCode::kTwoWayFloor:
      return "two_way_floor";
    case WarningCode::kZerosDropped:
      return "zeros_dropped";
  }
  return "unknown";
}

}  // namespace tare::stats
