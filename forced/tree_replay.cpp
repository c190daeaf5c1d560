#include "forced/tree_replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "base/error.h"
#include "engine/speculate/draft_tree.h"

namespace tare::forced {
namespace {

// The first `candidates` of every row, at another temperature.
class Tempered {
 public:
  Tempered(const engine::RecordedDraft& draft, const TreeSetting& setting)
      : rows_(draft.rows), candidates_(std::min(setting.candidates, draft.candidates)) {
    for (std::int64_t row = 0; row < rows_; ++row) {
      const auto first = static_cast<std::size_t>(row * draft.candidates);
      double sum = 0;
      for (std::int64_t i = 0; i < draft.candidates; ++i)
        sum += std::exp(static_cast<double>(draft.log_probabilities[first + static_cast<std::size_t>(i)]) /
                        setting.temperature);
      for (std::int64_t i = 0; i < candidates_; ++i) {
        const std::size_t at = first + static_cast<std::size_t>(i);
        tokens_.push_back(draft.tokens[at]);
        const double log_probability = static_cast<double>(draft.log_probabilities[at]);
        log_probabilities_.push_back(setting.temperature == 1
                                         ? draft.log_probabilities[at]
                                         : static_cast<float>(log_probability / setting.temperature - std::log(sum)));
      }
    }
  }
  [[nodiscard]] engine::DraftOutput output() const { return {rows_, candidates_, tokens_, log_probabilities_}; }

 private:
  std::int64_t rows_ = 0;
  std::int64_t candidates_ = 0;
  std::vector<std::int32_t> tokens_;
  std::vector<float> log_probabilities_;
};

// By index of the anchor in the text.
std::map<std::size_t, const engine::RecordedDraft*> drafts_by_anchor(const RecordedText& text) {
  std::vector<std::size_t> anchors;
  std::size_t anchor = 0;
  for (const engine::RoundShape& shape : text.rounds) {
    anchors.push_back(anchor);
    anchor += shape.path.size();
  }
  std::map<std::size_t, const engine::RecordedDraft*> result;
  for (const engine::RecordedDraft& draft : text.drafts)
    result[anchors[static_cast<std::size_t>(draft.round)]] = &draft;
  return result;
}

}  // namespace

TextTally replay_trees(const RecordedText& text, const TreeSetting& setting) {
  const std::map<std::size_t, const engine::RecordedDraft*> drafts = drafts_by_anchor(text);
  TextTally tally{text.category, {}};
  const std::size_t last = text.tokens.size() - 1;
  for (std::size_t anchor = 0; anchor < last;) {
    const auto draft = drafts.find(anchor);
    if (draft == drafts.end())
      throw input_error(fmt::format("prompt {}", text.prompt_id),
                        fmt::format("has no draft at token {} of its text", anchor),
                        "record with tare rollouts --every-position");
    const engine::TokenTree tree =
        engine::grow_tree(text.tokens[anchor], Tempered(*draft->second, setting).output(), {.nodes = setting.nodes});
    RoundTally round{1, tree.size(), draft->second->rows, false};
    for (int node = 0; anchor + static_cast<std::size_t>(round.tokens) <= last; ++round.tokens) {
      node = tree.child(node, text.tokens[anchor + static_cast<std::size_t>(round.tokens)]);
      if (node < 0) break;
      // The text ends with this token: it is committed as the round's last choice, not as a draft.
      if (anchor + static_cast<std::size_t>(round.tokens) == last) {
        round.cut = true;
        break;
      }
    }
    tally.rounds.push_back(round);
    anchor += static_cast<std::size_t>(round.tokens);
  }
  return tally;
}

}  // namespace tare::forced
