// What the stored goldens do not say: any bytes, wrong files, wrong ids.
#include "engine/tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json_reader.h"
#include "base/philox.h"
#include "engine/tokenizer/nfc.h"
#include "tests/engine/scratch_directory.h"

namespace tare::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::filesystem::path kFixture =
    std::filesystem::path(TARE_SOURCE_DIR) / "tests/fixtures/tokenizer/tokenizer.json";

Tokenizer fixture() {
  return Tokenizer::from_file(kFixture);
}

SortedJson fixture_json() {
  return parse_sorted_json(read_text_file(kFixture), "tokenizer.json");
}

Tokenizer tokenizer_of(const SortedJson& file) {
  const ScratchDirectory scratch;
  write_file_atomically(scratch.path() / "tokenizer.json", file.dump());
  return Tokenizer::from_file(scratch.path() / "tokenizer.json");
}

TEST(Tokenizer, EveryByteByItselfRoundTrips) {
  const Tokenizer tokenizer = fixture();
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text(1, static_cast<char>(byte));
    const auto ids = tokenizer.encode(text);
    EXPECT_EQ(ids.size(), 1U) << byte;
    EXPECT_EQ(tokenizer.decode(ids), text) << byte;
  }
}

TEST(Tokenizer, RandomBytesRoundTrip) {
  const Tokenizer tokenizer = fixture();
  Philox random(1);
  for (int text_index = 0; text_index < 200; ++text_index) {
    std::string text(random.below(300), '\0');
    for (char& character : text) character = static_cast<char>(random.below(256));
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
}

TEST(Tokenizer, BytesThatAreNotUtf8StandAlone) {
  const Tokenizer tokenizer = fixture();
  // A truncated sequence, an overlong slash, a surrogate, a code point above U+10FFFF, a lone continuation byte.
  for (const std::string bad : {"\xE2\x82", "\xC0\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\x80"}) {
    std::vector<std::int32_t> wanted = tokenizer.encode("the ");
    for (const char byte : bad) wanted.push_back(tokenizer.encode(std::string(1, byte)).at(0));
    for (const std::int32_t id : tokenizer.encode(" end")) wanted.push_back(id);
    EXPECT_EQ(tokenizer.encode("the " + bad + " end"), wanted);
  }
}

TEST(Tokenizer, SpecialTokensInTheTextAreRecognised) {
  const Tokenizer tokenizer = fixture();
  EXPECT_EQ(tokenizer.special_token("<|im_end|>"), 2);
  EXPECT_EQ(tokenizer.special_token("the"), std::nullopt);
  EXPECT_THAT(tokenizer.encode("<|im_start|><|im_end|>"), ElementsAre(1, 2));
  EXPECT_EQ(tokenizer.decode(std::vector<std::int32_t>{1, 2}), "<|im_start|><|im_end|>");
}

TEST(Tokenizer, MegabytesOfOneWordAreEncodedExactly) {
  const Tokenizer tokenizer = fixture();
  for (const std::string& text :
       {std::string(2'000'000, ' '), std::string(2'000'000, 'a'), std::string(2'000'000, '\n')})
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)).size(), text.size());
}

TEST(Tokenizer, TokenBytesAreThePartsOfDecode) {
  const Tokenizer tokenizer = fixture();
  const auto ids = tokenizer.encode("na\u00efve \U0001F600 text");
  std::string joined;
  for (const std::int32_t id : ids) joined += tokenizer.token_bytes(id);
  EXPECT_EQ(joined, "na\u00efve \U0001F600 text");
}

TEST(Tokenizer, AnIdOutsideTheVocabularyIsRefused) {
  const Tokenizer tokenizer = fixture();
  EXPECT_EQ(tokenizer.vocab_size(), 4096);
  for (const std::int32_t id : {-1, 4096, 2'000'000'000}) {
    try {
      static_cast<void>(tokenizer.decode(std::vector<std::int32_t>{id}));
      FAIL() << id;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      EXPECT_THAT(error.parts().what, HasSubstr("no token with id " + std::to_string(id)));
    }
  }
}

TEST(Tokenizer, TheDigestNamesTheFile) {
  SortedJson changed = fixture_json();
  changed["version"] = "1.1";
  EXPECT_EQ(fixture().digest(), fixture().digest());
  EXPECT_EQ(fixture().digest().size(), 32U);
  EXPECT_NE(tokenizer_of(changed).digest(), fixture().digest());
}

struct BadFile {
  const char* name;
  std::function<void(SortedJson&)> spoil;
  const char* where;
  const char* what;
};

void PrintTo(const BadFile& bad, std::ostream* stream) {
  *stream << bad.name;
}

class RefusedTokenizer : public testing::TestWithParam<BadFile> {};

TEST_P(RefusedTokenizer, NamesTheField) {
  SortedJson file = fixture_json();
  EXPECT_NO_THROW(tokenizer_of(file));  // the file before it is spoilt is fine
  GetParam().spoil(file);
  try {
    tokenizer_of(file);
    FAIL() << "was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_THAT(error.parts().where, HasSubstr(GetParam().where));
    EXPECT_THAT(error.parts().what, HasSubstr(GetParam().what));
  }
}

SortedJson& first_split(SortedJson& file) {
  return file["pre_tokenizer"]["pretokenizers"][0];
}

INSTANTIATE_TEST_SUITE_P(
    EveryField, RefusedTokenizer,
    testing::Values(
        BadFile{"normalizer",
                [](SortedJson& f) {
                  f["normalizer"] = {{"type", "NFKC"}};
                },
                "normalizer.type", "NFKC"},
        BadFile{"pre_tokenizer",
                [](SortedJson& f) {
                  f["pre_tokenizer"] = {{"type", "Metaspace"}};
                },
                "pre_tokenizer.type", "Metaspace"},
        BadFile{"no_pre_tokenizer", [](SortedJson& f) { f["pre_tokenizer"] = nullptr; }, "pre_tokenizer",
                "must be an object"},
        BadFile{"behavior", [](SortedJson& f) { first_split(f)["behavior"] = "Removed"; }, "pretokenizers[0].behavior",
                "Removed"},
        BadFile{"invert", [](SortedJson& f) { first_split(f)["invert"] = true; }, "pretokenizers[0].invert", "false"},
        BadFile{"pattern", [](SortedJson& f) { first_split(f)["pattern"]["Regex"] = "(a"; }, "pattern", "PCRE2"},
        BadFile{"prefix_space",
                [](SortedJson& f) { f["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = true; },
                "pretokenizers[1].add_prefix_space", "must be false"},
        BadFile{"decoder", [](SortedJson& f) { f["decoder"]["type"] = "WordPiece"; }, "decoder.type", "ByteLevel"},
        BadFile{"truncation",
                [](SortedJson& f) {
                  f["truncation"] = {{"max_length", 8}};
                },
                "truncation", "not supported"},
        BadFile{"model", [](SortedJson& f) { f["model"]["type"] = "Unigram"; }, "model.type", "BPE"},
        BadFile{"byte_fallback", [](SortedJson& f) { f["model"]["byte_fallback"] = true; }, "model.byte_fallback",
                "false"},
        BadFile{"dropout", [](SortedJson& f) { f["model"]["dropout"] = 0.1; }, "model.dropout", "null"},
        BadFile{"suffix", [](SortedJson& f) { f["model"]["end_of_word_suffix"] = "</w>"; }, "model.end_of_word_suffix",
                "empty"},
        BadFile{"lost_byte", [](SortedJson& f) { f["model"]["vocab"].erase("A"); }, "model.vocab", "byte 0x41"},
        BadFile{"shared_id", [](SortedJson& f) { f["model"]["vocab"]["new"] = 100; }, "model.vocab", "shares id 100"},
        BadFile{"huge_id", [](SortedJson& f) { f["model"]["vocab"]["new"] = 2'000'000'000; }, "model.vocab['new']",
                "2000000000"},
        BadFile{"negative_id", [](SortedJson& f) { f["model"]["vocab"]["new"] = -1; }, "model.vocab['new']", "-1"},
        BadFile{"merge_form", [](SortedJson& f) { f["model"]["merges"][5] = "a b c"; }, "model.merges[5]", "a b c"},
        BadFile{"merge_part",
                [](SortedJson& f) {
                  f["model"]["merges"][5] = {"a", "zq!"};
                },
                "model.merges[5]", "zq!"},
        BadFile{"merge_result",
                [](SortedJson& f) {
                  f["model"]["merges"][5] = {"Q", "Q"};
                },
                "model.merges[5]", "QQ"},
        BadFile{"single_word", [](SortedJson& f) { f["added_tokens"][1]["single_word"] = true; },
                "added_tokens[1].single_word", "false"},
        BadFile{"added_twice", [](SortedJson& f) { f["added_tokens"].push_back(f["added_tokens"][0]); },
                "added_tokens[4]", "twice"},
        BadFile{"added_id", [](SortedJson& f) { f["added_tokens"][1]["id"] = 7; }, "added_tokens[1].id", "vocab"}),
    [](const auto& bad) { return std::string(bad.param.name); });

TEST(Tokenizer, AFileThatIsNotJsonIsRefusedWithItsPlace) {
  const ScratchDirectory scratch;
  write_file_atomically(scratch.path() / "tokenizer.json", "{\"model\": ");
  EXPECT_THROW(Tokenizer::from_file(scratch.path() / "tokenizer.json"), Error);
  EXPECT_THROW(Tokenizer::from_file(scratch.path() / "absent.json"), Error);
}

TEST(Nfc, ComposesReordersAndKeepsExclusions) {
  EXPECT_EQ(normalize_nfc("plain"), "plain");
  EXPECT_EQ(normalize_nfc("cafe\u0301"), "caf\u00e9");
  EXPECT_EQ(normalize_nfc("q\u0307\u0323"), "q\u0323\u0307");      // ordered by class, nothing to compose
  EXPECT_EQ(normalize_nfc("s\u0307\u0323"), "\u1e69");             // ordered, then composed twice
  EXPECT_EQ(normalize_nfc("a\u0315\u0300"), "\u00e0\u0315");       // composed past a mark of a higher class
  EXPECT_EQ(normalize_nfc("\u212b"), "\u00c5");                    // singleton
  EXPECT_EQ(normalize_nfc("\u0958"), "\u0915\u093c");              // composition exclusion
  EXPECT_EQ(normalize_nfc("\u1112\u1161\u11ab"), "\ud55c");        // Hangul by arithmetic
  EXPECT_EQ(normalize_nfc("\ud558\u11ab"), "\ud55c");              // open syllable and trailing consonant
  EXPECT_EQ(normalize_nfc("\u1100\u1161\u11a7"), "\uac00\u11a7");  // U+11A7 is no trailing consonant
  EXPECT_EQ(normalize_nfc("e\u0301e\u0301"), "\u00e9\u00e9");
  EXPECT_EQ(normalize_nfc("\u0301e"), "\u0301e");  // a mark without a letter
}

}  // namespace
}  // namespace tare::engine
