// Reports loaded in headless Chromium: no error, no request, every figure with its words, nothing cut off, overlapping
// or too faint to read, at 1,200 and 400 px, in dark mode, and printed.
#include <gmock/gmock.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json_reader.h"
#include "reports/report.h"
#include "tests/reports/sample_findings.h"
#include "tests/reports/sample_times.h"
#include "tests/reports/temporary_directory.h"

namespace tare::reports {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::uint32_t kWide = 1200;  // px, as look.py has them
constexpr std::uint32_t kNarrow = 400;

std::string output_of(const std::string& command, int& status) {
  std::string out;
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return out;
  std::array<char, 4096> buffer{};
  for (std::size_t count = 0; (count = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    out.append(buffer.data(), count);
  status = ::pclose(pipe);
  return out;
}

bool is_there(const std::string& program) {
  return std::system(("command -v " + program + " >/dev/null 2>&1").c_str()) == 0;
}

// The width in the header of a PNG file.
std::uint32_t png_width(const fs::path& file) {
  constexpr std::size_t kWidthAt = 16;
  const std::string bytes = read_text_file(file);
  if (bytes.size() < kWidthAt + 4 || bytes.substr(1, 3) != "PNG") return 0;
  std::uint32_t width = 0;
  for (std::size_t i = 0; i < 4; ++i) width = width << 8U | static_cast<std::uint8_t>(bytes[kWidthAt + i]);
  return width;
}

class InABrowser : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_there("chromium")) GTEST_SKIP() << "no Chromium here: apt-get install chromium, to look at reports";
    if (!is_there("python3")) GTEST_SKIP() << "no python3 here";
  }

  static fs::path pictures(const std::string& name) { return fs::path(TARE_BINARY_DIR) / "screenshots" / name; }

  // What look.py says of a page.
  static Json look(const fs::path& page, const std::string& name) {
    int status = -1;
    const std::string out = output_of("python3 -B '" + std::string(TARE_SOURCE_DIR) + "/tests/browser/look.py' '" +
                                          page.string() + "' '" + pictures(name).string() + "'",
                                      status);
    EXPECT_EQ(status, 0) << out;
    return status == 0 ? parse_json(out, "look.py") : Json::object();
  }

  static std::vector<std::string> faults_of(const Json& seen) {
    std::vector<std::string> faults;
    for (const Json& fault : seen.at("faults"))
      faults.push_back(fault.at("where").get<std::string>() + ": " + fault.at("what").get<std::string>());
    return faults;
  }

  // Writes the report of `findings`, looks at it and expects it to be sound.
  void expect_sound(const Findings& findings, const std::string& name) {
    const TemporaryDirectory directory;
    const WrittenReport written = write_report(findings, directory.path());
    ASSERT_THAT(written.missing, IsEmpty());
    const Json seen = look(directory.path() / "report.html", name);
    ASSERT_TRUE(seen.contains("faults"));
    EXPECT_THAT(faults_of(seen), IsEmpty());
    std::size_t drawn = 0;
    for (const Plot& plot : report_plots(findings)) {
      if (!plot.nothing.empty()) continue;
      ++drawn;
      for (const char* view : {"wide", "narrow", "dark"}) {
        std::size_t found = 0;
        for (const Json& figure : seen["views"][view]["figures"])
          if (figure["name"] == plot.name + "-title" && figure["texts"] > 0) ++found;
        EXPECT_EQ(found, 1U) << plot.name << " in " << view;
      }
    }
    EXPECT_GE(drawn, 3U);
    EXPECT_EQ(png_width(pictures(name) / "wide.png"), kWide);
    EXPECT_EQ(png_width(pictures(name) / "narrow.png"), kNarrow);
    EXPECT_GT(seen["views"]["wide"]["ground"], 0.8);  // luminance, 0 to 1
    EXPECT_LT(seen["views"]["dark"]["ground"], 0.1);
    EXPECT_EQ(read_text_file(pictures(name) / "print.pdf").substr(0, 5), "%PDF-");
  }
};

TEST_F(InABrowser, AReportWithEveryFigureIsSound) {
  Findings findings = sample::three_arms();
  sample::add_op_times(findings);
  expect_sound(findings, "three_arms");
}

TEST_F(InABrowser, AReportOfAMatrixIsSound) {
  expect_sound(sample::matrix(), "matrix");
}

TEST_F(InABrowser, AReportOfHostileNamesIsSound) {
  Findings findings = sample::hostile();
  sample::add_op_times(findings);
  sample::rename_times(findings.times, sample::hostile_name());
  expect_sound(findings, "hostile");
}

TEST_F(InABrowser, ABrokenPageIsCaughtInEveryWay) {
  const TemporaryDirectory directory;
  const fs::path page = directory.path() / "broken.html";
  write_file_atomically(page, R"html(<!DOCTYPE html><html lang="en"><title>broken</title>
<body style="background:#fff;color:#111"><p style="color:#ccc">faint</p><div style="width:900px">wide</div>
<img src="not-there.png" alt="">
<figure><svg role="img" width="300" height="100" viewBox="0 0 300 100">
<text x="20" y="50" font-size="14">one label</text><text x="30" y="52" font-size="14">another</text>
<text x="270" y="20" font-size="14">cut off</text><text x="20" y="90" font-size="4">tiny</text>
<text x="120" y="90" font-size="14" fill="#eee">faint label</text>
<text x="200" y="60" font-size="14">hidden</text><rect x="190" y="40" width="80" height="30" fill="#123"/></svg></figure>
<script>console.error('said on the console'); null.length;</script></body></html>)html");
  const std::vector<std::string> faults = faults_of(look(page, "broken"));
  for (const char* wanted :
       {"narrow: the page is", "wide: 'faint' has a contrast of", "loading: console: said on the console",
        "loading: exception: Uncaught", "loading: a request failed", "lies over 'another'",
        "'cut off' is cut off by the edge", "'tiny' is 4.0 px high", "'hidden' is painted over",
        "'faint label' has a contrast of", "nothing said for those who do not see it", "no caption"})
    EXPECT_THAT(faults, Contains(HasSubstr(wanted)));
}

}  // namespace
}  // namespace tare::reports
