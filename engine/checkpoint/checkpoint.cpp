#include "engine/checkpoint/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "engine/checkpoint/hugging_face.h"
#include "engine/checkpoint/synthetic.h"

namespace tare::engine {

namespace {

void check_shape(const std::string& name, const std::vector<std::int64_t>& found,
                 const std::vector<std::int64_t>& wanted) {
  if (found != wanted)
    throw input_error(fmt::format("tensor '{}'", name), fmt::format("has shape [{}], the model needs [{}]",
                                                                    fmt::join(found, ", "), fmt::join(wanted, ", ")));
}

}  // namespace

Tensor TensorSource::expect(const std::string& name, const std::vector<std::int64_t>& shape) const {
  Tensor found = tensor(name);
  check_shape(name, found.shape, shape);
  return found;
}

void TensorSource::expect_shape(const std::string& name, const std::vector<std::int64_t>& shape) const {
  check_shape(name, this->shape(name), shape);
}

std::unique_ptr<Checkpoint> open_checkpoint(const std::string& model) {
  if (is_synthetic(model)) return std::make_unique<SyntheticCheckpoint>(model);
  if (!std::filesystem::is_directory(model))
    throw input_error(model, "is not a model directory",
                      "a model is a directory with config.json and *.safetensors, or synthetic:NAME?seed=S");
  return std::make_unique<HuggingFaceCheckpoint>(model);
}

}  // namespace tare::engine
