// The steps that every pass over rows is made of, each one loop over threads: shared by the target's pass and by the
// drafters'. Rows are independent: what a row gets does not depend on how many share the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/thread_pool.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/packed_matrix.h"
#include "engine/cpu/row_buffer.h"

namespace tare::engine {

struct Product {
  const PackedMatrix* matrix;
  RowBuffer* out;  // with room for the input's rows
};

class PassLoops {
 public:
  PassLoops(const Kernels& kernels, ThreadPool& pool) : kernels_(kernels), pool_(pool) {}

  // body(row) for rows 0..count-1.
  void for_rows(std::int64_t count, const std::function<void(std::int64_t)>& body) const;
  // Row i of `out` becomes row tokens[i] of the BF16 table [., size].
  void embed(const std::uint16_t* table, std::int64_t size, std::span<const std::int32_t> tokens, RowBuffer& out) const;
  // out = norm of x with that gain, encoded for products.
  void norm(const RowBuffer& x, const float* gain, std::int64_t size, float eps, std::int64_t count,
            InputRows& out) const;
  // Products of one input.
  void multiply(std::span<const Product> products, const ActivationRows& input) const;
  // x += matrix input; `increment` is work space with room for the rows.
  void multiply_into(RowBuffer& x, const PackedMatrix& matrix, const ActivationRows& input, RowBuffer& increment) const;
  // out = silu(gate input) * (up input), encoded for products; gate_out and up_out are work space.
  void multiply_gated(const PackedMatrix& gate, const PackedMatrix& up, const ActivationRows& input,
                      RowBuffer& gate_out, RowBuffer& up_out, InputRows& out) const;
  // Logits of the rows into out [rows, vocab], vocab the matrix's rows; `padded` is work space for a vocabulary that is
  // not whole panels. Returns the first row whose logits are not finite, or -1.
  std::int64_t logits(const PackedMatrix& head, const ActivationRows& input, RowBuffer& padded, float* out) const;

 private:
  const Kernels& kernels_;
  ThreadPool& pool_;
};

}  // namespace tare::engine
