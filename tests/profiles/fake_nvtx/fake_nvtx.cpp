// A tool that listens to NVTX, as far as ranges go: each push and pop becomes a line of the file FAKE_NVTX_LOG.
// NVTX loads it where the environment variable NVTX_INJECTION64_PATH names it, as it loads Nsight Systems.
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>

namespace {

std::FILE* log_file() {
  static std::FILE* const file = std::fopen(std::getenv("FAKE_NVTX_LOG"), "a");
  return file;
}

int depth = 0;

int push(const char* name) {
  std::fprintf(log_file(), "%*s%s\n", 2 * depth, "", name);
  std::fflush(log_file());
  return depth++;
}

int pop() {
  return --depth;
}

template <class Function>
void install(NvtxFunctionTable table, unsigned int size, unsigned int place, Function* function) {
  if (place < size) *table[place] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get_export_table) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(get_export_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  if (callbacks == nullptr || log_file() == nullptr ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size) == 0)
    return 0;
  install(table, size, NVTX_CBID_CORE_RangePushA, &push);
  install(table, size, NVTX_CBID_CORE_RangePop, &pop);
  return 1;
}
