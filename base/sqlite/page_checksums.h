// Checksums of a database's pages. SQLite has none: a bit that turned in a stored number is read as another number.
// Here every page of a file that we make ends with eight bytes that SQLite leaves alone (its header's byte 20 says so),
// and they hold XXH3-64 of the page's other bytes, seeded with the page's number, little-endian. They are written with
// the page and compared whenever it is read; a page that does not fit is SQLITE_IOERR_DATA, which Connection turns into
// an Error (input). Files without them (made by others, or before) are read as they are.
//
// The same idea as SQLite's own cksumvfs extension, which Debian does not build; another sum, so that the two never
// take each other's files for right. A program without this layer reads such a file, and damages it by writing.
#pragma once

namespace tare {

constexpr int kPageChecksumBytes = 8;

// Name of the layer over the default file system layer, registered at the first call; for sqlite3_open_v2.
[[nodiscard]] const char* checked_file_layer();

}  // namespace tare
