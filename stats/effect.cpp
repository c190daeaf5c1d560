#include "stats/effect.h"

namespace tare::stats {

std::string_view estimand_label(Estimand estimand) {
  switch (estimand) {
    case Estimand::kThesePromptsTheseLaunches:
      return "these prompts, these launches";
    case Estimand::kThesePromptsAnyLaunch:
      return "this suite, any launch";
    case Estimand::kPromptsLikeThese:
      return "prompts like these";
  }
  return "unknown";
}

std::string_view estimand_name(Estimand estimand) {
  switch (estimand) {
    case Estimand::kThesePromptsTheseLaunches:
      return "these_prompts_these_launches";
    case Estimand::kThesePromptsAnyLaunch:
      return "these_prompts_any_launch";
    case Estimand::kPromptsLikeThese:
      return "prompts_like_these";
  }
  return "unknown";
}

std::string_view method_name(Method method) {
  switch (method) {
    case Method::kPromptBootstrap:
      return "prompt_bootstrap";
    case Method::kPromptDelta:
      return "prompt_delta";
    case Method::kRunRegression:
      return "run_regression";
    case Method::kBlockEffects:
      return "block_effects";
    case Method::kTwoWay:
      return "two_way";
    case Method::kBlockPairs:
      return "block_pairs";
    case Method::kPooledSittings:
      return "pooled_sittings";
    case Method::kTwoWayBootstrap:
      return "two_way_bootstrap";
    case Method::kStoredBaseline:
      return "stored_baseline";
  }
  return "unknown";
}

}  // namespace tare::stats
