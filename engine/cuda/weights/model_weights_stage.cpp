#include "engine/cuda/weights/model_weights_stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "engine/cuda/device/cuda_check.h"
#include "engine/cuda/product/gate_up_rows.h"
#include "engine/cuda/product/tiles.h"
#include "engine/cuda/weights/synthetic_weights.h"
#include "engine/formats/float_formats.h"
#include "engine/formats/weight_codes.h"

namespace tare::engine {
namespace {

constexpr std::size_t kHalfBytes = std::size_t{16} << 20;  // a copy of this size runs at the bus's full rate

// Calls fill(part, first row of the part, rows, place in the run) for what rows first .. last - 1 of the stack are,
// neighbours together.
template <class Fill>
void for_rows(const StackedMatrix& matrix, std::int64_t first, std::int64_t last, const Fill& fill) {
  if (matrix.alternating) {  // as many rows of either; a run begins with a row block
    for (std::size_t i = 0; i < 2; ++i)
      fill(i, first / 2, (last - first) / 2, static_cast<std::int64_t>(i) * (last - first) / 2);
    return;
  }
  if (matrix.chosen.empty()) {
    std::int64_t offset = 0;  // of the part's first row in the stack
    for (std::size_t i = 0; i < matrix.parts.size(); ++i) {
      const std::int64_t begin = std::max(first, offset);
      const std::int64_t end = std::min(last, offset + matrix.parts[i].rows);
      if (begin < end) fill(i, begin - offset, end - begin, begin - first);
      offset += matrix.parts[i].rows;
    }
    return;
  }
  const auto row_of = [&](std::int64_t at) { return std::int64_t{matrix.chosen[static_cast<std::size_t>(at)]}; };
  for (std::int64_t begin = first; begin < last;) {
    std::int64_t end = begin + 1;
    while (end < last && row_of(end) == row_of(begin) + end - begin) ++end;
    fill(std::size_t{0}, row_of(begin), end - begin, begin - first);
    begin = end;
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
    for_rows(matrix, first, last, [&](std::size_t part, std::int64_t begin, std::int64_t count, std::int64_t place) {
      fill(sources[part], begin, count, matrix.columns, wide, rows_.data() + place * row_bytes);
    });
    use({.data = rows_.data(),
         .wide = wide,
         .first_row = first,
         .rows = last - first,
         .columns = matrix.columns,
         .alternating = matrix.alternating},
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

std::vector<float> WeightStage::tensor_scales(const StackedMatrix& matrix) {
  StackedMatrix all = matrix;
  all.chosen.clear();
  all.alternating = false;  // part after part
  const DeviceBuffer absmax(static_cast<std::size_t>(all.rows()) * sizeof(float), "largest weights of rows");
  stage(all, [&](const StagedRows& rows, std::uint64_t* fault, const CudaLaunch& launch) {
    launch_row_absmax(rows, absmax.as<float>(), fault, launch);
  });
  std::vector<float> of_rows(static_cast<std::size_t>(all.rows()));
  copy_to_host(std::as_writable_bytes(std::span(of_rows)), absmax.data());
  std::vector<float> scales;
  auto row = of_rows.begin();
  for (const StackedMatrix::Part& part : all.parts) {
    scales.push_back(tensor_scale_of(matrix.codec.format, *std::max_element(row, row + part.rows)));
    row += part.rows;
  }
  return scales;
}

std::vector<std::shared_ptr<const StoredCodes>> WeightStage::codes(const StackedMatrix& matrix) const {
  std::vector<std::shared_ptr<const StoredCodes>> codes;
  for (const StackedMatrix::Part& part : matrix.parts) {
    std::shared_ptr<const StoredCodes> stored = source_.codes(part.name);
    if (stored && stored->codec == normalized(matrix.codec)) codes.push_back(std::move(stored));
  }
  if (!codes.empty() && codes.size() != matrix.parts.size())
    throw internal_error(fmt::format("only some of what is stacked with {} is stored as codes", matrix.parts[0].name));
  return codes;
}

bool WeightStage::has_codes(const StackedMatrix& matrix) const {
  return !codes(matrix).empty();
}

std::vector<float> WeightStage::stored_scales(const StackedMatrix& matrix) const {
  std::vector<float> scales;
  for (const auto& stored : codes(matrix)) scales.push_back(stored->tensor_scale);
  return scales;
}

void WeightStage::stage_codes(const StackedMatrix& matrix, const UseCodes& use) {
  const std::vector<std::shared_ptr<const StoredCodes>> sources = codes(matrix);
  for (std::size_t i = 0; i < sources.size(); ++i)
    source_.expect_shape(matrix.parts[i].name, {matrix.parts[i].rows, matrix.columns});
  constexpr std::int64_t kAlignment = 256;
  const WeightCodec codec = sources.front()->codec;
  const std::int64_t code_bytes = packed_bytes(matrix.columns, code_bits_of(codec.format));
  const std::int64_t scale_row = scales_a_row(codec, matrix.columns) * static_cast<std::int64_t>(scale_bytes(codec));
  const std::int64_t most_rows =
      (static_cast<std::int64_t>(rows_.bytes()) - kAlignment) / (code_bytes + scale_row) / kUnitRows * kUnitRows;
  if (most_rows <= 0) throw internal_error("the staging memory is smaller than a row block");
  std::byte* const scales = rows_.data() + (most_rows * code_bytes + kAlignment - 1) / kAlignment * kAlignment;
  const auto fill_codes = [&](const StoredCodes& stored, std::int64_t begin, std::int64_t count, std::int64_t place) {
    copy(stored.codes.rows(begin, count).bytes, rows_.data() + place * code_bytes);
    copy(stored.scales.rows(begin, count).bytes, scales + place * scale_row);
  };
  const std::int64_t rows = matrix.rows();
  for (std::int64_t first = 0; first < rows; first += most_rows) {
    const std::int64_t last = std::min(rows, first + most_rows);
    for_rows(matrix, first, last, [&](std::size_t part, std::int64_t begin, std::int64_t count, std::int64_t place) {
      fill_codes(*sources[part], begin, count, place);
    });
    use({.codes = rows_.data(),
         .scales = scales,
         .first_row = first,
         .rows = last - first,
         .columns = matrix.columns,
         .alternating = matrix.alternating},
        launch());
  }
  check_cuda(cudaStreamSynchronize(stream_.get()), "loading weights");
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
  if (matrix.alternating) row = stacked_row(row, matrix.rows() / 2);
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
      // With a tensor's scale only what is not finite is at fault, and to_floats has said so.
      if (matrix.codec.format != WeightFormat::kBF16 && !has_tensor_scale(matrix.codec))
        (void)encode_weights(matrix.codec, 1, group);
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
