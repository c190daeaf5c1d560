// Where a backend that computes on the host's threads tells what it is doing. It owns this interface and knows nothing
// of clocks or profilers; profiles/timeline/op_collector.h times what is told.
#pragma once

#include <cstdint>

#include "engine/backend/launch_record.h"

namespace tare::engine {

// Ops of one backend do not overlap and do not nest; all calls come from the thread that called the backend.
class Collector {
 public:
  virtual ~Collector() = default;
  // `op` stays where it is as long as the backend lives, so that its address names it: the same op of every round has
  // the same address. `bytes`: what this one reads and writes, by the tensors' sizes; op.bytes is the share of it that
  // is the same for every round.
  virtual void begin(const LaunchRecord& op, std::uint64_t bytes) = 0;
  virtual void end() = 0;
};

// One op, for as long as it lives. Without a collector it is one test of a pointer.
class OpScope {
 public:
  OpScope(Collector* collector, const LaunchRecord& op, std::uint64_t bytes_besides = 0) : collector_(collector) {
    if (collector_ != nullptr) collector_->begin(op, op.bytes + bytes_besides);
  }
  OpScope(const OpScope&) = delete;
  OpScope& operator=(const OpScope&) = delete;
  ~OpScope() {
    if (collector_ != nullptr) collector_->end();
  }

 private:
  Collector* collector_;
};

}  // namespace tare::engine
