#include "engine/cpu/pass_loops.h"

#include <algorithm>
#include <atomic>

#include "engine/formats/float_formats.h"

namespace tare::engine {

void PassLoops::for_rows(std::int64_t count, const std::function<void(std::int64_t)>& body) const {
  if (count == 1) return body(0);  // not worth a hand-over
  pool_.parallel_for(static_cast<std::size_t>(count), 1, [&body](int, std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) body(static_cast<std::int64_t>(row));
  });
}

void PassLoops::embed(const std::uint16_t* table, std::int64_t size, std::span<const std::int32_t> tokens,
                      RowBuffer& out) const {
  for_rows(static_cast<std::int64_t>(tokens.size()), [&](std::int64_t row) {
    const std::uint16_t* entry = table + tokens[static_cast<std::size_t>(row)] * size;
    std::transform(entry, entry + size, out.row(row), bfloat16_to_float);
  });
}

void PassLoops::norm(const RowBuffer& x, const float* gain, std::int64_t size, float eps, std::int64_t count,
                     InputRows& out) const {
  for_rows(count, [&](std::int64_t row) {
    kernels_.vectors.rms_norm(x.row(row), gain, size, eps, out.row(row));
    out.quantize(row, kernels_.vectors);
  });
}

void PassLoops::multiply(std::span<const Product> products, const ActivationRows& input) const {
  std::int64_t panels = 0;
  for (const Product& product : products) panels += product.matrix->panels();
  pool_.parallel_for(static_cast<std::size_t>(panels), 1, [&](int, std::size_t begin, std::size_t end) {
    std::int64_t offset = 0;
    for (const Product& product : products) {
      const std::int64_t first = std::max(static_cast<std::int64_t>(begin) - offset, std::int64_t{0});
      const std::int64_t last = std::min(static_cast<std::int64_t>(end) - offset, product.matrix->panels());
      if (first < last)
        kernels_.multiply_panels(*product.matrix, first, last, input, product.out->data(), product.out->stride());
      offset += product.matrix->panels();
    }
  });
}

void PassLoops::multiply_into(RowBuffer& x, const PackedMatrix& matrix, const ActivationRows& input,
                              RowBuffer& increment) const {
  pool_.parallel_for(static_cast<std::size_t>(matrix.panels()), 1, [&](int, std::size_t begin, std::size_t end) {
    const auto first = static_cast<std::int64_t>(begin);
    const auto last = static_cast<std::int64_t>(end);
    kernels_.multiply_panels(matrix, first, last, input, increment.data(), increment.stride());
    for (std::int64_t row = 0; row < input.tokens; ++row)
      kernels_.vectors.add(x.row(row) + first * kPanelRows, increment.row(row) + first * kPanelRows,
                           (last - first) * kPanelRows);
  });
}

void PassLoops::multiply_gated(const PackedMatrix& gate, const PackedMatrix& up, const ActivationRows& input,
                               RowBuffer& gate_out, RowBuffer& up_out, InputRows& out) const {
  // Shares are whole blocks of 64 rows, so that each thread can also encode what it made.
  constexpr std::size_t kGrain = kRowPadding / kPanelRows;
  pool_.parallel_for(static_cast<std::size_t>(gate.panels()), kGrain, [&](int, std::size_t begin, std::size_t end) {
    for (auto panel = static_cast<std::int64_t>(begin); panel < static_cast<std::int64_t>(end); ++panel) {
      kernels_.multiply_panels(gate, panel, panel + 1, input, gate_out.data(), gate_out.stride());
      kernels_.multiply_panels(up, panel, panel + 1, input, up_out.data(), up_out.stride());
    }
    const std::int64_t first = static_cast<std::int64_t>(begin) * kPanelRows;
    const std::int64_t last = static_cast<std::int64_t>(end) * kPanelRows;
    for (std::int64_t row = 0; row < input.tokens; ++row) {
      kernels_.vectors.silu_product(gate_out.row(row) + first, up_out.row(row) + first, last - first,
                                    out.row(row) + first);
      out.quantize(row, first, round_up(last, kRowPadding), kernels_.vectors);
    }
  });
}

std::int64_t PassLoops::logits(const PackedMatrix& head, const ActivationRows& input, RowBuffer& padded,
                               float* out) const {
  const std::int64_t vocab = head.rows();
  const std::int64_t count = input.tokens;
  const bool whole_panels = vocab % kPanelRows == 0;
  if (!whole_panels) padded.reserve(count);
  float* target = whole_panels ? out : padded.data();
  const std::int64_t stride = whole_panels ? vocab : padded.stride();

  std::atomic<std::int64_t> first_fault{count};
  pool_.parallel_for(static_cast<std::size_t>(head.panels()), 1,
                     [&](int, std::size_t share_begin, std::size_t share_end) {
                       const auto first = static_cast<std::int64_t>(share_begin);
                       const auto last = static_cast<std::int64_t>(share_end);
                       kernels_.multiply_panels(head, first, last, input, target, stride);
                       const std::int64_t first_row = first * kPanelRows;
                       const std::int64_t row_count = std::min(last * kPanelRows, vocab) - first_row;
                       for (std::int64_t token = 0; token < count; ++token) {
                         const float* made = target + token * stride + first_row;
                         if (!kernels_.vectors.all_finite(made, row_count)) {
                           std::int64_t known = first_fault.load();
                           while (token < known && !first_fault.compare_exchange_weak(known, token)) {
                           }
                         }
                         if (!whole_panels) std::copy_n(made, row_count, out + token * vocab + first_row);
                       }
                     });
  return first_fault == count ? -1 : first_fault.load();
}

}  // namespace tare::engine
