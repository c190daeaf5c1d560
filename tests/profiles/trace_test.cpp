#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "base/philox.h"
#include "profiles/nsys/nsys_tracks.h"
#include "profiles/trace/chrome_trace.h"
#include "profiles/trace/round_tracks.h"
#include "tests/profiles/nsys_fixture.h"

namespace tare::profiles {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A slice as a viewer reads it back: nanoseconds from the trace's begin, exact as long as the text was.
struct Drawn {
  std::int64_t process = 0;
  std::int64_t thread = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::string name;
};

struct Picture {
  Json json;
  std::vector<Drawn> slices;
  std::map<std::int64_t, std::string> processes;
  std::map<std::int64_t, std::string> threads;

  [[nodiscard]] std::vector<Drawn> on(const std::string& thread) const {
    std::vector<Drawn> found;
    for (const Drawn& slice : slices)
      if (threads.at(slice.thread) == thread) found.push_back(slice);
    return found;
  }
};

Picture read(const std::string& text) {
  Picture picture;
  picture.json = parse_json(text, "trace");
  for (const Json& event : picture.json.at("traceEvents")) {
    const std::string kind = event.at("ph");
    if (kind == "X") {
      const std::int64_t start = std::llround(event.at("ts").get<double>() * 1e3);
      picture.slices.push_back({event.at("pid"), event.at("tid"), start,
                                start + std::llround(event.at("dur").get<double>() * 1e3), event.at("name")});
    } else {
      EXPECT_EQ(kind, "M");
      const std::string name = event.at("name");
      if (name == "process_name") picture.processes[event.at("pid")] = event.at("args").at("name");
      if (name == "thread_name") picture.threads[event.at("tid")] = event.at("args").at("name");
    }
  }
  return picture;
}

// What a viewer would draw wrongly: slices of one thread that neither nest nor keep apart.
std::vector<std::string> conflicts(const std::vector<Drawn>& slices) {
  std::vector<std::string> found;
  for (std::size_t a = 0; a < slices.size(); ++a)
    for (std::size_t b = a + 1; b < slices.size(); ++b) {
      if (slices[a].process != slices[b].process || slices[a].thread != slices[b].thread) continue;
      const bool apart = slices[a].end_ns <= slices[b].start_ns || slices[b].end_ns <= slices[a].start_ns;
      const bool nested = (slices[a].start_ns <= slices[b].start_ns && slices[b].end_ns <= slices[a].end_ns) ||
                          (slices[b].start_ns <= slices[a].start_ns && slices[a].end_ns <= slices[b].end_ns);
      if (!apart && !nested) found.push_back(slices[a].name + " and " + slices[b].name);
    }
  return found;
}

TraceSlice slice(std::int64_t start_ns, std::int64_t end_ns, const std::string& name) {
  return {start_ns, end_ns, name, "kernel", nullptr};
}

TEST(ChromeTrace, WritesTimesToTheNanosecond) {
  constexpr std::int64_t kEpoch = 1'764'450'000'123'456'789;  // which no double holds
  const Picture picture =
      read(chrome_trace({{"GPU 0",
                          "stream 7",
                          false,
                          {slice(kEpoch, kEpoch + 1'001, "a"), slice(kEpoch + 2'000'007, kEpoch + 2'000'009, "b")}}},
                        {{"made_by", "a test"}}));
  ASSERT_EQ(picture.slices.size(), 2U);
  EXPECT_EQ(picture.slices[0].start_ns, 0);
  EXPECT_EQ(picture.slices[0].end_ns, 1'001);
  EXPECT_EQ(picture.slices[1].start_ns, 2'000'007);
  EXPECT_EQ(picture.slices[1].end_ns, 2'000'009);
  EXPECT_EQ(picture.json.at("displayTimeUnit"), "ns");
  EXPECT_EQ(picture.json.at("otherData").at("made_by"), "a test");
  EXPECT_THAT(picture.processes, ElementsAre(testing::Pair(1, "GPU 0")));
  EXPECT_THAT(picture.threads, ElementsAre(testing::Pair(1, "stream 7")));
}

TEST(ChromeTrace, GivesOverlappingKernelsALaneOfTheirOwn) {
  const std::vector<TraceSlice> kernels = {slice(9, 30, "c"), slice(0, 10, "a"), slice(2, 18, "b"), slice(30, 31, "d")};
  const Picture picture = read(chrome_trace({{"GPU 0", "stream 7", false, kernels}}, {}));
  EXPECT_THAT(conflicts(picture.slices), IsEmpty());
  EXPECT_EQ(picture.slices.size(), 4U);
  EXPECT_EQ(picture.on("stream 7").size(), 2U);  // a, d
  EXPECT_EQ(picture.on("stream 7, lane 2").size(), 1U);
  EXPECT_EQ(picture.on("stream 7, lane 3").size(), 1U);
  // The checker sees what lanes are there for.
  EXPECT_THAT(conflicts({{1, 1, 0, 10, "a"}, {1, 1, 2, 18, "b"}}), ElementsAre("a and b"));
}

TEST(ChromeTrace, NestsRangesAsCalls) {
  const std::vector<TraceSlice> ranges = {slice(10, 20, "inner"), slice(0, 100, "outer"), slice(90, 120, "astride")};
  const Picture picture = read(chrome_trace({{"process 1", "thread 1", true, ranges}}, {}));
  EXPECT_THAT(conflicts(picture.slices), IsEmpty());
  ASSERT_EQ(picture.on("thread 1").size(), 2U);
  EXPECT_EQ(picture.on("thread 1, lane 2").at(0).name, "astride");
}

TEST(ChromeTrace, DrawsWhateverOverlapsWithoutConflict) {
  for (std::uint64_t trial = 0; trial < 60; ++trial) {
    Philox numbers(trial + 1);
    std::vector<TraceTrack> tracks = {{"GPU 0", "stream 7", false, {}}, {"process 1", "thread 1", true, {}}};
    for (TraceTrack& track : tracks)
      for (int i = 0; i < 40; ++i) {
        const auto start = static_cast<std::int64_t>(numbers.below(100));
        track.slices.push_back(slice(start, start + 1 + static_cast<std::int64_t>(numbers.below(30)), "k"));
      }
    const Picture picture = read(chrome_trace(tracks, {}));
    ASSERT_EQ(picture.slices.size(), 80U);
    ASSERT_THAT(conflicts(picture.slices), IsEmpty()) << trial;
  }
}

TEST(ChromeTrace, EscapesNames) {
  const std::string odd = "quote \" back \\ line \n null \x01 caf\xc3\xa9 broken \xff";
  const Picture picture = read(chrome_trace({{odd, odd, false, {slice(0, 1, odd)}}}, {}));
  EXPECT_THAT(picture.slices.at(0).name,
              HasSubstr("quote \" back \\ line \n null \x01 caf\xc3\xa9 broken \xef\xbf\xbd"));
}

TEST(ChromeTrace, RefusesASliceThatEndsBeforeItStarts) {
  EXPECT_THROW((void)chrome_trace({{"GPU 0", "stream 7", false, {slice(2, 1, "a")}}}, {}), Error);
}

TEST(RoundTracks, ShowSharesBytesAndParts) {
  const std::vector<std::vector<KernelRecord>> rounds = {{{0, 7, 11, 0, 10'000}, {1, 8, 12, 3'000, 15'000}},
                                                         {{0, 7, 11, 20'000, 30'000}}};
  const std::vector<std::string> names = {"product<16>", "norm"};
  const std::vector<engine::LaunchRecord> launches = {{"q4_gemm", "layers.0.mlp", 0}, {"", "", 0}};
  const std::vector<TraceTrack> tracks = round_tracks("GPU 0", rounds, names, launches, [](std::size_t, std::size_t i) {
    return i == 0 ? RecordLabel{0, 40'000} : RecordLabel{1, 0};
  });
  ASSERT_EQ(tracks.size(), 3U);
  EXPECT_EQ(tracks[0].name, "rounds");
  ASSERT_EQ(tracks[0].slices.size(), 2U);
  EXPECT_EQ(tracks[0].slices[0].name, "round 0");
  EXPECT_EQ(tracks[0].slices[0].end_ns, 15'000);
  EXPECT_EQ(tracks[1].name, "stream 7");
  EXPECT_EQ(tracks[1].slices.at(1).start_ns, 20'000);
  const Json& product = tracks[1].slices.at(0).details;
  EXPECT_EQ(product.at("launch"), "q4_gemm");
  EXPECT_EQ(product.at("part"), "layers.0.mlp");
  EXPECT_EQ(product.at("graph_node"), 11);
  EXPECT_NEAR(product.at("gb_per_s").get<double>(), 4, 1e-9);
  EXPECT_NEAR(tracks[2].slices.at(0).details.at("share_us").get<double>(), 5, 1e-9);
  EXPECT_FALSE(tracks[2].slices.at(0).details.contains("bytes"));
}

// What the page of the format says, and no more: every key of a round's and a kernel's details, once.
TEST(TracePage, NamesEveryKey) {
  const std::vector<std::vector<KernelRecord>> rounds = {{{0, 7, 11, 0, 10'000}}};
  const std::vector<std::string> names = {"product<16>"};
  const std::vector<engine::LaunchRecord> launches = {{"q4_gemm", "layers.0.mlp", 0}};
  const std::vector<TraceTrack> tracks = round_tracks("GPU 0", rounds, names, launches, [](std::size_t, std::size_t) {
    return RecordLabel{0, 40'000};
  });
  const std::string page = read_text_file(std::string(TARE_SOURCE_DIR) + "/docs/protocol/trace.md");
  for (const auto& [key, value] : tracks.at(0).slices.at(0).details.items())
    EXPECT_THAT(page, HasSubstr("`" + key + "`")) << "of a round";
  std::size_t kernel_keys = 0;
  for (const auto& [key, value] : tracks.at(1).slices.at(0).details.items()) {
    EXPECT_THAT(page, HasSubstr("\n| `" + key + "` |")) << "of a kernel";
    ++kernel_keys;
  }
  std::size_t rows = 0;
  const std::size_t table = page.find("| key of a kernel's");
  ASSERT_NE(table, std::string::npos);
  for (std::size_t at = page.find("\n| `", table); at != std::string::npos; at = page.find("\n| `", at + 1)) ++rows;
  EXPECT_EQ(rows, kernel_keys);
}

TEST(NsysTracks, ShowTheFirstRoundsAndTheRangesAroundThem) {
  const fs::path file = fs::path(testing::TempDir()) / "tare-nsys-tracks.sqlite";
  fs::remove(file);
  write_decode_capture(file, known_schemas().back());
  const NsysProfile profile = import_nsys(file, {});
  fs::remove(file);
  const Picture picture = read(chrome_trace(nsys_tracks(profile, 2), {}));
  EXPECT_THAT(conflicts(picture.slices), IsEmpty());
  EXPECT_EQ(picture.on("rounds").size(), 2U);
  EXPECT_EQ(picture.on("stream 7").size() + picture.on("stream 7, lane 2").size(), 2 * 21U);
  std::vector<std::string> ranges;
  for (const Drawn& range : picture.on("thread 4242")) ranges.push_back(range.name);
  EXPECT_THAT(ranges, ElementsAre("round", "draft", "verify", "round", "draft", "verify"));
  // The launches lie before their kernels: the host's clock is the GPU's.
  EXPECT_LT(picture.on("thread 4242").at(0).start_ns, picture.on("stream 7").at(0).start_ns);
  EXPECT_THAT(picture.processes, testing::Contains(testing::Pair(testing::_, "process 4242")));
}

}  // namespace
}  // namespace tare::profiles
