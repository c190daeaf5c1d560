#include "tests/cuda/gpu/attention_cases.h"

#include <algorithm>

#include "engine/backend/options.h"
#include "engine/cuda/device/ptx.cuh"
#include "engine/formats/float_formats.h"

namespace tare::engine::test {

namespace {

constexpr double kTheta = 1e7;
constexpr float kFactor = 0.125F;  // of the product's result
constexpr std::uint64_t kKeyStream = 1;
constexpr std::uint64_t kValueStream = 2;
constexpr std::uint64_t kGainStream = 3;
constexpr std::uint64_t kProjectionStream = 1000;  // and one stream a position

// A product that ends late: lets its successor start at once, spins, and only then writes what it gives.
__global__ void late_copy_kernel(const float* source, float* target, std::int64_t count) {
  constexpr long long kSpinClocks = 400'000;
  ptx::launch_dependents();
  ptx::wait_for_preceding_grid();
  const long long begin = clock64();
  while (clock64() - begin < kSpinClocks) {
  }
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    target[i] = source[i];
  }
}

struct OracleArguments {
  const double* queries;  // [token][head][dim], scaled
  const float* keys;      // [kv head][slot][dim]
  const float* values;
  const std::uint32_t* ancestors;  // of each token, bits of tokens
  double* scores;                  // [token][head][slots]
  double* out;                     // [token][head][dim]
  std::int64_t slots;
  int heads, kv_heads, head_dim, frontier;
};

// One thread block a token and head, straight from the formula.
__global__ void oracle_kernel(const __grid_constant__ OracleArguments arguments) {
  __shared__ double reduced[256];
  const int head = static_cast<int>(blockIdx.x) % arguments.heads;
  const int token = static_cast<int>(blockIdx.x) / arguments.heads;
  const int count = arguments.frontier + token + 1;
  const std::int64_t run = head / (arguments.heads / arguments.kv_heads) * arguments.slots * arguments.head_dim;
  const double* query = arguments.queries + static_cast<std::int64_t>(blockIdx.x) * arguments.head_dim;
  double* scores = arguments.scores + static_cast<std::int64_t>(blockIdx.x) * arguments.slots;
  const int thread = static_cast<int>(threadIdx.x);
  double most = -INFINITY;
  const auto sees = [&](int slot) {
    const int node = slot - arguments.frontier;
    return node < 0 || node >= kMostRoundTokens || (arguments.ancestors[token] >> node & 1U) != 0;
  };
  for (int position = thread; position < count; position += 256) {
    double dot = 0;
    for (int dim = 0; dim < arguments.head_dim; ++dim) {
      dot += query[dim] * static_cast<double>(arguments.keys[run + std::int64_t{position} * arguments.head_dim + dim]);
    }
    scores[position] = sees(position) ? dot : -INFINITY;
    most = fmax(most, scores[position]);
  }
  reduced[thread] = most;
  __syncthreads();
  for (int i = 0; i < 256; ++i) most = fmax(most, reduced[i]);
  __syncthreads();
  double sum = 0;
  for (int position = thread; position < count; position += 256) {
    scores[position] = exp(scores[position] - most);
    sum += scores[position];
  }
  reduced[thread] = sum;
  __syncthreads();
  sum = 0;
  for (int i = 0; i < 256; ++i) sum += reduced[i];
  for (int dim = thread; dim < arguments.head_dim; dim += 256) {
    double mixed = 0;
    for (int position = 0; position < count; ++position) {
      mixed += scores[position] *
               static_cast<double>(arguments.values[run + std::int64_t{position} * arguments.head_dim + dim]);
    }
    arguments.out[static_cast<std::int64_t>(blockIdx.x) * arguments.head_dim + dim] = mixed / sum;
  }
}

template <class Element>
std::vector<Element> from_device(const DeviceBuffer& buffer) {
  std::vector<Element> values(buffer.bytes() / sizeof(Element));
  copy_to_host(std::as_writable_bytes(std::span(values)), buffer.data());
  return values;
}

}  // namespace

AttentionCase::AttentionCase(const CudaAttentionShape& shape, CacheFormat key, CacheFormat value, std::int64_t capacity)
    : shape_(shape), slots_(cache_slots(capacity)), rope_(capacity, shape.rotary_dim, kTheta) {
  check_attention_shape(shape);
  const Philox gains(7, kGainStream);
  for (int dim = 0; dim < shape.head_dim; ++dim) {
    // Large query gains: the weights of a context are far from equal.
    q_norm_.push_back(static_cast<float>(0.5 + 3 * gains.uniform_at(static_cast<std::uint64_t>(dim))));
    k_norm_.push_back(static_cast<float>(0.5 + gains.uniform_at(static_cast<std::uint64_t>(1000 + dim))));
  }
  q_norm_memory_ = on_device(q_norm_);
  k_norm_memory_ = on_device(k_norm_);
  cosines_ = on_device(std::vector<float>(rope_.cosines().begin(), rope_.cosines().end()));
  sines_ = on_device(std::vector<float>(rope_.sines().begin(), rope_.sines().end()));
  cache_ = std::make_unique<CudaKeyValueCache>(shape, key, value, capacity);
  const auto fill = [&](const CacheRun& run, std::vector<std::byte>& content, std::uint64_t stream) {
    content.resize(static_cast<std::size_t>(head_bytes(run) * shape.kv_heads));
    const Philox random(7, stream);
    std::vector<float> row(static_cast<std::size_t>(shape.head_dim));
    for (int head = 0; head < shape.kv_heads; ++head) {
      for (std::int64_t slot = 0; slot < slots_; ++slot) {
        for (int dim = 0; dim < shape.head_dim; ++dim) {
          // Uniform numbers of deviation 1: a normal one costs a logarithm and a cosine.
          const auto index = static_cast<std::uint64_t>((head * slots_ + slot) * shape.head_dim + dim);
          row[static_cast<std::size_t>(dim)] = static_cast<float>(3.4641016 * (random.uniform_at(index) - 0.5));
        }
        run.encode(content.data() + head * head_bytes(run), slot, row);
      }
    }
  };
  fill(keys_run(), key_content_, kKeyStream);
  fill(values_run(), value_content_, kValueStream);
}

std::string AttentionCase::name() const {
  return to_text(cache_->key_format) + " keys, " + to_text(cache_->value_format) + " values, " +
         std::to_string(shape_.heads) + "/" + std::to_string(shape_.kv_heads) + " heads of " +
         std::to_string(shape_.head_dim);
}

void AttentionCase::reset_cache(int frontier) {
  key_initial_ = key_content_;
  value_initial_ = value_content_;
  const auto poison = [&](std::vector<std::byte>& bytes, const CacheRun& run) {
    const std::int64_t whole = cache_slots(frontier);  // from here on a head's run is contiguous in any layout
    for (int head = 0; head < shape_.kv_heads; ++head) {
      std::byte* begin = bytes.data() + head * head_bytes(run);
      for (std::int64_t slot = frontier; slot < whole; ++slot) {
        for (const std::int64_t place : run.places(slot)) begin[place] = std::byte{0xFF};
      }
      const std::int64_t from = std::min(whole, slots_) * run.row_bytes();
      std::memset(begin + from, 0xFF, static_cast<std::size_t>(head_bytes(run) - from));
    }
  };
  poison(key_initial_, keys_run());
  poison(value_initial_, values_run());
  copy_to_device(cache_->keys(), key_initial_);
  copy_to_device(cache_->values(), value_initial_);
}

void AttentionCase::corrupt_key(int kv_head, int position) {
  std::vector<std::byte> bytes(key_initial_.size());
  copy_to_host(bytes, cache_->keys());
  const CacheRun run = keys_run();
  std::byte* begin = bytes.data() + kv_head * head_bytes(run);
  std::vector<float> row;
  for (int dim = 0; dim < shape_.head_dim; ++dim) row.push_back(-run.decode(begin, position, dim));
  run.encode(begin, position, row);
  copy_to_device(cache_->keys(), bytes);
}

void AttentionCase::corrupt_scales(bool of_values, int kv_head, int position, float factor) {
  std::byte* memory = of_values ? cache_->values() : cache_->keys();
  const CacheRun run = of_values ? values_run() : keys_run();
  std::vector<std::byte> bytes((of_values ? value_initial_ : key_initial_).size());
  copy_to_host(bytes, memory);
  std::byte* begin = bytes.data() + kv_head * head_bytes(run);
  for (int block = 0; block < row_scales(run.format, run.head_dim); ++block)
    run.set_scale(begin, position, block, run.scale(begin, position, block) * factor);
  copy_to_device(memory, bytes);
}

TilePlan AttentionCase::plan() const {
  return cut_tiles(rows(), 5120, 132);
}

// The planes of a position's projections, [plane][row].
std::vector<std::vector<float>> AttentionCase::planes_of(int position) const {
  const TilePlan cut = plan();
  std::vector<std::vector<float>> planes(static_cast<std::size_t>(cut.most_planes()));
  const Philox random(7, kProjectionStream + static_cast<std::uint64_t>(position));
  std::uint64_t next = 0;
  for (auto& plane : planes) {
    plane.resize(static_cast<std::size_t>(rows()));
    for (float& value : plane) value = static_cast<float>((random.uniform_at(next++) - 0.5) * 20) * projection_scale_;
  }
  return planes;
}

std::vector<float> AttentionCase::projections(int position) const {
  const TilePlan cut = plan();
  const auto planes = planes_of(position);
  std::vector<float> values(static_cast<std::size_t>(rows()));
  for (std::size_t row = 0; row < values.size(); ++row) {
    float sum = planes[0][row];
    const int count = cut.planes(static_cast<int>(row) / 256);
    for (int plane = 1; plane < count; ++plane) sum += planes[static_cast<std::size_t>(plane)][row];
    values[row] = sum * kFactor;
  }
  return values;
}

std::vector<float> AttentionCase::floats(const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<std::byte> AttentionCase::run(int tokens, const PassOptions& options, std::size_t workspace_bytes,
                                          const std::function<void(const ProductResult&, std::byte*, const Operand&,
                                                                   const L2Fill&, const CudaLaunch&)>& launch,
                                          int frontier, int width) {
  ProductResult qkv{.rows = rows(), .width = width, .planes = options.results == Results::kPlanes, .plan = plan()};
  std::vector<float> data;
  const float not_a_number = std::nanf("");
  if (qkv.planes) {
    qkv.factor = kFactor;
    const std::int64_t stride = plane_floats(qkv.plan, width);
    data.assign(static_cast<std::size_t>(stride * qkv.plan.most_planes()), not_a_number);
    for (int token = 0; token < tokens; ++token) {
      const auto planes = planes_of(content_of(frontier, token));
      for (std::size_t plane = 0; plane < planes.size(); ++plane) {
        for (int row = 0; row < rows(); ++row) {
          data[plane * static_cast<std::size_t>(stride) + static_cast<std::size_t>(plane_place(width, row, token))] =
              planes[plane][static_cast<std::size_t>(row)];
        }
      }
    }
  } else {
    for (int token = 0; token < tokens; ++token) {
      const std::vector<float> values = projections(content_of(frontier, token));
      data.insert(data.end(), values.begin(), values.end());
    }
  }
  const DeviceBuffer source = on_device(data);
  DeviceBuffer results(source.bytes(), "a test's results");
  fill_device(results.data(), results.bytes(), 0xFF);
  qkv.data = results.as<float>();

  Operand out{.layout = options.layout, .columns = columns()};
  const bool is_rows = options.layout == OperandLayout::kFP32Rows || options.layout == OperandLayout::kBF16Rows;
  out.width = is_rows ? tokens : width;
  PoisonedBuffer memory(static_cast<std::size_t>(operand_bytes(out.layout, out.columns, out.width)));
  out.data = memory.data();
  PoisonedBuffer workspace(workspace_bytes);
  DeviceBuffer weights(options.fill ? std::size_t{1} << 20 : 0, "weights to fill");
  const L2Fill fill{weights.data(), static_cast<std::int64_t>(weights.bytes()), options.fill ? 3 : 0};
  std::vector<LaunchRecord> records;
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  if (!options.late_results) copy_to_device(results, std::span<const float>(data));
  // A copy from pageable memory may still be on its way when it returns, and this stream does not wait for it.
  synchronize();
  if (options.late_results) {
    late_copy_kernel<<<32, 256, 0, stream>>>(source.as<float>(), results.as<float>(),
                                             static_cast<std::int64_t>(data.size()));
  }
  launch(qkv, workspace.data(), out, fill,
         {.stream = stream, .programmatic = options.programmatic, .records = &records});
  synchronize();
  check_cuda(cudaStreamDestroy(stream), "cudaStreamDestroy");
  EXPECT_TRUE(memory.canaries_intact());
  EXPECT_TRUE(workspace.canaries_intact());
  EXPECT_GE(records.size(), 2U);
  return memory.read<std::byte>();
}

std::vector<std::byte> AttentionCase::run_round(int frontier, int tokens, const PassOptions& options) {
  RoundControl control;
  if (tree_) control.set_tree(*tree_);
  control.frontier = frontier;
  const DeviceBuffer control_memory = on_device(std::vector<RoundControl>{control});
  const std::int64_t bound =
      options.context_bound > 0 ? options.context_bound : attention_bound(frontier + tokens - 1, cache_->capacity);
  return run(
      tokens, options, attention_workspace_bytes(shape_, bound, tokens),
      [&](const ProductResult& qkv, std::byte* workspace, const Operand& out, const L2Fill& fill,
          const CudaLaunch& launch) {
        launch_attention_round({q_norm_memory_.as<float>(), k_norm_memory_.as<float>()},
                               {cosines_.as<float>(), sines_.as<float>()}, *cache_, qkv, tokens, bound,
                               control_memory.as<RoundControl>(), workspace, out, fill, launch);
      },
      frontier, operand_width(tokens));
}

std::vector<std::byte> AttentionCase::run_prefill(int frontier, int tokens, const PassOptions& options) {
  return run(
      tokens, options, attention_prefill_workspace_bytes(shape_, tokens),
      [&](const ProductResult& qkv, std::byte* workspace, const Operand& out, const L2Fill&, const CudaLaunch& launch) {
        launch_attention_prefill({q_norm_memory_.as<float>(), k_norm_memory_.as<float>()},
                                 {cosines_.as<float>(), sines_.as<float>()}, *cache_, qkv, tokens, frontier, workspace,
                                 out, launch);
      },
      frontier, tokens);
}

std::vector<double> AttentionCase::normed_and_rotated(const float* x, const std::vector<float>& gain,
                                                      int position) const {
  double squares = 0;
  for (int dim = 0; dim < shape_.head_dim; ++dim) squares += static_cast<double>(x[dim]) * x[dim];
  const double factor = 1 / std::sqrt(squares / shape_.head_dim + static_cast<double>(shape_.eps));
  std::vector<double> y;
  for (int dim = 0; dim < shape_.head_dim; ++dim) {
    y.push_back(x[dim] * factor * static_cast<double>(gain[static_cast<std::size_t>(dim)]));
  }
  const int half = shape_.rotary_dim / 2;
  for (int i = 0; i < half; ++i) {
    const auto at = static_cast<std::size_t>(position * half + i);
    const double cosine = rope_.cosines()[at];
    const double sine = rope_.sines()[at];
    double& low = y[static_cast<std::size_t>(i)];
    double& high = y[static_cast<std::size_t>(i + half)];
    const double first = low;
    low = first * cosine - high * sine;
    high = high * cosine + first * sine;
  }
  return y;
}

// Half a unit in the last place, and FP32 rounding before it. Of a block the unit is its scale's, which is held against
// the block's largest number.
double AttentionCase::key_error(const std::byte* run, int slot, const std::vector<double>& key, int dim) const {
  const CacheFormat format = cache_->key_format;
  const double wanted = std::abs(key[static_cast<std::size_t>(dim)]);
  constexpr double kFloat = 1e-6;
  if (!has_scales(format)) {
    const double rounding = format == CacheFormat::kFP32 ? 0 : format == CacheFormat::kBF16 ? 0x1p-8 : 0x1p-4;
    return wanted * (rounding + kFloat) + (format == CacheFormat::kFP8 ? 0x1p-10 : kFloat);
  }
  const int block = dim / scale_block(format);
  double absmax = 0;
  for (int i = block * scale_block(format); i < std::min((block + 1) * scale_block(format), shape_.head_dim); ++i)
    absmax = std::max(absmax, std::abs(key[static_cast<std::size_t>(i)]));
  const double scale = keys_run().scale(run, slot, block);
  const double ideal = absmax / (format == CacheFormat::kInt8 ? kInt8MostCode : 6);
  const double most = format == CacheFormat::kInt8 ? ideal * (0x1p-8 + kFloat) : ideal * (0x1p-4 + kFloat) + 0x1p-10;
  if (!(std::abs(scale - ideal) <= most)) return -1;
  // Codes of NVFP4 are 0.5 apart below 2, then 1 and 2: a quarter of what they are, or of 1, is the furthest.
  const double codes = format == CacheFormat::kInt8 ? 0.5 : std::max(1.0, wanted / scale) / 4;
  return scale * codes * (1 + 0x1p-6) + wanted * kFloat;
}

void AttentionCase::expect_cache(int first, int end) const {
  std::vector<std::byte> keys(key_initial_.size());
  std::vector<std::byte> values(value_initial_.size());
  copy_to_host(keys, cache_->keys());
  copy_to_host(values, cache_->values());
  std::vector<std::byte> keys_left = keys;  // with what was appended taken back
  std::vector<std::byte> values_left = values;
  std::vector<std::byte> encoded = values;
  const CacheRun key_run = keys_run();
  const CacheRun value_run = values_run();
  int wrong_keys = 0;
  int wrong_values = 0;
  for (int position = first; position < end; ++position) {
    const std::vector<float> rows = projections(content_of(first, position - first));
    for (int head = 0; head < shape_.kv_heads; ++head) {
      const auto head_dim = static_cast<std::size_t>(shape_.head_dim);
      const float* key_row = rows.data() + (2 * shape_.heads + head) * shape_.head_dim;
      const float* value_row = key_row + shape_.kv_heads * shape_.head_dim;
      const std::byte* key_begin = keys.data() + head * head_bytes(key_run);
      const std::vector<double> key = normed_and_rotated(key_row, k_norm_, position_of(first, position - first));
      for (int dim = 0; dim < shape_.head_dim; ++dim) {
        const double wanted = key[static_cast<std::size_t>(dim)];
        const double got = key_run.decode(key_begin, position, dim);
        if (!(std::abs(got - wanted) <= key_error(key_begin, position, key, dim)) && ++wrong_keys == 1) {
          ADD_FAILURE() << name() << ": key of position " << position << ", head " << head << ", dim " << dim << " is "
                        << got << ", wanted " << wanted;
        }
      }
      const std::int64_t value_begin = head * head_bytes(value_run);
      value_run.encode(encoded.data() + value_begin, position, {value_row, head_dim});
      for (const std::int64_t place : value_run.places(position)) {
        const auto at = static_cast<std::size_t>(value_begin + place);
        if (encoded[at] != values[at] && ++wrong_values == 1) {
          ADD_FAILURE() << name() << ": value of position " << position << ", head " << head << ", byte " << place
                        << " of its run is " << static_cast<int>(values[at]) << ", wanted "
                        << static_cast<int>(encoded[at]);
        }
      }
      const auto take_back = [&](const CacheRun& run, std::vector<std::byte>& left,
                                 const std::vector<std::byte>& initial) {
        for (const std::int64_t place : run.places(position)) {
          const auto at = static_cast<std::size_t>(head * head_bytes(run) + place);
          left[at] = initial[at];
        }
      };
      take_back(key_run, keys_left, key_initial_);
      take_back(value_run, values_left, value_initial_);
    }
  }
  EXPECT_EQ(wrong_keys, 0);
  EXPECT_EQ(wrong_values, 0);
  EXPECT_TRUE(keys_left == key_initial_) << name() << ": a key was written that is not of this pass";
  EXPECT_TRUE(values_left == value_initial_) << name() << ": a value was written that is not of this pass";
}

std::vector<double> AttentionCase::oracle(int frontier, int tokens) const {
  const int head_dim = shape_.head_dim;
  const auto decoded = [&](const std::byte* source, const CacheRun& run) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(head_bytes(run) * shape_.kv_heads));
    copy_to_host(bytes, source);
    std::vector<float> numbers(static_cast<std::size_t>(slots_ * head_dim * shape_.kv_heads));
    for (int head = 0; head < shape_.kv_heads; ++head) {
      const std::byte* begin = bytes.data() + head * head_bytes(run);
      for (std::int64_t slot = 0; slot < frontier + tokens; ++slot) {
        for (int dim = 0; dim < head_dim; ++dim)
          numbers[static_cast<std::size_t>((head * slots_ + slot) * head_dim + dim)] = run.decode(begin, slot, dim);
      }
    }
    return on_device(numbers);
  };
  const DeviceBuffer keys = decoded(cache_->keys(), keys_run());
  const DeviceBuffer values = decoded(cache_->values(), values_run());
  std::vector<double> queries;
  std::vector<double> gates;
  const double scale = 1 / std::sqrt(static_cast<double>(head_dim));
  for (int token = 0; token < tokens; ++token) {
    const std::vector<float> rows = projections(content_of(frontier, token));
    for (int head = 0; head < shape_.heads; ++head) {
      const float* row = rows.data() + 2 * head * head_dim;
      for (const double number : normed_and_rotated(row, q_norm_, position_of(frontier, token))) {
        queries.push_back(number * scale);
      }
      for (int dim = 0; dim < head_dim; ++dim) {
        gates.push_back(1 / (1 + std::exp(-static_cast<double>(row[head_dim + dim]))));
      }
    }
  }
  // Of a prefill chunk longer than a round every token sees what is before it.
  std::vector<std::uint32_t> ancestors(static_cast<std::size_t>(tokens), ~0U);
  if (tokens <= kMostRoundTokens) {
    RoundControl control;
    if (tree_) control.set_tree(*tree_);
    std::copy_n(control.ancestors, tokens, ancestors.begin());
  }
  const DeviceBuffer ancestor_memory = on_device(ancestors);
  const DeviceBuffer query_memory = on_device(queries);
  const DeviceBuffer scores(static_cast<std::size_t>(tokens * shape_.heads * slots_) * sizeof(double), "oracle scores");
  const DeviceBuffer out(queries.size() * sizeof(double), "oracle rows");
  oracle_kernel<<<static_cast<unsigned>(tokens * shape_.heads), 256>>>(
      {.queries = query_memory.as<double>(),
       .keys = keys.as<float>(),
       .values = values.as<float>(),
       .ancestors = ancestor_memory.as<std::uint32_t>(),
       .scores = scores.as<double>(),
       .out = out.as<double>(),
       .slots = slots_,
       .heads = shape_.heads,
       .kv_heads = shape_.kv_heads,
       .head_dim = head_dim,
       .frontier = frontier});
  synchronize();
  std::vector<double> mixed = from_device<double>(out);
  for (std::size_t i = 0; i < mixed.size(); ++i) mixed[i] *= gates[i];
  return mixed;
}

WorstToken worst_token(const std::vector<float>& got, const std::vector<double>& wanted, std::int64_t columns) {
  WorstToken worst;
  const auto width = static_cast<std::size_t>(columns);
  for (std::size_t token = 0; token < wanted.size() / width; ++token) {
    const std::vector<double> row(got.begin() + static_cast<std::ptrdiff_t>(token * width),
                                  got.begin() + static_cast<std::ptrdiff_t>((token + 1) * width));
    const std::span<const double> aim(wanted.data() + token * width, width);
    const double error = relative_error(row, aim);
    if (error <= worst.error) continue;  // a NaN goes on
    worst.error = error;
    worst.token = static_cast<int>(token);
    double most = -1;
    for (std::size_t i = 0; i < width; ++i) {
      const double difference = std::abs(row[i] - aim[i]);
      if (difference <= most) continue;
      most = difference;
      worst.column = static_cast<int>(i);
      if (std::isnan(difference)) break;
    }
    if (std::isnan(error)) break;
  }
  return worst;
}

}  // namespace tare::engine::test
