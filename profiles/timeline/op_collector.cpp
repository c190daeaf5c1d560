#include "profiles/timeline/op_collector.h"

#include <unordered_map>
#include <utility>

#include "base/error.h"

namespace tare::profiles {
namespace {

class OpCollector final : public KernelCollector {
 public:
  OpCollector(engine::Backend& backend, std::size_t most_ops) : backend_(&backend), recorder_(most_ops) {
    if (!backend_->set_collector(&recorder_))
      throw input_error("backend", "tells no ops: its kernels are recorded by CUPTI");
    (void)backend_->set_collector(nullptr);
  }
  OpCollector(const OpCollector&) = delete;
  OpCollector& operator=(const OpCollector&) = delete;
  ~OpCollector() override { (void)backend_->set_collector(nullptr); }

  void start() override { (void)backend_->set_collector(&recorder_); }
  [[nodiscard]] bool pause() override {
    (void)backend_->set_collector(nullptr);
    return true;
  }
  [[nodiscard]] KernelRecords take() override { return recorder_.take(); }

 private:
  engine::Backend* backend_;
  OpRecorder recorder_;
};

}  // namespace

KernelRecords OpRecorder::take() {
  KernelRecords records;
  records.dropped = std::exchange(dropped_, 0);
  records.records.reserve(count_);
  records.labels.reserve(count_);
  std::unordered_map<const engine::LaunchRecord*, std::size_t> launches;
  std::unordered_map<std::string, std::int32_t> names;
  for (std::size_t i = 0; i < count_; ++i) {
    const Op& op = ops_[i];
    const auto [launch, fresh_launch] = launches.try_emplace(op.op, records.launches.size());
    if (fresh_launch) records.launches.push_back(*op.op);
    const auto [name, fresh_name] = names.try_emplace(op.op->name, static_cast<std::int32_t>(records.names.size()));
    if (fresh_name) records.names.push_back(op.op->name);
    records.records.push_back({.name = name->second, .start_ns = op.start_ns, .end_ns = op.end_ns});
    records.labels.push_back({launch->second, op.bytes});
  }
  count_ = 0;
  return records;
}

std::unique_ptr<KernelCollector> make_op_collector(engine::Backend& backend, std::size_t most_ops) {
  return std::make_unique<OpCollector>(backend, most_ops);
}

}  // namespace tare::profiles
