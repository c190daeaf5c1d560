// safetensors files: what is written can be read, and what the format forbids is refused with its reason.
#include "engine/checkpoint/safetensors.h"

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "tests/engine/model_files.h"

namespace tare::engine {
namespace {

using testing::ElementsAre;

constexpr Dtype kEveryDtype[] = {Dtype::kF64,    Dtype::kF32,        Dtype::kF16,        Dtype::kBF16,   Dtype::kI64,
                                 Dtype::kI32,    Dtype::kI16,        Dtype::kI8,         Dtype::kU64,    Dtype::kU32,
                                 Dtype::kU16,    Dtype::kU8,         Dtype::kBool,       Dtype::kF8E4M3, Dtype::kF8E5M2,
                                 Dtype::kF8E8M0, Dtype::kF8E4M3Fnuz, Dtype::kF8E5M2Fnuz, Dtype::kC64,    Dtype::kF6E2M3,
                                 Dtype::kF6E3M2, Dtype::kF4};

TEST(Safetensors, EveryDtypeIsWrittenAndReadBack) {
  const ScratchDirectory scratch;
  std::vector<Tensor> tensors;
  for (const Dtype dtype : kEveryDtype) {
    std::string bytes(4 * dtype_bits(dtype) / 8, '\0');  // 4 elements: a whole number of bytes for each
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i + tensors.size());
    tensors.push_back(make_tensor("t." + dtype_name(dtype), dtype, {2, 2}, bytes));
  }
  write_safetensors(scratch.path() / "all.safetensors", tensors);
  const SafetensorsFile file(scratch.path() / "all.safetensors");
  EXPECT_EQ(file.names().size(), std::size(kEveryDtype));
  for (const Tensor& wanted : tensors) {
    const Tensor read = file.tensor(wanted.name);
    EXPECT_EQ(read.dtype, wanted.dtype);
    EXPECT_EQ(read.shape, wanted.shape);
    EXPECT_EQ(bytes_text(read), bytes_text(wanted)) << wanted.name;
    EXPECT_EQ(dtype_from_name(dtype_name(wanted.dtype)), wanted.dtype);
    const std::size_t element_bytes = std::max<std::size_t>(1, dtype_bits(wanted.dtype) / 8);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(read.bytes.data()) % element_bytes, 0U)
        << wanted.name << " is not aligned";
  }
}

TEST(Safetensors, MetadataScalarsAndEmptyTensorsSurvive) {
  const ScratchDirectory scratch;
  const std::vector<Tensor> tensors = {make_tensor("empty", Dtype::kF32, {3, 0, 2}, ""),
                                       make_tensor("scalar", Dtype::kI32, {}, raw_bytes<std::int32_t>({-7})),
                                       make_tensor("none", Dtype::kU8, {0}, "")};
  write_safetensors(scratch.path() / "a.safetensors", tensors, {{"format", "pt"}, {"note", "a \"quoted\" text\n"}});
  const SafetensorsFile file(scratch.path() / "a.safetensors");
  EXPECT_EQ(file.metadata().at("note"), "a \"quoted\" text\n");
  EXPECT_EQ(file.metadata().size(), 2U);
  EXPECT_EQ(file.tensor("empty").shape, (std::vector<std::int64_t>{3, 0, 2}));
  EXPECT_EQ(file.tensor("scalar").element_count(), 1);
  EXPECT_EQ(bytes_text(file.tensor("scalar")), raw_bytes<std::int32_t>({-7}));
  EXPECT_FALSE(file.has("__metadata__"));
}

TEST(Safetensors, AFileWithoutTensorsIsAFile) {
  const ScratchDirectory scratch;
  write_safetensors(scratch.path() / "a.safetensors", {});
  EXPECT_TRUE(SafetensorsFile(scratch.path() / "a.safetensors").names().empty());
}

TEST(Safetensors, ATensorOutlivesItsFile) {
  const ScratchDirectory scratch;
  write_safetensors(scratch.path() / "a.safetensors", std::vector<Tensor>{make_tensor("x", Dtype::kU8, {4}, "keep")});
  Tensor tensor;
  {
    const SafetensorsFile file(scratch.path() / "a.safetensors");
    tensor = file.tensor("x");
  }
  EXPECT_EQ(bytes_text(tensor), "keep");
}

TEST(Safetensors, TensorsOfTheReferenceWriterAreRead) {
  const SafetensorsFile file(kFixtures / "hybrid-small/golden-97.safetensors");
  EXPECT_EQ(file.tensor("logits").shape, (std::vector<std::int64_t>{97, 320}));
  EXPECT_EQ(file.tensor("input_ids").dtype, Dtype::kI32);
  expect_refused([&] { static_cast<void>(file.tensor("absent")); }, "golden-97.safetensors", "has no tensor 'absent'");
}

TEST(Safetensors, TheWriterRefusesItsCallersMistakes) {
  const ScratchDirectory scratch;
  const auto path = scratch.path() / "a.safetensors";
  const Tensor good = make_tensor("x", Dtype::kF32, {1}, "1234");
  EXPECT_THROW(write_safetensors(path, std::vector<Tensor>{good, good}), Error);
  EXPECT_THROW(write_safetensors(path, std::vector<Tensor>{make_tensor("x", Dtype::kF32, {2}, "1234")}), Error);
  EXPECT_THROW(write_safetensors(path, std::vector<Tensor>{make_tensor("__metadata__", Dtype::kU8, {1}, "1")}), Error);
  EXPECT_FALSE(std::filesystem::exists(path));
}

struct HostileFile {
  const char* name;
  std::string bytes;
  const char* where;
  const char* what;
};

void PrintTo(const HostileFile& hostile, std::ostream* stream) {
  *stream << hostile.name;
}

std::string with_length(std::uint64_t length, const std::string& rest) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, bytes.size());
  return bytes + rest;
}

std::string one_tensor(const std::string& fields, std::size_t data_bytes) {
  return safetensors_bytes("{\"x\":" + fields + "}", std::string(data_bytes, 'd'));
}

std::string two_tensors(const std::string& first_offsets, const std::string& second_offsets, std::size_t data_bytes) {
  const auto tensor = [](const std::string& offsets) {
    return R"({"dtype":"U8","shape":[4],"data_offsets":)" + offsets + "}";
  };
  return safetensors_bytes("{\"a\":" + tensor(first_offsets) + ",\"b\":" + tensor(second_offsets) + "}",
                           std::string(data_bytes, 'd'));
}

class HostileSafetensors : public testing::TestWithParam<HostileFile> {};

TEST_P(HostileSafetensors, IsRefusedWithItsReason) {
  const ScratchDirectory scratch;
  const auto path = scratch.path() / "hostile.safetensors";
  write_file_atomically(path, GetParam().bytes);
  expect_refused([&] { const SafetensorsFile file(path); }, GetParam().where, GetParam().what);
}

const std::string kDeep(1'000'000, '[');

INSTANTIATE_TEST_SUITE_P(
    EveryKind, HostileSafetensors,
    testing::Values(
        HostileFile{"empty", "", "hostile.safetensors", "is empty"},
        HostileFile{"seven_bytes", "1234567", "hostile.safetensors", "has 7 bytes"},
        HostileFile{"header_2_60", with_length(1ULL << 60, "{}"), "hostile.safetensors", "1152921504606846976 bytes"},
        HostileFile{"header_2_64", with_length(~0ULL, "{}"), "hostile.safetensors", "18446744073709551615 bytes"},
        HostileFile{"header_beyond_file", with_length(3, "{}"), "hostile.safetensors",
                    "header of 3 bytes, but the file has 10"},
        HostileFile{"no_header", with_length(0, ""), "header", "is not JSON"},
        HostileFile{"not_json", safetensors_bytes("{\"x\":", ""), "header", "is not JSON"},
        HostileFile{"not_utf8", safetensors_bytes("{\"\xFF\":1}", ""), "header", "is not JSON"},
        HostileFile{"array", safetensors_bytes("[]", ""), "header", "must be an object"},
        HostileFile{"deep", safetensors_bytes(kDeep, ""), "header", "is not JSON"},
        HostileFile{"deep_extent",
                    one_tensor(R"({"dtype":"U8","shape":[)" + kDeep + std::string(kDeep.size(), ']') +
                                   R"(],"data_offsets":[0,4]})",
                               4),
                    "tensor 'x'", "shape must be a non-negative integer, is an array"},
        HostileFile{"duplicate",
                    safetensors_bytes(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                      R"("x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                                      "d"),
                    "header", "key 'x' appears twice"},
        HostileFile{"not_a_tensor", one_tensor("5", 0), "tensor 'x'", "must be an object"},
        HostileFile{"no_dtype", one_tensor(R"({"shape":[4],"data_offsets":[0,4]})", 4), "tensor 'x'", "has no dtype"},
        HostileFile{"no_shape", one_tensor(R"({"dtype":"U8","data_offsets":[0,4]})", 4), "tensor 'x'", "has no shape"},
        HostileFile{"no_offsets", one_tensor(R"({"dtype":"U8","shape":[4]})", 4), "tensor 'x'", "has no data_offsets"},
        HostileFile{"unknown_dtype", one_tensor(R"({"dtype":"F12","shape":[4],"data_offsets":[0,4]})", 4), "tensor 'x'",
                    "unknown dtype \"F12\""},
        HostileFile{"dtype_number", one_tensor(R"({"dtype":4,"shape":[4],"data_offsets":[0,4]})", 4), "tensor 'x'",
                    "unknown dtype 4"},
        HostileFile{"negative_extent", one_tensor(R"({"dtype":"U8","shape":[-4],"data_offsets":[0,4]})", 4),
                    "tensor 'x'", "shape must be a non-negative integer, is -4"},
        HostileFile{"fractional_extent", one_tensor(R"({"dtype":"U8","shape":[4.0],"data_offsets":[0,4]})", 4),
                    "tensor 'x'", "is 4.0"},
        HostileFile{"shape_overflow",
                    one_tensor(R"({"dtype":"U8","shape":[4294967296,4294967296,4],"data_offsets":[0,0]})", 0),
                    "tensor 'x'", "shape overflows"},
        HostileFile{"extent_overflow",
                    one_tensor(R"({"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,4]})", 4),
                    "tensor 'x'", "shape overflows"},
        HostileFile{"bits_overflow",
                    one_tensor(R"({"dtype":"F64","shape":[1152921504606846976],"data_offsets":[0,0]})", 0),
                    "tensor 'x'", "shape overflows"},
        HostileFile{"three_offsets", one_tensor(R"({"dtype":"U8","shape":[4],"data_offsets":[0,2,4]})", 4),
                    "tensor 'x'", "two integers"},
        HostileFile{"negative_offset", one_tensor(R"({"dtype":"U8","shape":[4],"data_offsets":[-4,0]})", 4),
                    "tensor 'x'", "data_offsets must be a non-negative integer, is -4"},
        HostileFile{"backwards", one_tensor(R"({"dtype":"U8","shape":[4],"data_offsets":[4,0]})", 4), "tensor 'x'",
                    "run backwards"},
        HostileFile{"beyond_end", one_tensor(R"({"dtype":"U8","shape":[4],"data_offsets":[4,8]})", 4), "tensor 'x'",
                    "beyond the file's 4 bytes"},
        HostileFile{
            "huge_offset",
            one_tensor(R"({"dtype":"U8","shape":[4],"data_offsets":[18446744073709551612,18446744073709551615]})", 4),
            "tensor 'x'", "beyond the file"},
        HostileFile{"truncated", one_tensor(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4]})", 3), "tensor 'x'",
                    "beyond the file's 3 bytes"},
        HostileFile{"size_not_shape", one_tensor(R"({"dtype":"F32","shape":[4],"data_offsets":[0,8]})", 8),
                    "tensor 'x'", "has 8 bytes, but F32 [4] needs 128 bits"},
        HostileFile{"half_a_byte", one_tensor(R"({"dtype":"F4","shape":[3],"data_offsets":[0,1]})", 1), "tensor 'x'",
                    "needs 12 bits"},
        HostileFile{"overlap", two_tensors("[0,4]", "[2,6]", 6), "tensor 'b'", "overlaps tensor 'a'"},
        HostileFile{"same_place", two_tensors("[0,4]", "[0,4]", 4), "tensor 'b'", "overlaps tensor 'a'"},
        HostileFile{"gap", two_tensors("[0,4]", "[5,9]", 9), "tensor 'b'", "a gap of 1 bytes"},
        HostileFile{"late_start", one_tensor(R"({"dtype":"U8","shape":[4],"data_offsets":[1,5]})", 5), "tensor 'x'",
                    "a gap"},
        HostileFile{"trailing", two_tensors("[0,4]", "[4,8]", 11), "hostile.safetensors",
                    "3 bytes after the last tensor"},
        HostileFile{"metadata_list", safetensors_bytes(R"({"__metadata__":[]})", ""), "header", "__metadata__"},
        HostileFile{"metadata_number", safetensors_bytes(R"({"__metadata__":{"a":1}})", ""), "header",
                    "__metadata__.a"}),
    [](const auto& hostile) { return std::string(hostile.param.name); });

// The files that the hostile ones are made from are fine: only the fault is what is refused.
TEST(Safetensors, TheHarmlessTwinsOfTheHostileFilesAreRead) {
  const ScratchDirectory scratch;
  const auto path = scratch.path() / "fine.safetensors";
  for (const std::string& bytes :
       {one_tensor(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4]})", 4), two_tensors("[0,4]", "[4,8]", 8),
        two_tensors("[4,8]", "[0,4]", 8), safetensors_bytes("{\"__metadata__\":{\"a\":\"1\"}}   ", "")}) {
    write_file_atomically(path, bytes);
    EXPECT_NO_THROW(const SafetensorsFile file(path)) << bytes;
  }
  write_file_atomically(path, two_tensors("[4,8]", "[0,4]", 8));
  EXPECT_THAT(SafetensorsFile(path).names(), ElementsAre("b", "a"));
}

TEST(Safetensors, EveryTruncationOfAFileIsRefused) {
  const ScratchDirectory scratch;
  const auto path = scratch.path() / "cut.safetensors";
  const std::string whole = two_tensors("[0,4]", "[4,8]", 8);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    write_file_atomically(path, std::string_view(whole).substr(0, length));
    EXPECT_THROW(const SafetensorsFile file(path), Error) << length;
  }
}

}  // namespace
}  // namespace tare::engine
