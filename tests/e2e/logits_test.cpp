// `tare logits` against what transformers computed (tests/fixtures/README.md), and the embedded model likewise.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "engine/checkpoint/safetensors.h"
#include "tests/e2e/workspace.h"

namespace tare::e2e {
namespace {

using LogitsCommand = Workspace;

const std::vector<std::string> kExact = {"--set", "kv.key=fp32", "--set", "kv.value=fp32"};

std::vector<float> floats(const engine::SafetensorsFile& file, const std::string& name) {
  return engine::to_floats(file.tensor(name));
}

double largest_difference(const std::vector<float>& wanted, const std::vector<float>& got) {
  if (wanted.size() != got.size()) return INFINITY;
  double largest = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(wanted[i]) - static_cast<double>(got[i])));
  return largest;
}

TEST_F(LogitsCommand, WritesLogitsAndHiddenStatesUnderTheGoldensNames) {
  const std::string golden = source("tests/fixtures/hybrid-headdim256/golden-97.safetensors");
  std::vector<std::string> argv = {tare(),     "logits",          "--model", source("tests/fixtures/hybrid-headdim256"),
                                   "--tokens", "ids.safetensors", "--out",   "out.safetensors",
                                   "--hidden"};
  argv.insert(argv.end(), kExact.begin(), kExact.end());
  const engine::SafetensorsFile wanted(golden);
  // The goldens' own ids, as I32 under the name the command reads.
  const engine::Tensor ids = wanted.tensor("input_ids");
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(ids.element_count()));
  for (std::size_t i = 0; i < tokens.size(); ++i)
    std::memcpy(&tokens[i], ids.bytes.data() + i * engine::dtype_bytes(ids.dtype), sizeof tokens[i]);
  engine::Tensor input;
  input.name = "input_ids";
  input.dtype = engine::Dtype::kI32;
  input.shape = {static_cast<std::int64_t>(tokens.size())};
  input.bytes = std::as_bytes(std::span(tokens));
  engine::write_safetensors(folder_ / "ids.safetensors", std::vector{input}, {});

  const Finished result = run(argv, folder_);
  ASSERT_EQ(result.code, 0) << result.err;
  const engine::SafetensorsFile got(folder_ / "out.safetensors");
  EXPECT_LT(largest_difference(floats(wanted, "logits"), floats(got, "logits")), 3e-5);
  for (int i = 0; i <= 4; ++i) {
    const std::string name = "hidden." + std::to_string(i);
    EXPECT_LT(largest_difference(floats(wanted, name), floats(got, name)), 3e-5) << name;
  }
}

// Tolerance: the two programs sum in other orders; 1.6e-5 was seen where the largest logit is 25.
TEST_F(LogitsCommand, OfTheEmbeddedModelEqualTransformers) {
  const engine::SafetensorsFile wanted(source("tests/fixtures/embedded/golden-48.safetensors"));
  std::vector<std::string> argv = {tare(),     "logits",
                                   "--model",  source("models/embedded"),
                                   "--tokens", source("tests/fixtures/embedded/golden-48.safetensors"),
                                   "--out",    "out.safetensors"};
  argv.insert(argv.end(), kExact.begin(), kExact.end());
  const Finished result = run(argv, folder_);
  ASSERT_EQ(result.code, 0) << result.err;
  const std::vector<float> last = floats(wanted, "logits");  // of the last eight positions
  const std::vector<float> all = floats(engine::SafetensorsFile(folder_ / "out.safetensors"), "logits");
  ASSERT_GE(all.size(), last.size());
  EXPECT_LT(largest_difference(last, {all.end() - static_cast<std::ptrdiff_t>(last.size()), all.end()}), 1e-4);
}

}  // namespace
}  // namespace tare::e2e
