// Ops of the CPU backend on the embedded model: their bytes, their times, what recording them costs, and that a
// handicap is found where it was put.
#include "profiles/timeline/op_collector.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/cpu/cpu_backend.h"
#include "profiles/decode_rounds.h"
#include "profiles/round_profile.h"
#include "profiles/timeline/timeline.h"
#include "stats/quantiles.h"
#include "tests/engine/decode_fake_backend.h"

namespace tare::profiles {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr double kHalf = 0.5;
constexpr double kUsPerNs = 1e-3;

std::unique_ptr<engine::Backend> embedded(const std::vector<std::string>& assignments = {}) {
  engine::EngineOptions options;
  for (const std::string& assignment : assignments) engine::apply_option(options, assignment);
  const auto checkpoint = engine::open_checkpoint(std::string(TARE_SOURCE_DIR) + "/models/embedded");
  return engine::make_cpu_backend(*checkpoint, options);
}

// One thread, so that no other process of the machine holds up a loop over threads.
std::unique_ptr<engine::Backend> embedded_on_one_thread() {
  return embedded({"cpu.threads=1", "weights.format=q4", "context=4096"});
}

std::vector<std::int32_t> tokens(std::int64_t count) {
  std::vector<std::int32_t> result;
  for (std::int64_t i = 0; i < count; ++i) result.push_back(static_cast<std::int32_t>(1 + i * 37 % 4000));
  return result;
}

// --- bytes

// The part whose op reads a tensor: several tensors go with one op.
std::string part_of(std::string tensor) {
  tensor = tensor.substr(0, tensor.find(" + "));  // stacked: by the first
  static const std::vector<std::pair<std::string, std::string>> kReaders = {
      {"linear_attn.in_proj_z.weight", "linear_attn.in_proj_qkv.weight"},
      {"linear_attn.in_proj_b.weight", "linear_attn.in_proj_qkv.weight"},
      {"linear_attn.conv1d.weight", "linear_attn"},
      {"linear_attn.A_log", "linear_attn"},
      {"linear_attn.dt_bias", "linear_attn"},
      {"linear_attn.norm.weight", "linear_attn"},
      {"recurrent state", "linear_attn"},
      {"convolution columns", "linear_attn"},
      {"self_attn.k_proj.weight", "self_attn.q_proj.weight"},
      {"self_attn.v_proj.weight", "self_attn.q_proj.weight"},
      {"self_attn.q_norm.weight", "self_attn"},
      {"self_attn.k_norm.weight", "self_attn"},
      {"kv cache", "self_attn"},
      {"mlp.up_proj.weight", "mlp.gate_proj.weight"}};
  for (const auto& [from, to] : kReaders)
    if (tensor.ends_with(from)) return tensor.substr(0, tensor.size() - from.size()) + to;
  return tensor;
}

using BytesByPart = std::map<std::string, std::uint64_t>;

BytesByPart bytes_by_part(const engine::WeightInventory& inventory) {
  BytesByPart bytes;
  for (const engine::InventoryEntry& entry : inventory.entries)
    if (entry.bytes_per_round > 0) bytes[part_of(entry.tensor)] += entry.bytes_per_round;
  return bytes;
}

BytesByPart bytes_by_part(const KernelRecords& records) {
  BytesByPart bytes;
  for (const RecordLabel& label : records.labels)
    if (label.bytes > 0) bytes[records.launches[label.launch].part] += label.bytes;
  return bytes;
}

// One round of `width` tokens after `context`.
KernelRecords one_round(engine::Backend& backend, std::int64_t context, std::int64_t width) {
  const auto collector = make_op_collector(backend);
  backend.reset();
  (void)backend.prefill(tokens(context));
  collector->start();
  (void)backend.verify(tokens(width));
  backend.commit(static_cast<int>(width));
  return collector->take();
}

TEST(OpCollector, EveryByteOfTheInventoryIsOfSomeOp) {
  const std::vector<std::vector<std::string>> settings = {
      {}, {"weights.format=q4", "gdn.form=chunked"}, {"weights.format=q8", "kv.key=bf16", "state.convolution=bf16"}};
  for (const std::vector<std::string>& assignments : settings) {
    const auto backend = embedded(assignments);
    for (const auto& [context, width] : {std::pair(1, 1), std::pair(70, 1), std::pair(61, 16)}) {
      const BytesByPart declared = bytes_by_part(one_round(*backend, context, width));
      EXPECT_EQ(declared, bytes_by_part(backend->inventory(context, width)))
          << testing::PrintToString(assignments) << ", " << context << " and " << width << " tokens";
      EXPECT_GT(declared.at("layers.3.self_attn"), 0U);
    }
    // The comparison sees a byte too many, and a context too short.
    engine::WeightInventory other = backend->inventory(70, 1);
    const BytesByPart declared = bytes_by_part(one_round(*backend, 70, 1));
    ++other.entries[5].bytes_per_round;
    EXPECT_NE(declared, bytes_by_part(other));
    EXPECT_NE(declared, bytes_by_part(backend->inventory(69, 1)));
  }
}

// --- records

TEST(OpCollector, RecordsOpsInOrderAndNoneWhenItIsOff) {
  const auto backend = embedded_on_one_thread();
  {
    const auto collector = make_op_collector(*backend);
    (void)backend->prefill(tokens(4));
    EXPECT_THAT(collector->take().records, IsEmpty());  // not started
    collector->start();
    (void)backend->verify(tokens(1));
    backend->commit(1);
    const KernelRecords round = collector->take();
    ASSERT_EQ(round.records.size(), round.labels.size());
    // 8 layers of 7 ops and embedding, norm, head, greedy token; 6 commits.
    EXPECT_EQ(round.records.size(), 8U * 7 + 4 + 6);
    EXPECT_EQ(round.launches.front().part, "embed_tokens.weight");
    EXPECT_EQ(round.launches[round.labels.back().launch].name, "gdn_commit");
    for (std::size_t i = 0; i < round.records.size(); ++i) {
      EXPECT_LE(round.records[i].start_ns, round.records[i].end_ns);
      if (i > 0) {
        EXPECT_LE(round.records[i - 1].end_ns, round.records[i].start_ns);
      }
    }
    EXPECT_TRUE(collector->pause());
    (void)backend->prefill(tokens(4));
    EXPECT_THAT(collector->take().records, IsEmpty());
    collector->start();
  }
  (void)backend->prefill(tokens(4));  // and nobody is told when the collector is gone
}

TEST(OpCollector, ChangesNoBit) {
  const auto backend = embedded({"weights.format=q4"});
  const auto logits = [&] {
    backend->reset();
    (void)backend->prefill(tokens(20));
    const engine::VerifyOutput output = backend->verify(tokens(3));
    return std::vector<float>(output.logits.begin(), output.logits.end());
  };
  const std::vector<float> without = logits();
  const auto collector = make_op_collector(*backend);
  collector->start();
  EXPECT_EQ(logits(), without);
}

TEST(OpCollector, CountsWhatItHasNoRoomForAndIsRefusedThen) {
  const auto backend = embedded_on_one_thread();
  const auto collector = make_op_collector(*backend, 10);
  collector->start();
  (void)backend->verify(tokens(1));
  KernelRecords records = collector->take();
  EXPECT_EQ(records.records.size(), 10U);
  EXPECT_GT(records.dropped, 40U);
  EXPECT_THROW((void)split_rounds(records, 1), Error);
  (void)backend->verify(tokens(1));
  EXPECT_EQ(collector->take().records.size(), 10U);  // there is room again
}

TEST(OpCollector, RefusesABackendThatTellsNoOps) {
  engine::FakeBackend backend(50, 200);
  try {
    (void)make_op_collector(backend);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_THAT(error.what(), HasSubstr("tells no ops"));
  }
}

// --- profiles

RoundProfile profile(engine::Backend& backend, std::int64_t rounds) {
  return profile_rounds(backend, {.context = 64, .rounds = rounds, .alternate = true},
                        [&] { return make_op_collector(backend); });
}

TEST(OpProfile, OpsAndGapsAddUpToTheRound) {
  const auto backend = embedded_on_one_thread();
  const RoundProfile result = profile(*backend, 100);
  EXPECT_TRUE(result.of_ops);
  EXPECT_EQ(result.unmatched, "");
  EXPECT_EQ(result.timed_us.size(), 100U);
  double rows_us = 0;
  double bytes = 0;
  for (const KernelRow& row : result.rows) {
    rows_us += row.us;
    bytes += row.declared_bytes;
    EXPECT_NEAR(row.us, row.duration_us, 1e-6);  // nothing overlaps
  }
  EXPECT_NEAR(rows_us + result.idle_us, result.span_us, 1e-6 * result.span_us);
  // A round's ops take 95 % of it at least, and never more than it, by the clock around it.
  std::vector<double> shares;
  for (std::size_t r = 0; r < result.rounds.size(); ++r) {
    const Timeline timeline = make_timeline(result.rounds[r]);
    EXPECT_LE(static_cast<double>(timeline.span_ns) * kUsPerNs, result.profiled_us[r] + 1e-3);
    shares.push_back(static_cast<double>(timeline.busy_ns) * kUsPerNs / result.profiled_us[r]);
  }
  EXPECT_GT(stats::quantile(shares, kHalf), 0.95);
  // Profiled rounds stand at every second context: warm rounds, then a timed one before each.
  double expected = 0;
  for (std::int64_t r = 0; r < 100; ++r)
    expected += static_cast<double>(backend->inventory(result.first_context + 2 * r + 1, 1).bytes_per_round());
  EXPECT_NEAR(bytes, expected / 100, 1);
}

TEST(OpProfile, IsDrawnAsOpsOfTheCpu) {
  const auto backend = embedded_on_one_thread();
  const std::vector<TraceTrack> tracks = profile_tracks(profile(*backend, 4), 2);
  ASSERT_EQ(tracks.size(), 2U);
  EXPECT_EQ(tracks[0].group, "CPU");
  EXPECT_EQ(tracks[0].slices.size(), 2U);
  EXPECT_EQ(tracks[1].name, "ops");
  EXPECT_EQ(tracks[1].slices.at(2).details.at("part"), "layers.0.linear_attn.in_proj_qkv.weight");
  EXPECT_GT(tracks[1].slices.at(2).details.at("gb_per_s").get<double>(), 0);
}

TEST(OpProfile, CannotAlternateUnderACollectorThatCannotPause) {
  class Stubborn final : public KernelCollector {
   public:
    void start() override {}
    KernelRecords take() override { return {}; }
  };
  const auto backend = embedded_on_one_thread();
  EXPECT_THROW((void)profile_rounds(*backend, {.context = 8, .rounds = 2, .alternate = true},
                                    [] { return std::make_unique<Stubborn>(); }),
               Error);
}

// Wastes time within the op on `part` and after it.
class Slowed final : public KernelCollector, public engine::Collector {
 public:
  Slowed(engine::Backend& backend, std::string part, std::int64_t op_ns, std::int64_t host_ns)
      : backend_(&backend), part_(std::move(part)), op_ns_(op_ns), host_ns_(host_ns) {}
  Slowed(const Slowed&) = delete;
  Slowed& operator=(const Slowed&) = delete;
  ~Slowed() override { (void)backend_->set_collector(nullptr); }

  void start() override { (void)backend_->set_collector(this); }
  bool pause() override { return backend_->set_collector(nullptr); }
  KernelRecords take() override { return recorder_.take(); }
  void begin(const engine::LaunchRecord& op, std::uint64_t bytes) override {
    recorder_.begin(op, bytes);
    slow_ = op.part == part_;
    if (slow_) spin(op_ns_);
  }
  void end() override {
    recorder_.end();
    if (slow_) spin(host_ns_);
  }

 private:
  engine::Backend* backend_;
  std::string part_;
  std::int64_t op_ns_;
  std::int64_t host_ns_;
  OpRecorder recorder_;
  bool slow_ = false;

  static void spin(std::int64_t ns) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(ns);
    while (std::chrono::steady_clock::now() < until) {
    }
  }
};

// Median microseconds of every op, layer by layer, and of the time between ops ("host").
std::map<std::string, double> median_us(engine::Backend& backend, std::int64_t op_ns, std::int64_t host_ns) {
  const RoundProfile result = profile_rounds(backend, {.context = 64, .rounds = 100, .alternate = true}, [&] {
    return std::make_unique<Slowed>(backend, "layers.2.mlp.down_proj.weight", op_ns, host_ns);
  });
  std::map<std::string, std::vector<double>> us;
  for (std::size_t r = 0; r < result.rounds.size(); ++r) {
    for (std::size_t i = 0; i < result.rounds[r].size(); ++i) {
      const engine::LaunchRecord& op = result.launches[result.labels[r][i].launch];
      const KernelRecord& record = result.rounds[r][i];
      us[op.name + " " + op.part].push_back(static_cast<double>(record.end_ns - record.start_ns) * kUsPerNs);
    }
    us["host"].push_back(static_cast<double>(make_timeline(result.rounds[r]).idle_ns()) * kUsPerNs);
  }
  std::map<std::string, double> medians;
  for (const auto& [op, values] : us) medians[op] = stats::quantile(values, kHalf);
  return medians;
}

// What became slower by more than half of `handicap_us`.
std::vector<std::string> slower(const std::map<std::string, double>& before, const std::map<std::string, double>& after,
                                double handicap_us) {
  std::vector<std::string> names;
  for (const auto& [op, us] : after)
    if (us - before.at(op) > handicap_us / 2) names.push_back(op);
  return names;
}

TEST(OpProfile, NamesAHandicapWhereItWasPut) {
  constexpr std::int64_t kHandicapNs = 100'000;
  constexpr double kHandicapUs = 100;
  const std::string op = "product q4 layers.2.mlp.down_proj.weight";
  const auto backend = embedded_on_one_thread();
  const auto plain = median_us(*backend, 0, 0);
  EXPECT_THAT(slower(plain, median_us(*backend, 0, 0), kHandicapUs), IsEmpty());
  const auto in_op = median_us(*backend, kHandicapNs, 0);
  EXPECT_EQ(slower(plain, in_op, kHandicapUs), std::vector<std::string>{op});
  EXPECT_NEAR(in_op.at(op) - plain.at(op), kHandicapUs, kHandicapUs / 5);
  const auto on_host = median_us(*backend, 0, kHandicapNs);
  EXPECT_EQ(slower(plain, on_host, kHandicapUs), std::vector<std::string>{"host"});
}

TEST(OpProfile, CostsLessThanATwentiethOfARound) {
  const auto backend = embedded_on_one_thread();
  const RoundProfile result = profile(*backend, 1000);
  const double timed_us = stats::quantile(result.timed_us, kHalf);
  const double profiled_us = stats::quantile(result.profiled_us, kHalf);
  const double cost = profiled_us / timed_us - 1;
  fmt::print("median round {:.2f} us, {:.2f} us with {:.0f} ops recorded: {:+.2f} %\n", timed_us, profiled_us,
             result.kernels, cost * 100);
  EXPECT_LT(cost, 0.05);
}

}  // namespace
}  // namespace tare::profiles
