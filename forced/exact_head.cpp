#include "forced/exact_head.h"

#include <fmt/format.h>

#include <vector>

#include "base/error.h"
#include "forced/score_kernels.h"

namespace tare::forced {
namespace {

constexpr std::size_t kVocabularyGrain = 64;  // rows of the head a piece: 32 KB of a hidden size of 256, in L1 or L2

}  // namespace

ExactHead::ExactHead(const engine::Checkpoint& checkpoint)
    : vocab_size_(checkpoint.config().vocab_size), hidden_size_(checkpoint.config().hidden_size) {
  const char* name = checkpoint.config().tie_word_embeddings ? "embed_tokens.weight" : "lm_head.weight";
  weight_ = checkpoint.expect(name, {vocab_size_, hidden_size_});
  if (weight_.dtype != engine::Dtype::kBF16)
    throw input_error(name, fmt::format("is {}, an exact head is BF16", engine::dtype_name(weight_.dtype)));
}

void ExactHead::apply(ThreadPool& pool, std::span<const float> hidden, std::span<float> logits) const {
  const std::int64_t rows = static_cast<std::int64_t>(hidden.size()) / hidden_size_;
  if (static_cast<std::int64_t>(hidden.size()) != rows * hidden_size_ ||
      static_cast<std::int64_t>(logits.size()) != rows * vocab_size_)
    throw internal_error("exact head: hidden states or logits have another shape");
  const std::vector<double> wide(hidden.begin(), hidden.end());
  const auto* weight = reinterpret_cast<const std::uint16_t*>(weight_.bytes.data());
  pool.parallel_for(
      static_cast<std::size_t>(vocab_size_), kVocabularyGrain, [&](int, std::size_t begin, std::size_t end) {
        multiply_bf16(wide.data(), rows, weight + begin * static_cast<std::size_t>(hidden_size_),
                      static_cast<std::int64_t>(end - begin), hidden_size_, logits.data() + begin, vocab_size_);
      });
}

}  // namespace tare::forced
