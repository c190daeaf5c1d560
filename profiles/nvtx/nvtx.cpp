#include "profiles/nvtx/nvtx.h"

#include <utility>

#ifdef TARE_WITH_NVTX
#include <nvtx3/nvToolsExt.h>

#include "base/file.h"
#endif

namespace tare::profiles {

#ifdef TARE_WITH_NVTX
namespace {

class Nvtx final : public RangeSink {
 public:
  void push(const char* name) override { (void)nvtxRangePushA(name); }
  void pop() override { (void)nvtxRangePop(); }
};

}  // namespace

std::shared_ptr<RangeSink> nvtx_sink() {
  // The first call loads the tool, if there is one. A level is counted by tools only, though not by all of them; NVTX
  // finds them by this variable.
  const bool counted = nvtxRangePushA("tare looks for a tool") >= 0;
  (void)nvtxRangePop();
  const bool named = environment_variable("NVTX_INJECTION64_PATH").has_value();
  return counted || named ? std::make_shared<Nvtx>() : nullptr;
}
#else
std::shared_ptr<RangeSink> nvtx_sink() {
  return nullptr;
}
#endif

std::unique_ptr<engine::Backend> with_nvtx_ranges(std::unique_ptr<engine::Backend> backend) {
  std::shared_ptr<RangeSink> sink = nvtx_sink();
  return sink ? with_ranges(std::move(backend), std::move(sink)) : std::move(backend);
}

}  // namespace tare::profiles
