# Headers that most of our C++ sources read, parsed once: with CUDA a build is long, and without this a sixth of it went into
# them. Without CUDA it is off, so that a source that includes too little does not pass unseen (scripts/test).
set(TARE_PRECOMPILED_HEADERS "AUTO" CACHE STRING "Precompile headers of packages: AUTO (with CUDA, by GCC), ON or OFF")
set(TARE_PRECOMPILED ${TARE_PRECOMPILED_HEADERS})
if(TARE_PRECOMPILED STREQUAL "AUTO")
  set(TARE_PRECOMPILED OFF)
  if(TARE_CUDA_ENABLED AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT TARE_SANITIZE)
    set(TARE_PRECOMPILED ON)
  endif()
endif()
if(TARE_PRECOMPILED AND CCACHE)  # what ccache needs to be told of precompiled headers
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
endif()

# tare_headers(KIND LIBS ... HEADERS ...): those of a kind of optimisation.
function(tare_headers kind)
  cmake_parse_arguments(ARG "" "" "LIBS;HEADERS" ${ARGN})
  set(name tare_${kind}_headers)
  if(NOT TARE_PRECOMPILED)
    return()
  endif()
  set(source ${CMAKE_BINARY_DIR}/${name}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "// holds precompiled headers\n")
  add_library(${name} OBJECT ${source})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} tare_warnings)
  target_compile_options(${name} PRIVATE ${TARE_OPTIONS_${kind}})
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
endfunction()

# tare_precompiled(TARGET NAME): its C++ sources begin with the headers of that set. GCC 12 then takes the standard library's
# headers for ours in warnings of its optimiser, so these are off: builds without CUDA have them, and of sources for CUDA those
# with TARE_PRECOMPILED_HEADERS=OFF.
function(tare_precompiled target name)
  if(TARE_PRECOMPILED)
    target_precompile_headers(${target} REUSE_FROM ${name})
    target_compile_options(${target} PRIVATE
      $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds;-Wno-restrict;-Wno-stringop-overflow;-Wno-stringop-overread>)
  endif()
endfunction()

# nlohmann/json.hpp only where most sources use it: an inline function of it (the literal _json) parses, and what that takes of
# templates is made anew in every source, precompiled or not: half a second.
set(TARE_COMMON_HEADERS <algorithm> <array> <cmath> <cstddef> <cstdint> <filesystem> <functional> <map> <memory> <optional> <span>
  <sstream> <string> <string_view> <utility> <vector> <fmt/format.h>)
set(TARE_TEST_HEADERS ${TARE_COMMON_HEADERS} <gmock/gmock.h> <gtest/gtest.h>)
tare_headers(usual LIBS fmt::fmt HEADERS ${TARE_COMMON_HEADERS})
tare_headers(exact LIBS fmt::fmt HEADERS ${TARE_COMMON_HEADERS})
tare_headers(light LIBS fmt::fmt nlohmann_json::nlohmann_json HEADERS ${TARE_COMMON_HEADERS} <nlohmann/json.hpp>)
if(TARE_TESTS)
  tare_headers(test LIBS fmt::fmt GTest::gmock HEADERS ${TARE_TEST_HEADERS})
  tare_headers(json_test LIBS fmt::fmt nlohmann_json::nlohmann_json GTest::gmock HEADERS ${TARE_TEST_HEADERS} <nlohmann/json.hpp>)
endif()
