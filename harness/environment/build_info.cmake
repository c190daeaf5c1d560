# Run at every build (cmake -P): writes OUTPUT from TEMPLATE with the commit as it is now. configure_file leaves the file
# untouched when nothing changed, so nothing is compiled anew then.
set(commit "unknown")
set(dirty "false")
execute_process(COMMAND git rev-parse HEAD WORKING_DIRECTORY ${SOURCE_DIR}
  OUTPUT_VARIABLE head OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(NOT failed)
  set(commit "${head}")
  execute_process(COMMAND git --no-optional-locks status --porcelain --untracked-files=no
    WORKING_DIRECTORY ${SOURCE_DIR} OUTPUT_VARIABLE changes ERROR_QUIET)
  if(NOT "${changes}" STREQUAL "")
    set(dirty "true")
  endif()
endif()
configure_file(${TEMPLATE} ${OUTPUT} @ONLY)
