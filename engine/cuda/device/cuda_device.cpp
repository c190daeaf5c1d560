#include "engine/cuda/device/cuda_device.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <array>

#include "base/error.h"
#include "base/json_reader.h"
#include "engine/cuda/device/cuda_check.h"

namespace tare::engine {
namespace {

constexpr int kLeastMajor = 8;           // bulk of the kernels; sm_89 is the least that is built
constexpr std::size_t kPciIdBytes = 32;  // "0000:01:00.0" and room

Error no_gpu(const std::string& why) {
  return {ErrorKind::kEnvironment, why, "backend cuda", "use --set backend=cpu, or a machine with an NVIDIA GPU"};
}

int attribute(cudaDeviceAttr which, int index) {
  int value = 0;
  check_cuda(cudaDeviceGetAttribute(&value, which, index), "cudaDeviceGetAttribute");
  return value;
}

}  // namespace

std::string cuda_version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

CudaDevice open_cuda_device(int index) {
  CudaDevice device;
  device.index = index;
  check_cuda(cudaRuntimeGetVersion(&device.runtime_version), "cudaRuntimeGetVersion");
  (void)cudaDriverGetVersion(&device.driver_version);  // stays 0 without a driver
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver && device.driver_version > 0) {
    throw Error(ErrorKind::kEnvironment,
                fmt::format("the driver speaks CUDA {}, this program needs {}",
                            cuda_version_text(device.driver_version), cuda_version_text(device.runtime_version)),
                "backend cuda", "update the NVIDIA driver");
  }
  if (device.driver_version == 0) throw no_gpu("there is no NVIDIA driver on this machine");
  if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0)) throw no_gpu("there is no NVIDIA GPU here");
  check_cuda(status, "cudaGetDeviceCount");
  if (index >= count) {
    throw input_error("cuda.device", fmt::format("there is no GPU {}; this machine has {}", index, count));
  }
  check_cuda(cudaSetDevice(index), "cudaSetDevice");
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  device.name = properties.name;
  std::array<char, kPciIdBytes> pci_id{};
  check_cuda(cudaDeviceGetPCIBusId(pci_id.data(), static_cast<int>(pci_id.size()), index), "cudaDeviceGetPCIBusId");
  device.pci_bus_id = pci_id.data();
  device.major = attribute(cudaDevAttrComputeCapabilityMajor, index);
  device.minor = attribute(cudaDevAttrComputeCapabilityMinor, index);
  device.multiprocessors = attribute(cudaDevAttrMultiProcessorCount, index);
  if (device.major < kLeastMajor) {
    throw Error(ErrorKind::kEnvironment,
                fmt::format("{} has compute capability {}.{}, the kernels need {}.0 or more", device.name, device.major,
                            device.minor, kLeastMajor),
                "backend cuda");
  }
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  check_cuda(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  device.free_bytes = free_bytes;
  device.memory_bytes = total_bytes;
  return device;
}

Json to_json(const CudaDevice& device) {
  return {{"name", device.name},
          {"pci_bus_id", device.pci_bus_id},
          {"compute_capability", fmt::format("{}.{}", device.major, device.minor)},
          {"multiprocessors", device.multiprocessors},
          {"memory_bytes", device.memory_bytes},
          {"driver_cuda", cuda_version_text(device.driver_version)},
          {"runtime_cuda", cuda_version_text(device.runtime_version)}};
}

}  // namespace tare::engine
