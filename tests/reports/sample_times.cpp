#include "sample_times.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

namespace tare::reports::sample {
namespace {

struct Op {
  const char* launch_q8;
  const char* launch_q4;
  const char* part;
  int calls;
  double us_q8;
  double us_q4;
  double bytes_q8;
  double bytes_q4;
};

constexpr std::array<Op, 12> kOps = {
    {{"product q8 + activation", "product q4 + activation", "layers.*.mlp.gate_proj.weight", 8, 61, 43, 3.2e6, 1.67e6},
     {"product q8", "product q4", "layers.*.linear_attn.in_proj_qkv.weight", 6, 49, 34, 2.6e6, 1.35e6},
     {"product q8", "product q4", "layers.*.mlp.down_proj.weight", 8, 33, 27, 1.6e6, 0.84e6},
     {"gdn", "gdn", "layers.*.linear_attn", 6, 22, 21.8, 3.37e6, 3.37e6},
     {"attention", "attention", "layers.*.self_attn", 2, 14.5, 14.6, 0.57e6, 0.57e6},
     {"product q8", "product q4", "layers.*.linear_attn.out_proj.weight", 6, 16, 12, 0.8e6, 0.42e6},
     {"product q8", "product q4", "layers.*.self_attn.q_proj.weight", 2, 15.5, 11.7, 0.8e6, 0.42e6},
     {"product q8", "product q4", "lm_head.weight", 1, 13, 9.4, 1.06e6, 0.56e6},
     {"product q8", "product q4", "layers.*.self_attn.o_proj.weight", 2, 5.3, 4.1, 0.27e6, 0.14e6},
     {"argmax", "argmax", "logits", 1, 0.85, 0.86, 0, 0},
     {"rms_norm", "rms_norm", "layers.*.input_layernorm.weight", 8, 0.55, 0.55, 0.01e6, 0.01e6},
     {"embed", "embed", "embed_tokens.weight", 1, 0.3, 0.3, 600, 600}}};

std::string what_of(const std::string& launch, const std::string& part) {
  return part.empty() ? launch : launch + "  " + part;
}

// Rows and one round of an arm; `factor` scales its times.
ArmTimes ops_of(const std::string& name, bool q4, double factor, double idle_us, double host_us) {
  ArmTimes arm;
  arm.arm = name;
  arm.source = "ops";
  arm.prompts = 4;
  arm.idle_us = idle_us;
  arm.host_us = host_us;
  arm.busy_us = 0;
  double at = 0;
  for (const Op& op : kOps) {
    const double us = factor * (q4 ? op.us_q4 : op.us_q8);
    const double bytes = q4 ? op.bytes_q4 : op.bytes_q8;
    const std::string what = what_of(q4 ? op.launch_q4 : op.launch_q8, op.part);
    arm.rows.push_back({what, op.part, us, bytes > 0 ? bytes : kMissing});
    arm.busy_us += us;
    RoundLane& lane = arm.round.emplace_back(RoundLane{what, op.part, {}});
    for (int call = 0; call < op.calls; ++call) {
      lane.spans.push_back({at, at, at + us / op.calls});
      at += us / op.calls + idle_us / 50;
    }
  }
  arm.round_of = "code-03";
  arm.timed_us = arm.busy_us + idle_us + host_us;
  arm.profiled_us = arm.busy_us + idle_us + 5;
  return arm;
}

TimeDifference difference_of(const ArmTimes& baseline, const ArmTimes& arm, double residual_us) {
  TimeDifference difference;
  difference.arm = arm.arm;
  difference.prompts = 4;
  const auto row = [](const std::string& what, double base, double other) {
    const double d = other - base;
    const double half = 0.1 + 0.04 * std::abs(d);
    return TimeRow{what, base, other, d, d - half, d + half};
  };
  for (std::size_t i = 0; i < arm.rows.size(); ++i) {
    const bool same = arm.rows[i].what == baseline.rows[i].what;
    const std::string changed = what_of(std::string(kOps[i].launch_q8) + " -> " + kOps[i].launch_q4, kOps[i].part);
    difference.rows.push_back(row(same ? arm.rows[i].what : changed, baseline.rows[i].us, arm.rows[i].us));
  }
  std::stable_sort(difference.rows.begin(), difference.rows.end(), [](const TimeRow& a, const TimeRow& b) {
    return std::abs(a.difference_us) > std::abs(b.difference_us);
  });
  difference.idle = row("idle", baseline.idle_us, arm.idle_us);
  difference.host = row("host", baseline.host_us, arm.host_us - residual_us);
  difference.residual = row("residual", 0, residual_us);
  difference.timed = row("timed round", baseline.timed_us, arm.timed_us);
  difference.explained_share = 1 - residual_us / difference.timed.difference_us;
  return difference;
}

}  // namespace

void add_op_times(Findings& findings) {
  Times& times = findings.times;
  times.arms = {ops_of("q8", false, 1, 2.1, 7.5), ops_of("q4", true, 1, 2.0, 7.2),
                ops_of("q8-null", false, 1.004, 2.1, -6.4)};
  times.differences = {difference_of(times.arms[0], times.arms[1], 0.6),
                       difference_of(times.arms[0], times.arms[2], -1.2)};
  times.read_gb_per_s = 62.3;
  times.read_rate_source = "tare ceiling, 2 threads";
}

void add_kernel_times(Findings& findings, std::size_t kinds) {
  constexpr int kLayers = 64;
  constexpr double kWaiting = 2.5;  // a kernel is on the GPU before its predecessor ends
  ArmTimes arm;
  arm.arm = "plain";
  arm.source = "kernels";
  arm.prompts = 2;
  arm.idle_us = 31;
  arm.busy_us = 0;
  arm.round_of = "prose-1";
  for (std::size_t k = 0; k < kinds; ++k) {
    const std::string launch = "kernel_" + std::to_string(k) + "_with_a_name_as_long_as_they_are";
    arm.rows.push_back({launch, "", 0, k % 3 == 0 ? 1e6 * static_cast<double>(1 + k % 7) * kLayers : kMissing});
    arm.round.push_back({launch, "", {}});
  }
  double at = 0;
  for (int layer = 0; layer < kLayers; ++layer) {
    for (std::size_t k = 0; k < kinds; ++k) {
      const double us = 60.0 / static_cast<double>(kinds) * (0.2 + static_cast<double>((k * 7) % 11) / 6);
      arm.round[k].spans.push_back({std::max(0.0, at - kWaiting), at, at + us});
      arm.rows[k].us += us;
      arm.busy_us += us;
      at += us + (k == 0 ? arm.idle_us / kLayers : 0);
    }
  }
  std::stable_sort(arm.rows.begin(), arm.rows.end(),
                   [](const ArmTimeRow& a, const ArmTimeRow& b) { return a.us > b.us; });
  arm.host_us = 22;
  arm.timed_us = arm.busy_us + arm.idle_us + arm.host_us;
  arm.profiled_us = arm.timed_us * 1.08;
  findings.times.arms = {arm};
  findings.times.differences.clear();
  findings.times.read_gb_per_s = 4534;
  findings.times.read_rate_source = "tare ceiling, GPU 0, 132 SMs";
}

void rename_times(Times& times, const std::string& name) {
  for (std::size_t i = 0; i < times.arms.size(); ++i) {
    ArmTimes& arm = times.arms[i];
    arm.arm += name;
    arm.round_of = name;
    for (ArmTimeRow& row : arm.rows) row.what += name, row.part += name;
    for (RoundLane& lane : arm.round) lane.what += name, lane.part += name;
  }
  for (TimeDifference& difference : times.differences) {
    difference.arm += name;
    for (TimeRow& row : difference.rows) row.what += name;
    difference.only_arm = difference.only_baseline = {name};
  }
  times.read_rate_source = name;
}

}  // namespace tare::reports::sample
