// Takes out of texts what names a machine or a person: host names, kernel releases, GPUs' UUIDs and PCI ids, user
// names, absolute paths. The same thing is replaced by the same word everywhere ("host-1", "kernel-1", "gpu-1",
// "pci-1", "user-1", "dir-1/model"), so that rows still belong together. Models of CPU and GPU, driver versions,
// options, commits and times stay: numbers mean nothing without them.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "harness/ledger/ledger_tables.h"

namespace tare::harness {

class Anonymiser {
 public:
  // Learns the names from the rows of a ledger. `more_users`: user names that it does not hold, such as its owner's.
  explicit Anonymiser(const std::vector<LedgerTable>& tables, const std::vector<std::string>& more_users = {});

  // The text without them. Paths and ids that no row held are found by their form.
  [[nodiscard]] std::string text(std::string_view text);

  // What was taken out, by kind, how many of each: {"host": 1, "path": 3}.
  [[nodiscard]] std::map<std::string, std::size_t> counts() const;

 private:
  std::map<std::string, std::string> words_;  // what to what
  std::map<std::string, std::size_t> given_;  // by kind

  void learn(const std::string& kind, const std::string& name);
  [[nodiscard]] std::string replacement(const std::string& kind, const std::string& name);
  [[nodiscard]] std::string without_words(std::string text) const;
  [[nodiscard]] std::string without_ids(std::string_view text);
  [[nodiscard]] std::string without_path(std::string_view path);
  [[nodiscard]] std::string without_paths(std::string_view text);
};

}  // namespace tare::harness
