// What a PDF of gnuplot says that is not the figure's.
#pragma once

#include <string>
#include <string_view>

namespace tare::reports {

// The PDF with `utc` ("2026-11-29T15:04:05Z", a fraction of a second is left out) as its creation date, in place of
// when it was drawn: the same findings give the same bytes. No byte moves, for a PDF has a table of offsets. Throws
// Error (internal): `utc` is no time, or the PDF has no date in clear text.
[[nodiscard]] std::string dated_pdf(std::string pdf, std::string_view utc);

}  // namespace tare::reports
