// gpu_read_rate of a program that was built without CUDA.
#include "base/error.h"
#include "profiles/gpu_read_rate.h"

namespace tare::profiles {

ReadRateSource gpu_read_rate(int) {
  throw Error(ErrorKind::kEnvironment, "this program was built without CUDA", "gpu read rate");
}

}  // namespace tare::profiles
