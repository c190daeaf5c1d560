#include "reports/pdf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "reports/report.h"
#include "sample_findings.h"
#include "temporary_directory.h"

namespace tare::reports {
namespace {

using testing::HasSubstr;

TEST(DatedPdf, MovesNoByteWhateverTheZone) {
  for (const std::string zone : {"Z", "+01'00"}) {
    const std::string pdf = "<< /Producer (cairo)\n /CreationDate (D:20261130104152" + zone + ")\n>>\nrest";
    const std::string dated = dated_pdf(pdf, "2026-11-29T15:04:05.123Z");
    EXPECT_EQ(dated.size(), pdf.size());
    EXPECT_THAT(dated, HasSubstr("/CreationDate (D:20261129150405Z)"));
    EXPECT_EQ(dated.find("\n>>\nrest"), pdf.find("\n>>\nrest"));
  }
}

TEST(DatedPdf, RefusesWhatHasNoDateAndWhatIsNoTime) {
  EXPECT_THROW((void)dated_pdf("<< /Producer (cairo) >>", "2026-11-29T15:04:05Z"), Error);
  EXPECT_THROW((void)dated_pdf("/CreationDate (D:2026)", "2026-11-29T15:04:05Z"), Error);
  EXPECT_THROW((void)dated_pdf("/CreationDate (D:20261130104152Z)", "2026-11-29"), Error);
}

// Drawn in other seconds, which gnuplot's own dates count.
TEST(WriteReport, PrintedFiguresAreTheSameEveryTime) {
  using namespace std::chrono_literals;
  const TemporaryDirectory directory;
  const auto write = [&](const char* name, const Findings& findings) {
    return write_report(findings, directory.path() / name, {.for_print = true});
  };
  Findings findings = sample::three_arms();
  const WrittenReport first = write("a", findings);
  std::this_thread::sleep_for(1100ms);
  (void)write("b", findings);
  int printed = 0;
  for (const std::filesystem::path& file : first.files) {
    const std::string bytes = read_text_file(file);
    EXPECT_EQ(bytes, read_text_file(directory.path() / "b" / std::filesystem::relative(file, directory.path() / "a")))
        << file;
    if (file.extension() == ".pdf") {
      EXPECT_THAT(bytes, HasSubstr("/CreationDate (D:20261129")) << file;
    }
    if (file.extension() == ".pdf" || file.extension() == ".png") ++printed;
  }
  EXPECT_EQ(printed, 6);  // three figures
  // The control: what ended at another time has another date.
  findings.stop.ended_utc = "2026-11-30T01:02:03Z";
  (void)write("c", findings);
  EXPECT_THAT(read_text_file(directory.path() / "c" / "figures" / "effects.pdf"), HasSubstr("(D:20261130010203Z)"));
}

}  // namespace
}  // namespace tare::reports
