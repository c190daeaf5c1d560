# The CUDA toolkit, when TARE_CUDA is AUTO and one is found, or ON. TARE_CUDA_ENABLED tells the rest of the build.
set(TARE_CUDA_ENABLED OFF)
set(TARE_CUDA_ARCHITECTURES "89;90a;120" CACHE STRING "GPU architectures: 90a runs all kernels, others what they can")
option(TARE_CUDA_RACECHECK "Kernels that compute-sanitizer's racecheck can follow (docs/guide/gpu.md)" OFF)
if(NOT TARE_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  set(CMAKE_CUDA_ARCHITECTURES OFF)  # tare_cuda_library names them itself
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    set(CMAKE_CUDA_FLAGS_RELWITHDEBINFO "-O3 -lineinfo -DNDEBUG")
    set(TARE_CUDA_ENABLED ON)
    set(TARE_CUDA_VERSION ${CMAKE_CUDA_COMPILER_VERSION})  # for tare --version
    # CMake 3.25 knows nvcc's C++20 by no flag.
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
  elseif(TARE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "TARE_CUDA is ON but no CUDA compiler was found; put nvcc on the PATH or set CUDACXX")
  endif()
endif()

# Flags of every CUDA source: one machine code an architecture, host warnings as elsewhere (nvcc's own host code is not
# pedantic and hides designated initializers from -Wmissing-field-initializers).
function(tare_cuda_flags name architectures)
  foreach(architecture ${architectures})
    target_compile_options(${name} PRIVATE
      "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-gencode arch=compute_${architecture},code=sm_${architecture}>")
  endforeach()
  target_compile_options(${name} PRIVATE
    "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:--expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra,-Wno-missing-field-initializers,-Werror -Werror=all-warnings>"
    "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wno-missing-field-initializers;-Wpedantic;-Wconversion;-Werror>")
  if(TARE_CUDA_RACECHECK)  # product/ring_hand_over.cuh, device/warps_barrier.cuh
    target_compile_definitions(${name} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:TARE_RACECHECK>)
  endif()
  target_include_directories(${name} SYSTEM PUBLIC ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
  set_target_properties(${name} PROPERTIES CUDA_STANDARD 20 CUDA_RUNTIME_LIBRARY Static)
endfunction()

# Architectures for kernels that no other device than Hopper is given: its own alone, which halves the time they take to
# compile; where none is built for, any one, for which they are empty.
set(TARE_HOPPER_ARCHITECTURES ${TARE_CUDA_ARCHITECTURES})
list(FILTER TARE_HOPPER_ARCHITECTURES INCLUDE REGEX "^90")
if(NOT TARE_HOPPER_ARCHITECTURES)
  list(GET TARE_CUDA_ARCHITECTURES 0 TARE_HOPPER_ARCHITECTURES)
endif()

# tare_cuda_library(NAME SOURCES ... HOPPER ... PUBLIC libs ... PRIVATE libs ...): tare_library with CUDA sources. HOPPER: those
# whose kernels are launched on compute capability 9.0 alone, which the code that launches them has to see to.
function(tare_cuda_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;HOPPER;PUBLIC;PRIVATE" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
  tare_cuda_flags(${name} "${TARE_CUDA_ARCHITECTURES}")
  tare_optimised(${name} usual)
  if(ARG_HOPPER)
    add_library(${name}_hopper OBJECT ${ARG_HOPPER})
    target_include_directories(${name}_hopper PRIVATE ${CMAKE_SOURCE_DIR})
    target_link_libraries(${name}_hopper PRIVATE ${ARG_PUBLIC} ${ARG_PRIVATE})
    tare_cuda_flags(${name}_hopper "${TARE_HOPPER_ARCHITECTURES}")
    target_sources(${name} PRIVATE $<TARGET_OBJECTS:${name}_hopper>)
  endif()
endfunction()

# tare_cuda_program(NAME ARCHITECTURES ... SOURCES ... LIBS ...): a program that also runs on a GPU host with nothing installed
# but a driver; for the architectures named.
function(tare_cuda_program name)
  cmake_parse_arguments(ARG "" "" "ARCHITECTURES;SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS})
  target_link_options(${name} PRIVATE -Wl,--as-needed -static-libstdc++ -static-libgcc)
  tare_cuda_flags(${name} "${ARG_ARCHITECTURES}")
endfunction()

# tare_gpu_test(NAME [HOPPER] SOURCES ... LIBS ...): GoogleTest program of tests that need a GPU (label gpu); each skips itself
# with a message where there is none. HOPPER: all of them need compute capability 9.0.
function(tare_gpu_test name)
  cmake_parse_arguments(ARG "HOPPER" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE TARE_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  target_link_options(${name} PRIVATE -Wl,--as-needed -static-libstdc++ -static-libgcc)
  set(architectures ${TARE_CUDA_ARCHITECTURES})
  if(ARG_HOPPER)
    set(architectures ${TARE_HOPPER_ARCHITECTURES})
  endif()
  tare_cuda_flags(${name} "${architectures}")
  tare_optimised(${name} test)
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 600 LABELS gpu ENVIRONMENT TEST_TMPDIR=${TARE_TEST_FOLDERS})
  set_property(GLOBAL APPEND PROPERTY TARE_GPU_TESTS ${name})
  set_property(GLOBAL APPEND PROPERTY TARE_GPU_TEST_LIBS ${ARG_LIBS})
endfunction()

# tare_all_gpu_tests(NAME): one program of all GPU tests declared before, built on demand: for hosts to which little can be
# carried (scripts/pack-gpu), since each program of its own holds the kernels again.
function(tare_all_gpu_tests name)
  get_property(programs GLOBAL PROPERTY TARE_GPU_TESTS)
  get_property(libs GLOBAL PROPERTY TARE_GPU_TEST_LIBS)
  list(REMOVE_DUPLICATES libs)
  set(objects "")
  foreach(program ${programs})
    list(APPEND objects $<TARGET_OBJECTS:${program}>)
  endforeach()
  add_executable(${name} EXCLUDE_FROM_ALL ${objects})
  target_link_libraries(${name} PRIVATE ${libs} GTest::gmock GTest::gtest_main)
  target_link_options(${name} PRIVATE -Wl,--as-needed)
  set_target_properties(${name} PROPERTIES CUDA_RUNTIME_LIBRARY Static LINKER_LANGUAGE CXX)
endfunction()
