// The examples of the documentation are run: every fenced block that follows a line `<!-- example -->`, line by line,
// in a folder that looks like the repository's root and holds an export of Nsight Systems, capture.sqlite.
#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "tests/e2e/workspace.h"
#include "tests/profiles/nsys_fixture.h"

namespace tare::e2e {
namespace {

namespace fs = std::filesystem;

struct Example {
  std::string place;  // file:line
  std::vector<std::string> lines;
};

std::vector<Example> examples_of(const fs::path& file) {
  std::vector<Example> examples;
  std::ifstream stream(file);
  std::string line;
  bool marked = false;
  bool inside = false;
  for (int number = 1; std::getline(stream, line); ++number) {
    if (line == "<!-- example -->") {
      marked = true;
    } else if (marked && line.starts_with("```")) {
      inside = !inside;
      if (inside) examples.push_back({file.filename().string() + ":" + std::to_string(number), {}});
      if (!inside) marked = false;
    } else if (inside && !line.empty()) {
      examples.back().lines.push_back(line);
    }
  }
  return examples;
}

using Documentation = Workspace;

TEST_F(Documentation, ExamplesRun) {
  for (const char* name : {"models", "prompts", "experiments"})
    fs::create_directory_symlink(source(name), folder_ / name);
  profiles::write_decode_capture(folder_ / "capture.sqlite", profiles::known_schemas().back());
  std::vector<fs::path> files = {source("README.md")};
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(source("docs")))
    if (entry.path().extension() == ".md") files.push_back(entry.path());
  std::size_t commands = 0;
  for (const fs::path& file : files) {
    for (const Example& example : examples_of(file)) {
      for (const std::string& line : example.lines) {
        const std::string command = "PATH=" + std::string(TARE_BINARY_DIR) + "/bin:$PATH; " + line;
        const Finished result = run({"/bin/sh", "-c", command}, folder_);
        EXPECT_EQ(result.code, 0) << example.place << ": " << line << "\n" << result.err;
        ++commands;
      }
    }
  }
  EXPECT_GE(commands, 5U);  // the marks are still found
}

TEST_F(Documentation, FindsExamplesAndCatchesABrokenOne) {
  const std::string file = write("page.md", "text\n<!-- example -->\n```\nfalse\n```\n```\nnot marked\n```\n");
  const std::vector<Example> examples = examples_of(file);
  ASSERT_EQ(examples.size(), 1U);
  ASSERT_EQ(examples[0].lines, std::vector<std::string>{"false"});
  EXPECT_NE(run({"/bin/sh", "-c", examples[0].lines[0]}, folder_).code, 0);
}

TEST_F(Documentation, EveryLinkInsideTheRepositoryLeadsSomewhere) {
  std::vector<fs::path> files = {source("README.md")};
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(source("docs")))
    if (entry.path().extension() == ".md") files.push_back(entry.path());
  for (const fs::path& file : files) {
    const std::string text = read_text_file(file);
    for (std::size_t at = text.find("]("); at != std::string::npos; at = text.find("](", at + 1)) {
      std::string target = text.substr(at + 2, text.find(')', at) - at - 2);
      target = target.substr(0, target.find('#'));
      if (target.empty() || target.find("://") != std::string::npos) continue;
      EXPECT_TRUE(fs::exists(file.parent_path() / target)) << file << " links to " << target;
    }
  }
}

}  // namespace
}  // namespace tare::e2e
