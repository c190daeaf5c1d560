// The files of reports/templates/, embedded at build time (embed_templates.cmake).
#pragma once

#include <string_view>

namespace tare::reports::templates {

extern const std::string_view page_mustache;   // the whole page; partial: block
extern const std::string_view block_mustache;  // one paragraph, table, figure or listing
extern const std::string_view style_css;

}  // namespace tare::reports::templates
