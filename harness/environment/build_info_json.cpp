#include "harness/environment/build_info.h"

namespace tare::harness {

Json to_json(const BuildInfo& build) {
  return {{"version", build.version},   {"commit", build.commit}, {"dirty", build.dirty},
          {"compiler", build.compiler}, {"flags", build.flags},   {"build_type", build.build_type},
          {"cuda", build.cuda}};
}

}  // namespace tare::harness
