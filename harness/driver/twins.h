// Twin launches: a second worker of an arm that walks the first texts under a collector. Never the timed one, but near
// it in time, for what the machine does to one it must do to the other.
//
// Granularity prompt: the twins of all arms are resident beside the block's timed workers, and an arm's twin walks a
// text right after the arm did. Every timed walk of a profiled text then follows a twin's walk, whichever the arm, and
// in the order of the arms before it: as balanced as without twins. That holds only when every arm has a twin; where
// one is missing (it does not fit, it cannot be profiled) all of them walk after the block.
// After a block (granularity run, and what could not walk beside) twins resident together take turns text by text, in
// the order of granularity prompt. One that fails in company is tried alone; failing alone it gets a record that says
// why, and is not tried again. Whatever becomes of a twin, timed runs go on.
//
// Profiles reach the ledger when all texts have been walked, in one transaction: those of an interrupted block never.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "harness/driver/measure.h"

namespace tare::harness {

// The twins of a block that walk together.
class Twins {
 public:
  // Opens a twin of every arm, in this order, and lets it walk the first text unrecorded, as its warm-up. One that
  // fails is among failed(). Throws Error (interrupted) and errors of the ledger.
  Twins(const MeasureContext& context, int block, const std::vector<std::size_t>& arms);
  Twins(const Twins&) = delete;
  Twins& operator=(const Twins&) = delete;
  ~Twins();

  // Texts that each twin walks: the first ones.
  [[nodiscard]] std::size_t texts() const { return texts_; }
  // Lets the arm's twin walk a text; nothing happens for an arm that has failed. Throws as the constructor.
  void walk(std::size_t arm, std::size_t text);
  // Arms whose twin failed. What it walked before is not stored.
  [[nodiscard]] std::vector<std::size_t> failed() const;
  [[nodiscard]] std::string fault(std::size_t arm) const;
  [[nodiscard]] std::vector<pid_t> pids() const;
  // What the twins that did not fail have walked, to the ledger.
  void store() const;
  // A record that says why the arm could not be profiled, to the ledger.
  void store_fault(std::size_t arm) const;

 private:
  struct Twin;
  const MeasureContext& context_;
  int block_;
  std::size_t texts_;
  std::vector<std::unique_ptr<Twin>> twins_;

  [[nodiscard]] Twin* find(std::size_t arm) const;
  void fail(Twin& twin, const std::string& why);
};

struct PlannedProfiles {
  int block = 0;
  std::vector<std::size_t> arms;  // in the order of starting
};

// What `block` lacks of the profiles that the experiment asks for; no arms: nothing. An arm that could not be profiled
// is not tried again.
[[nodiscard]] PlannedProfiles profiles_to_make(const Experiment& experiment, const Ledger& ledger,
                                               const PlannedBlock& block);
// Twins beside the timed workers of `block`, when every arm has one; else null, and what was opened has ended.
[[nodiscard]] std::unique_ptr<Twins> twins_beside(const MeasureContext& context, const PlannedBlock& block);
// Makes profiles after their block.
void make_profiles(const MeasureContext& context, const PlannedProfiles& profiles);

}  // namespace tare::harness
