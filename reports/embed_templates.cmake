# Writes OUTPUT, a C++ file that defines one raw string for each file in TEMPLATES (a list joined by "|").
# Called at build time: cmake -DTEMPLATES=... -DOUTPUT=... -P embed_templates.cmake
string(REPLACE "|" ";" TEMPLATES "${TEMPLATES}")
set(text "// Made from reports/templates/ by embed_templates.cmake; do not edit.\n#include \"reports/templates.h\"\n\n")
string(APPEND text "namespace tare::reports::templates {\n\n")
foreach(template ${TEMPLATES})
  get_filename_component(name "${template}" NAME)
  string(REPLACE "." "_" name "${name}")
  file(READ "${template}" content)
  string(APPEND text "const std::string_view ${name} = R\"TEMPLATE(${content})TEMPLATE\";\n\n")
endforeach()
string(APPEND text "}  // namespace tare::reports::templates\n")
file(WRITE "${OUTPUT}" "${text}")
