#include "engine/cuda/weights/model_weights_stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "engine/cuda/device/cuda_check.h"
#include "engine/cuda/product/tiles.h"
#include "engine/cuda/weights/synthetic_weights.h"
#include "engine/formats/float_formats.h"
#include "engine/formats/weight_groups.h"

namespace tare::engine {
namespace {

constexpr std::size_t kHalfBytes = std::size_t{16} << 20;  // a copy of this size runs at the bus's full rate

// Throws what the host's encoder throws for the group.
void encode_on_host(WeightFormat format, std::span<const float> group) {
  std::array<std::int8_t, kGroupSize> codes{};
  std::array<std::uint8_t, kGroupSize> bytes{};
  switch (format) {
    case WeightFormat::kBF16:
    case WeightFormat::kQ5:
    case WeightFormat::kNVFP4:
      return;
    case WeightFormat::kQ8:
      encode_group(group, kQ8MostCode, std::span(codes).first(group.size()));
      return;
    case WeightFormat::kQ4:
      encode_group(group, kQ4MostCode, std::span(codes).first(group.size()));
      return;
    case WeightFormat::kQ3:
      encode_group(group, kQ3MostCode, std::span(codes).first(group.size()));
      return;
    case WeightFormat::kFP8:
      encode_fp8_group(group, std::span(bytes).first(group.size()));
      return;
  }
}

}  // namespace

WeightStage::WeightStage(const TensorSource& source, std::uint64_t bytes)
    : source_(source),
      synthetic_(dynamic_cast<const SyntheticRecipes*>(&source)),
      rows_(bytes, "staging of weights"),
      fault_(sizeof(std::uint64_t), "staging of weights") {
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  stream_.reset(stream);
  if (synthetic_ != nullptr) return;
  for (Half& half : halves_) {
    void* pinned = nullptr;
    check_cuda(cudaMallocHost(&pinned, kHalfBytes), "cudaMallocHost");
    half.data.reset(static_cast<std::byte*>(pinned));
    cudaEvent_t event = nullptr;
    check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    half.free.reset(event);
  }
}

WeightStage::~WeightStage() {
  (void)cudaStreamSynchronize(stream_.get());  // an error may have left copies under way
}

CudaLaunch WeightStage::launch() const {
  CudaLaunch launch;
  launch.stream = stream_.get();
  return launch;
}

std::vector<WeightStage::Source> WeightStage::open(const StackedMatrix& matrix) const {
  std::vector<Source> sources;
  for (const StackedMatrix::Part& part : matrix.parts) {
    const std::vector<std::int64_t> shape = {part.rows, matrix.columns};
    if (synthetic_ != nullptr) {
      source_.expect_shape(part.name, shape);
      sources.push_back({{}, synthetic_->recipe(part.name)});
    } else {
      sources.push_back({source_.expect(part.name, shape), {}});
    }
  }
  return sources;
}

void WeightStage::stage(const StackedMatrix& matrix, const Use& use) {
  const std::vector<Source> sources = open(matrix);
  const bool wide = synthetic_ == nullptr && std::any_of(sources.begin(), sources.end(), [](const Source& source) {
                      return source.tensor.dtype != Dtype::kBF16;
                    });
  const std::int64_t row_bytes = matrix.columns * static_cast<std::int64_t>(wide ? sizeof(float) : 2);
  const std::int64_t most_rows = static_cast<std::int64_t>(rows_.bytes()) / row_bytes / kUnitRows * kUnitRows;
  if (most_rows == 0) throw internal_error("the staging memory is smaller than a row block");
  check_cuda(cudaMemsetAsync(fault_.data(), 0xFF, fault_.bytes(), stream_.get()), "cudaMemsetAsync");  // kNoFault
  const std::int64_t rows = matrix.rows();
  for (std::int64_t first = 0; first < rows; first += most_rows) {
    const std::int64_t last = std::min(rows, first + most_rows);
    std::int64_t offset = 0;  // of the part's first row in the stack
    if (!matrix.chosen.empty()) fill_chosen(sources.front(), matrix, first, last, wide);
    for (std::size_t i = 0; i < sources.size() && matrix.chosen.empty(); ++i) {
      const std::int64_t begin = std::max(first, offset);
      const std::int64_t end = std::min(last, offset + matrix.parts[i].rows);
      if (begin < end) {
        fill(sources[i], begin - offset, end - begin, matrix.columns, wide, rows_.data() + (begin - first) * row_bytes);
      }
      offset += matrix.parts[i].rows;
    }
    use({.data = rows_.data(), .wide = wide, .first_row = first, .rows = last - first, .columns = matrix.columns},
        fault_.as<std::uint64_t>(), launch());
  }
  std::uint64_t fault = 0;
  check_cuda(cudaMemcpyAsync(&fault, fault_.data(), sizeof fault, cudaMemcpyDeviceToHost, stream_.get()),
             "cudaMemcpyAsync");
  check_cuda(cudaStreamSynchronize(stream_.get()), "loading weights");
  if (fault != kNoFault) explain(matrix, fault);
}

// Rows begin .. begin + count - 1 of a part to `target` on the device.
void WeightStage::fill(const Source& source, std::int64_t begin, std::int64_t count, std::int64_t columns, bool wide,
                       std::byte* target) {
  if (synthetic_ != nullptr) {
    launch_synthetic_weights(source.recipe, static_cast<std::uint64_t>(begin * columns),
                             static_cast<std::uint64_t>(count * columns), reinterpret_cast<std::uint16_t*>(target),
                             launch());
    return;
  }
  if (!wide) {
    copy(source.tensor.rows(begin, count).bytes, target);
    return;
  }
  const std::int64_t row_bytes = columns * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t rows_at_once = std::max<std::int64_t>(1, static_cast<std::int64_t>(kHalfBytes) / row_bytes);
  for (std::int64_t row = 0; row < count; row += rows_at_once) {
    const std::vector<float> values = to_floats(source.tensor.rows(begin + row, std::min(rows_at_once, count - row)));
    copy(std::as_bytes(std::span(values)), target + row * row_bytes);
  }
}

// Rows first .. last - 1 of the chosen, neighbours together.
void WeightStage::fill_chosen(const Source& source, const StackedMatrix& matrix, std::int64_t first, std::int64_t last,
                              bool wide) {
  const std::int64_t row_bytes = matrix.columns * static_cast<std::int64_t>(wide ? sizeof(float) : 2);
  const auto row_of = [&](std::int64_t at) { return std::int64_t{matrix.chosen[static_cast<std::size_t>(at)]}; };
  for (std::int64_t begin = first; begin < last;) {
    std::int64_t end = begin + 1;
    while (end < last && row_of(end) == row_of(begin) + end - begin) ++end;
    fill(source, row_of(begin), end - begin, matrix.columns, wide, rows_.data() + (begin - first) * row_bytes);
    begin = end;
  }
}

void WeightStage::copy(std::span<const std::byte> bytes, std::byte* target) {
  while (!bytes.empty()) {
    const std::span<const std::byte> piece = bytes.first(std::min(bytes.size(), kHalfBytes));
    const Half& half = halves_[next_half_];
    next_half_ = 1 - next_half_;
    check_cuda(cudaEventSynchronize(half.free.get()), "cudaEventSynchronize");
    std::memcpy(half.data.get(), piece.data(), piece.size());
    check_cuda(cudaMemcpyAsync(target, half.data.get(), piece.size(), cudaMemcpyHostToDevice, stream_.get()),
               "cudaMemcpyAsync");
    check_cuda(cudaEventRecord(half.free.get(), stream_.get()), "cudaEventRecord");
    target += piece.size();
    bytes = bytes.subspan(piece.size());
  }
}

// The device says where; the host's own reading and encoding of that row says what, in the same words as the CPU's.
void WeightStage::explain(const StackedMatrix& matrix, std::uint64_t fault) const {
  std::int64_t row = static_cast<std::int64_t>(fault) / matrix.columns;
  if (!matrix.chosen.empty()) row = matrix.chosen[static_cast<std::size_t>(row)];
  const std::int64_t column = static_cast<std::int64_t>(fault) % matrix.columns / kGroupSize * kGroupSize;
  for (const StackedMatrix::Part& part : matrix.parts) {
    if (row >= part.rows) {
      row -= part.rows;
      continue;
    }
    const std::vector<float> values = to_floats(source_.tensor(part.name).rows(row, 1));
    const std::span<const float> group = std::span(values).subspan(
        static_cast<std::size_t>(column), static_cast<std::size_t>(std::min(kGroupSize, matrix.columns - column)));
    const auto largest =
        std::max_element(group.begin(), group.end(), [](float a, float b) { return std::fabs(a) < std::fabs(b); });
    try {
      encode_on_host(matrix.format, group);
    } catch (const Error& error) {
      throw error.within(
          fmt::format("tensor '{}', element {}", part.name, row * matrix.columns + column + (largest - group.begin())));
    }
    break;
  }
  throw internal_error(fmt::format("the device reports element {} of {}, and the host finds nothing wrong with it",
                                   fault, matrix.parts.front().name));
}

}  // namespace tare::engine
