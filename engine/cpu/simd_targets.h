// Which Highway targets the kernels are compiled for. Included before any Highway header, in every kernel file.
#pragma once

#define HWY_WANT_AVX3_DL                  // AVX-512 with VNNI: Ice Lake, Zen 4 and later
#define HWY_DISABLED_TARGETS (HWY_SSSE3)  // no machine that we support stops there; SSE4 and SCALAR remain below AVX2

#include <hwy/detect_targets.h>

// In the HWY_ONCE part of a kernel file: returns the address of NAME in the namespace of `target`, a HWY_ constant.
#if HWY_TARGETS & HWY_AVX3_DL
#define TARE_CASE_AVX3_DL(NAME) \
  case HWY_AVX3_DL:             \
    return &N_AVX3_DL::NAME;
#else
#define TARE_CASE_AVX3_DL(NAME)
#endif
#if HWY_TARGETS & HWY_AVX3
#define TARE_CASE_AVX3(NAME) \
  case HWY_AVX3:             \
    return &N_AVX3::NAME;
#else
#define TARE_CASE_AVX3(NAME)
#endif
#if HWY_TARGETS & HWY_AVX2
#define TARE_CASE_AVX2(NAME) \
  case HWY_AVX2:             \
    return &N_AVX2::NAME;
#else
#define TARE_CASE_AVX2(NAME)
#endif
#if HWY_TARGETS & HWY_SSE4
#define TARE_CASE_SSE4(NAME) \
  case HWY_SSE4:             \
    return &N_SSE4::NAME;
#else
#define TARE_CASE_SSE4(NAME)
#endif
#if HWY_TARGETS & HWY_NEON
#define TARE_CASE_NEON(NAME) \
  case HWY_NEON:             \
    return &N_NEON::NAME;
#else
#define TARE_CASE_NEON(NAME)
#endif
#if HWY_TARGETS & HWY_EMU128
#define TARE_CASE_PLAIN(NAME) \
  case HWY_EMU128:            \
    return &N_EMU128::NAME;
#elif HWY_TARGETS & HWY_SCALAR
#define TARE_CASE_PLAIN(NAME) \
  case HWY_SCALAR:            \
    return &N_SCALAR::NAME;
#else
#define TARE_CASE_PLAIN(NAME)
#endif

#define TARE_RETURN_FOR_TARGET(target, NAME)                       \
  switch (target) {                                                \
    TARE_CASE_AVX3_DL(NAME)                                        \
    TARE_CASE_AVX3(NAME)                                           \
    TARE_CASE_AVX2(NAME)                                           \
    TARE_CASE_SSE4(NAME)                                           \
    TARE_CASE_NEON(NAME)                                           \
    TARE_CASE_PLAIN(NAME)                                          \
    default:                                                       \
      throw internal_error("no kernels for this instruction set"); \
  }
