// A backend whose passes a profiler can see: named ranges around them, the backend's results untouched.
//
// Ranges: "prefill"; "round", from a draft, or where there is none a verify, to the end of the commit after it, with
// "draft", "verify" and "commit" inside. A verify that nothing is committed of is a round that ends when the next pass
// begins.
#pragma once

#include <memory>

#include "engine/backend/backend.h"

namespace tare::profiles {

constexpr const char* kPrefillRange = "prefill";
constexpr const char* kRoundRange = "round";
constexpr const char* kDraftRange = "draft";
constexpr const char* kVerifyRange = "verify";
constexpr const char* kCommitRange = "commit";

// Where ranges go: a stack of the calling thread.
class RangeSink {
 public:
  virtual ~RangeSink() = default;
  virtual void push(const char* name) = 0;
  virtual void pop() = 0;
  // Within "verify": how many nodes it has.
  virtual void verifies(int nodes) { (void)nodes; }
};

// The calls of one backend come from one thread.
[[nodiscard]] std::unique_ptr<engine::Backend> with_ranges(std::unique_ptr<engine::Backend> backend,
                                                           std::shared_ptr<RangeSink> sink);

}  // namespace tare::profiles
