# How hard our code is optimised, in one place. A target's kind also names its precompiled headers: GCC 12 takes options of
# functions from the headers it reads, whatever the command line says (with headers made without them the kernels of
# engine/cpu lost -ffp-contract=off and half of -O3), so each kind has headers of its own
# (tests/house/precompiled_headers_test.cpp).
#   usual   as the build type says
#   exact   -O3 for loops over weights, rows and the vocabulary; the same bits in every copy of a loop, so multiplications and
#           additions are never fused
#   light   what reads arguments, describes and prints, mostly with JSON, which its headers hold: -O2 takes longer to compile and
#           gains nothing
#   test    a test's own code: as light, and what it calls is optimised as ever
#   json_test  the same where most tests read JSON
set(TARE_KINDS usual exact light test json_test)
set(TARE_OPTIONS_usual "")
set(TARE_OPTIONS_exact -ffp-contract=off -O3)
set(TARE_OPTIONS_light $<$<AND:$<CONFIG:RelWithDebInfo>,$<COMPILE_LANGUAGE:CXX>>:-Og>)
set(TARE_OPTIONS_test ${TARE_OPTIONS_light})
set(TARE_OPTIONS_json_test ${TARE_OPTIONS_light})

# tare_optimised(TARGET KIND)
function(tare_optimised target kind)
  if(NOT kind IN_LIST TARE_KINDS)
    message(FATAL_ERROR "${target}: no kind of optimisation is called '${kind}'; there are ${TARE_KINDS}")
  endif()
  target_compile_options(${target} PRIVATE ${TARE_OPTIONS_${kind}})
  tare_precompiled(${target} tare_${kind}_headers)
endfunction()

# tare_exact_sources(SOURCE ...): of a target of another kind, of this folder.
function(tare_exact_sources)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "${TARE_OPTIONS_exact}" SKIP_PRECOMPILE_HEADERS ON)
endfunction()
