# How a target of ours is declared: one place for warnings, include root and language level.

# Interface target with the warnings our own code must be free of. Headers of packages are system headers.
add_library(tare_warnings INTERFACE)
target_compile_options(tare_warnings INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Werror)

# tare_library(NAME OPTIMISED kind SOURCES ... PUBLIC libs ... PRIVATE libs ...): static library NAME, includes from the repository
# root; its kind is usual where none is named.
function(tare_library name)
  cmake_parse_arguments(ARG "" "OPTIMISED" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  if(NOT ARG_OPTIMISED)
    set(ARG_OPTIMISED usual)
  endif()
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE} tare_warnings)
  tare_optimised(${name} ${ARG_OPTIMISED})
endfunction()

# Where tests put their folders, which are called after them: two checkouts may be tested at the same time.
set(TARE_TEST_FOLDERS ${CMAKE_BINARY_DIR}/test-folders)
file(MAKE_DIRECTORY ${TARE_TEST_FOLDERS})

# tare_test(NAME SOURCES ... LIBS ...): GoogleTest program, each TEST registered with ctest. TARE_TEST_KIND, where a folder sets
# it, is its kind of optimisation.
set(TARE_TEST_KIND test)
function(tare_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} GTest::gmock GTest::gtest_main tare_warnings)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_definitions(${name} PRIVATE TARE_SOURCE_DIR="${CMAKE_SOURCE_DIR}" TARE_BINARY_DIR="${CMAKE_BINARY_DIR}")
  tare_optimised(${name} ${TARE_TEST_KIND})
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300 ENVIRONMENT TEST_TMPDIR=${TARE_TEST_FOLDERS})
endfunction()
