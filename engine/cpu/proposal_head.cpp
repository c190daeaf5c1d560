#include "engine/cpu/proposal_head.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json_reader.h"
#include "engine/cpu/inventory.h"
#include "engine/speculate/shortlist.h"

namespace tare::engine {
namespace {

// Rows `ids` of a packed matrix, in their order.
PackedMatrix copy_rows_of(const PackedMatrix& from, std::span<const std::int32_t> ids) {
  PackedMatrix matrix(from.codec(), static_cast<std::int64_t>(ids.size()), from.columns());
  std::vector<std::byte> row(static_cast<std::size_t>(from.row_bytes()));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    from.read_row(ids[i], row);
    matrix.write_row(static_cast<std::int64_t>(i), row);
  }
  return matrix;
}

// Rows `ids` of the tensor, in their order; of a screen, whose scales are FP16 whatever the head's are.
PackedMatrix pack_rows_of(const Tensor& tensor, std::span<const std::int32_t> ids, WeightFormat format,
                          ThreadPool& pool) {
  const auto count = static_cast<std::int64_t>(ids.size());
  PackedMatrix matrix(format, count, tensor.shape[1]);
  pool.parallel_for(static_cast<std::size_t>(matrix.panels()), 1, [&](int, std::size_t begin, std::size_t end) {
    for (auto row = static_cast<std::int64_t>(begin) * kPanelRows;
         row < std::min(count, static_cast<std::int64_t>(end) * kPanelRows); ++row)
      matrix.pack_rows(row, to_floats(tensor.rows(ids[static_cast<std::size_t>(row)], 1)));
  });
  return matrix;
}

}  // namespace

ProposalHead::ProposalHead(const Checkpoint& target, const EngineOptions& options, const Projection& head,
                           ThreadPool& pool)
    : head_(&head) {
  const EngineOptions::ProposalHead& chosen = options.proposal_head;
  const bool shortens = chosen.shortlist > 0;
  if (!shortens && chosen.screen == HeadScreen::kNone) return;
  if (shortens) ids_ = read_shortlist(target, chosen);
  const std::string& name = head.names.front();
  const bool screens = chosen.screen != HeadScreen::kNone;
  const WeightFormat format = screens ? tare::engine::format_of(chosen.screen) : head.matrix.format();
  if (shortens && !screens) {
    own_ = Projection{copy_rows_of(head.matrix, ids_), {name}};
  } else if (shortens) {
    const Tensor tensor = target.expect(name, {head.matrix.rows(), head.matrix.columns()});
    own_ = Projection{pack_rows_of(tensor, ids_, format, pool), {name}};
  } else {
    own_ = load_projection(target, name, head.matrix.rows(), head.matrix.columns(), format, pool);
  }
  own_->names = {"drafter." + name};
}

LaunchRecord ProposalHead::op() const {
  return {"draft product " + to_text(matrix().format()), own_ ? own_->names.front() : head_->names.front(),
          matrix().bytes()};
}

void ProposalHead::account(InventoryAccount& account, std::uint64_t times) const {
  const PackedMatrix& matrix = this->matrix();
  // The target's own, read once more, or a copy.
  account.add({own_ ? own_->names.front() : head_->names.front() + " (draft)", stored_format(matrix),
               AccessPattern::kStream, own_ ? matrix.bytes() : 0, times * matrix.bytes(),
               times * element_count(matrix.rows(), matrix.columns())});
}

Json ProposalHead::description() const {
  return {{"rows", rows()}, {"weights", to_text(matrix().format())}};
}

}  // namespace tare::engine
