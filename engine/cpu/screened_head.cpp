#include "engine/cpu/screened_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "engine/cpu/inventory.h"

namespace tare::engine {
namespace {

ActivationRows row_of(const ActivationRows& rows, std::int64_t row) {
  ActivationRows one = rows;
  one.tokens = 1;
  one.values += row * rows.stride;
  if (rows.codes != nullptr) {
    one.codes += row * rows.stride;
    one.scales += row * rows.stride / kRowPadding;
    one.sums += row * rows.stride / kRowPadding;
  }
  return one;
}

}  // namespace

ScreenedHead::ScreenedHead(const Checkpoint& checkpoint, const EngineOptions& options, const Projection& head,
                           const Kernels& kernels, ThreadPool& pool)
    : head_(head),
      kernels_(kernels),
      pool_(pool),
      loops_(kernels, pool),
      // Of the checkpoint's numbers, not of the head's, which may be quantised already.
      screen_(load_projection(checkpoint, head.names.front(), head.matrix.rows(), head.matrix.columns(),
                              format_of(options.head.screen), pool)),
      row_bytes_(head.matrix.row_bytes()),
      rows_(static_cast<std::size_t>(head.matrix.rows() * row_bytes_)),
      candidates_a_row_(std::min(options.head.candidates, head.matrix.rows())),
      padded_(head.matrix.rows()),
      spaces_(static_cast<std::size_t>(pool.size())) {
  pool.parallel_for(static_cast<std::size_t>(head.matrix.rows()), 1, [&](int, std::size_t begin, std::size_t end) {
    for (auto row = static_cast<std::int64_t>(begin); row < static_cast<std::int64_t>(end); ++row)
      head_.matrix.read_row(row, {rows_.data() + row * row_bytes_, static_cast<std::size_t>(row_bytes_)});
  });
  for (ThreadSpace& space : spaces_) {
    space.rows = PackedMatrix(head.matrix.codec(), candidates_a_row_, head.matrix.columns());
    space.logits.resize(static_cast<std::size_t>(space.rows.panels() * kPanelRows));
  }
  const std::string& name = head.names.front();
  screen_op_ = {"screen " + to_text(screen_.matrix.format()), name, screen_.matrix.bytes()};
  select_op_ = {"head candidates", "logits"};
  rescore_op_ = {"rescore " + to_text(head.matrix.format()), name};
}

std::int64_t ScreenedHead::choose(const ActivationRows& input, std::span<std::int32_t> best) {
  const std::int64_t vocab = head_.matrix.rows();
  const auto tokens = static_cast<std::size_t>(input.tokens);
  const auto width = static_cast<std::size_t>(vocab);
  const auto count = static_cast<std::size_t>(candidates_a_row_);
  if (screen_logits_buffer_.size() < tokens * width) screen_logits_buffer_ = AlignedBuffer<float>(tokens * width);
  screen_logits_ = screen_logits_buffer_.span().first(tokens * width);
  {
    const OpScope scope(collector_, screen_op_);
    const std::int64_t fault = loops_.logits(screen_.matrix, input, padded_, screen_logits_buffer_.data());
    if (fault >= 0) return fault;
  }
  candidates_.resize(tokens * count);
  {
    const OpScope scope(collector_, select_op_);
    pool_.parallel_for(tokens, 1, [&](int thread, std::size_t begin, std::size_t end) {
      std::vector<Candidate>& most = spaces_[static_cast<std::size_t>(thread)].most;
      for (std::size_t row = begin; row < end; ++row) {
        select_largest(screen_logits_.subspan(row * width, width), candidates_a_row_, most);
        std::transform(most.begin(), most.end(), candidates_.begin() + static_cast<std::ptrdiff_t>(row * count),
                       [](const Candidate& candidate) { return candidate.token; });
      }
    });
  }
  const OpScope scope(collector_, rescore_op_, element_count(input.tokens, candidates_a_row_ * row_bytes_));
  pool_.parallel_for(tokens, 1, [&](int thread, std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row)
      best[row] =
          rescore(row_of(input, static_cast<std::int64_t>(row)), std::span(candidates_).subspan(row * count, count),
                  spaces_[static_cast<std::size_t>(thread)]);
  });
  const auto fault = std::find(best.begin(), best.begin() + input.tokens, -1);
  return fault == best.begin() + input.tokens ? -1 : fault - best.begin();
}

std::int32_t ScreenedHead::rescore(const ActivationRows& input, std::span<const std::int32_t> candidates,
                                   ThreadSpace& space) const {
  // The head's own kernel on panels made of the candidates' rows: a row's sum does not depend on its neighbours.
  for (std::size_t i = 0; i < candidates.size(); ++i)
    space.rows.write_row(static_cast<std::int64_t>(i), row(candidates[i]));
  kernels_.multiply_panels(space.rows, 0, space.rows.panels(), input, space.logits.data(),
                           static_cast<std::int64_t>(space.logits.size()));
  if (!kernels_.vectors.all_finite(space.logits.data(), static_cast<std::int64_t>(candidates.size()))) return -1;
  std::size_t most = 0;
  for (std::size_t i = 1; i < candidates.size(); ++i) {
    const float difference = space.logits[i] - space.logits[most];
    if (difference > 0 || (difference == 0 && candidates[i] < candidates[most])) most = i;
  }
  return candidates[most];
}

void ScreenedHead::account(InventoryAccount& account, std::int64_t width) const {
  const PackedMatrix& head = head_.matrix;
  const std::string& name = head_.names.front();
  account.stream(name + " (screen)", stored_format(screen_.matrix), screen_.matrix.bytes(),
                 element_count(head.rows(), head.columns()));
  account.add({name + " (candidates)", stored_format(head), AccessPattern::kGather,
               element_count(head.rows(), row_bytes_), element_count(width, candidates_a_row_ * row_bytes_),
               element_count(head.rows(), head.columns())});
}

}  // namespace tare::engine
