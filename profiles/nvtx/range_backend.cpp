#include "profiles/nvtx/range_backend.h"
#include "base/json_reader.h"

#include <utility>

namespace tare::profiles {
namespace {

// Closed however the pass ends.
class Range {
 public:
  Range(RangeSink& sink, const char* name) : sink_(&sink) { sink.push(name); }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
  ~Range() { sink_->pop(); }

 private:
  RangeSink* sink_;
};

class RangeBackend final : public engine::Backend {
 public:
  RangeBackend(std::unique_ptr<engine::Backend> backend, std::shared_ptr<RangeSink> sink)
      : backend_(std::move(backend)), sink_(std::move(sink)) {}
  RangeBackend(const RangeBackend&) = delete;
  RangeBackend& operator=(const RangeBackend&) = delete;
  ~RangeBackend() override { end_round(); }

  [[nodiscard]] const engine::ModelConfig& config() const override { return backend_->config(); }
  [[nodiscard]] const engine::EngineOptions& options() const override { return backend_->options(); }
  [[nodiscard]] std::int64_t frontier() const override { return backend_->frontier(); }
  [[nodiscard]] std::int64_t capacity() const override { return backend_->capacity(); }

  void reset() override {
    end_round();
    backend_->reset();
  }

  std::span<const float> prefill(std::span<const std::int32_t> tokens, const engine::PrefillCapture& capture) override {
    end_round();
    const Range range(*sink_, kPrefillRange);
    return backend_->prefill(tokens, capture);
  }

  [[nodiscard]] bool has_drafter() const override { return backend_->has_drafter(); }
  engine::DraftOutput draft(const engine::DraftRequest& request) override {
    begin_round();
    drafted_ = true;
    const Range range(*sink_, kDraftRange);
    return backend_->draft(request);
  }

  // A round begins with its draft, or where there is none with its verify.
  engine::VerifyOutput verify(const engine::TokenTree& tree, const engine::VerifyRequest& request) override {
    if (!drafted_) begin_round();
    drafted_ = false;
    const Range range(*sink_, kVerifyRange);
    sink_->verifies(tree.size());
    return backend_->verify(tree, request);
  }

  using engine::Backend::commit;
  void commit(std::span<const std::int32_t> path) override {
    {
      const Range range(*sink_, kCommitRange);
      backend_->commit(path);
    }
    end_round();
  }

  std::vector<std::byte> export_rows(std::int64_t first, std::int64_t last) override {
    return backend_->export_rows(first, last);
  }
  engine::SequenceCheckpoint export_checkpoint() override { return backend_->export_checkpoint(); }
  void import_rows(std::int64_t first, std::int64_t last, std::span<const std::byte> rows) override {
    backend_->import_rows(first, last, rows);
  }
  void import_checkpoint(const engine::SequenceCheckpoint& checkpoint) override {
    backend_->import_checkpoint(checkpoint);
  }
  [[nodiscard]] std::vector<float> recurrent_state(std::int64_t layer) const override {
    return backend_->recurrent_state(layer);
  }
  [[nodiscard]] engine::WeightInventory inventory(std::int64_t context, std::int64_t width) const override {
    return backend_->inventory(context, width);
  }
  [[nodiscard]] std::vector<engine::LaunchRecord> launches(std::int64_t width) const override {
    return backend_->launches(width);
  }
  [[nodiscard]] std::vector<engine::LaunchRecord> draft_launches() const override { return backend_->draft_launches(); }
  [[nodiscard]] bool set_collector(engine::Collector* collector) override { return backend_->set_collector(collector); }
  void expect_driver_records() override { backend_->expect_driver_records(); }
  [[nodiscard]] std::vector<engine::MemoryPart> memory_plan(const engine::EngineOptions::KeyValue& formats,
                                                            std::int64_t capacity) const override {
    return backend_->memory_plan(formats, capacity);
  }
  [[nodiscard]] engine::DeviceMemory device_memory() const override { return backend_->device_memory(); }
  [[nodiscard]] Json description() const override { return backend_->description(); }

 private:
  std::unique_ptr<engine::Backend> backend_;
  std::shared_ptr<RangeSink> sink_;
  bool in_round_ = false;
  bool drafted_ = false;  // the round in hand has its draft and not yet its verify

  void begin_round() {
    end_round();
    sink_->push(kRoundRange);
    in_round_ = true;
  }
  void end_round() {
    if (in_round_) sink_->pop();
    in_round_ = false;
    drafted_ = false;
  }
};

}  // namespace

std::unique_ptr<engine::Backend> with_ranges(std::unique_ptr<engine::Backend> backend,
                                             std::shared_ptr<RangeSink> sink) {
  return std::make_unique<RangeBackend>(std::move(backend), std::move(sink));
}

}  // namespace tare::profiles
