// SPDX-License-Identifier: Apache-2.0
// Safetensors: files read back as they were, every malformed one is refused by name, a failed save loses nothing.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "core/io/safetensors_header.h"
#include "tests/support/failing_vfs.h"
#include "tests/support/memory_vfs.h"
#include "tests/support/temp_folder.h"
#include "tests/support/text.h"
#include "unroll/io/safetensors.h"
#include "unroll/support/error.h"
#include "unroll/support/result.h"

namespace unroll {
namespace {

using testing::repeated;

std::string little_endian(std::uint64_t value) {
  std::string s(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) s[i] = static_cast<char>(value >> (8 * i) & 255u);
  return s;
}
std::string file_of(const std::string& header, const std::string& data = {}) {
  return little_endian(header.size()) + header + data;
}
TensorFile parse(const std::string& file) {
  return parse_safetensors(std::as_bytes(std::span(file)), "given.safetensors");
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}
template <class T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}
template <class T>
std::vector<T> values_of(const Tensor& tensor) {
  const auto values = tensor.values<T>();
  return {values.begin(), values.end()};
}

TensorFile sample() {
  TensorFile file;
  file.tensors.emplace("w", Tensor::from<float>({2, 3}, {1, -2, 3.5f, 0, std::numeric_limits<float>::infinity(), 6}));
  file.tensors.emplace("precise", Tensor::from<double>({2}, {0.1, -1e300}));
  file.tensors.emplace("ids", Tensor::from<std::int32_t>({3}, {-1, 0, 2147483647}));
  file.tensors.emplace("mask", Tensor::from<std::uint8_t>({2, 1}, {0, 1}));
  file.tensors.emplace("scalar", Tensor::scalar(DType::f32, 7));
  file.tensors.emplace("nothing", Tensor(DType::f64, {3, 0}));
  file.tensors.emplace("weird \"name\"\n\xC3\xA9", Tensor(DType::b8, Shape{1}));
  file.metadata = {{"format", "unroll"}, {"empty", ""}, {"text", "line\nnext \"quoted\" \xE2\x82\xAC"}};
  return file;
}
void check_equal(const TensorFile& a, const TensorFile& b) {
  CHECK(a.metadata == b.metadata);
  REQUIRE(a.tensors.size() == b.tensors.size());
  for (const auto& entry : a.tensors) {
    const auto& name = entry.first;
    const Tensor& tensor = entry.second;
    CAPTURE(name);
    REQUIRE(b.tensors.contains(name));
    const Tensor& other = b.tensors.at(name);
    CHECK(tensor.type() == other.type());
    CHECK(std::equal(tensor.bytes().begin(), tensor.bytes().end(), other.bytes().begin(), other.bytes().end()));
  }
}
std::string saved(const TensorFile& file) {
  MemoryVfs memory;
  save_safetensors("f", file, memory);
  const Bytes bytes = memory.read("f", std::size_t{1} << 30);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST_CASE("a file reads back equal, from disk too, and saves to the same bytes again") {
  const TempFolder folder;
  save_safetensors(folder / "f.safetensors", sample());
  const TensorFile again = load_safetensors(folder / "f.safetensors");
  check_equal(sample(), again);
  CHECK(saved(again) == saved(sample()));
  check_equal(TensorFile{}, parse(saved(TensorFile{})));
}

TEST_CASE("data starts at a multiple of 64 bytes and is sorted by falling dtype size, then name") {
  const std::string bytes = saved(sample());
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  CHECK((8 + length) % 64 == 0);
  std::size_t last = 0;
  for (const char* name : {"nothing", "precise", "ids", "scalar", "w", "mask"}) {
    const std::size_t at = bytes.find(std::string("\"") + name + "\":");
    CHECK(at > last);
    REQUIRE(at != std::string::npos);
    last = at;
  }
}

TEST_CASE("foreign dtypes convert exactly") {
  const auto one = [](const std::string& dtype, const std::string& shape, const std::string& data) {
    return parse(file_of("{" + entry("t", dtype, shape, "[0," + std::to_string(data.size()) + "]") + "}", data))
        .tensors.at("t");
  };
  CHECK(values_of<std::int32_t>(one("I64", "[2]", raw<std::int64_t>({-2147483648ll, 2147483647ll}))) ==
        std::vector<std::int32_t>{std::numeric_limits<std::int32_t>::min(), 2147483647});
  CHECK(values_of<std::int32_t>(one("U8", "[2]", raw<std::uint8_t>({0, 255}))) == std::vector<std::int32_t>{0, 255});
  CHECK(values_of<std::int32_t>(one("I8", "[2]", raw<std::int8_t>({-128, 127}))) ==
        std::vector<std::int32_t>{-128, 127});
  CHECK(values_of<std::int32_t>(one("I16", "[2]", raw<std::int16_t>({-32768, 32767}))) ==
        std::vector<std::int32_t>{-32768, 32767});
  CHECK(values_of<std::int32_t>(one("U16", "[2]", raw<std::uint16_t>({0, 65535}))) ==
        std::vector<std::int32_t>{0, 65535});
  CHECK(values_of<std::int32_t>(one("U32", "[1]", raw<std::uint32_t>({2147483647}))) ==
        std::vector<std::int32_t>{2147483647});
  CHECK(values_of<std::int32_t>(one("U64", "[1]", raw<std::uint64_t>({2147483647}))) ==
        std::vector<std::int32_t>{2147483647});
  CHECK(values_of<float>(one("BF16", "[3]", raw<std::uint16_t>({0x3F80, 0xC040, 0x7F80}))) ==
        std::vector<float>{1, -3, std::numeric_limits<float>::infinity()});
  CHECK(values_of<float>(
            one("F16", "[7]", raw<std::uint16_t>({0x3C00, 0xC000, 0x7BFF, 0x0001, 0x83FF, 0xFC00, 0x8000}))) ==
        std::vector<float>{1, -2, 65504, 0x1p-24f, -0x1.FF8p-15f, -std::numeric_limits<float>::infinity(), -0.0f});
  CHECK(std::isnan(one("F16", "[]", raw<std::uint16_t>({0x7E01})).at(0)));
  CHECK(std::signbit(one("F16", "[]", raw<std::uint16_t>({0x8000})).at(0)));
}

TEST_CASE("unknown keys of an entry are skipped whatever they hold") {
  const std::string header =
      R"({"t":{"note":{"a":[1,{"b":null}],"dtype":"X"},"dtype":"I32","more":[[],-1,0.5,true],)"
      R"("shape":[1],"plain":"x","data_offsets":[0,4],"last":{}},)" +
      entry("u", "BOOL", "[]", "[4,5]") + "}  ";
  const TensorFile file = parse(file_of(header, raw<std::int32_t>({5}) + std::string(1, '\1')));
  CHECK(file.tensors.at("t").at(0) == 5);
  CHECK(file.tensors.at("u").at(0) == 1);
}

TEST_CASE("a tensor of any type of the format is listed, and named where its type or an element cannot be used") {
  struct Stored {
    const char* dtype;
    std::size_t bits;
    bool is_usable = true;
  };
  const Stored all[] = {{"BOOL", 8}, {"U8", 8}, {"I8", 8}, {"U16", 16}, {"I16", 16}, {"U32", 32}, {"I32", 32},
                        {"U64", 64}, {"I64", 64}, {"F16", 16}, {"BF16", 16}, {"F32", 32}, {"F64", 64},
                        {"F4", 4, false}, {"F6_E2M3", 6, false}, {"F6_E3M2", 6, false}, {"F8_E4M3", 8, false},
                        {"F8_E5M2", 8, false}, {"F8_E8M0", 8, false}, {"F8_E4M3FNUZ", 8, false},
                        {"F8_E5M2FNUZ", 8, false}, {"C64", 64, false}, {"F3_NEW", 32, false}};
  for (const Stored& stored : all) {
    CAPTURE(stored.dtype);
    const std::string end = std::to_string(stored.bits);  // 8 elements
    const std::string file =
        file_of("{" + entry("t", stored.dtype, "[2,4]", "[0," + end + "]") + "}", std::string(stored.bits, '\0'));
    const auto bytes = std::as_bytes(std::span(file));
    const FileHeader header = parse_safetensors_header(bytes, "f");
    CHECK(header.entries.at("t").text().ends_with("[2,4]"));
    const Result<Tensor> tensor = attempt([&] { return read_entry(bytes, header, "t", "f"); });
    REQUIRE(tensor.ok() == stored.is_usable);
    if (tensor) CHECK(tensor->shape() == Shape{2, 4});
    else CHECK(message_of(tensor.error()) == "tensor 't' has the type '" + std::string(stored.dtype) +
                                                 "', which unroll cannot use");
  }
}

TEST_CASE("tied tensors are found in the metadata, and one that is tied to nothing is named") {
  const auto has = [](const std::string& name) { return name == "head.weight"; };
  CHECK(tied_tensors({{"format", "pt"}, {"note", "head"}, {"embedding.weight", "head.weight"}}, has, "f") ==
        std::map<std::string, std::string>{{"embedding.weight", "head.weight"}});
  CHECK_THROWS_WITH_AS(tied_tensors({{"a.weight_hh_l0", "b.weight_hh_l0"}}, has, "f"),
                       "[f] the metadata tie 'a.weight_hh_l0' to 'b.weight_hh_l0', which the file does not have. Save "
                       "the model again with safetensors.torch.save_model", Error);
}

struct BadFile {
  const char* why;
  std::string file;
  const char* text;  // what the message must contain
};

std::string nested(int depth) {
  const std::string n(static_cast<std::size_t>(depth - 2), '['), m(static_cast<std::size_t>(depth - 2), ']');
  return R"({"t":{"x":)" + n + m + R"(,"dtype":"F32","shape":[],"data_offsets":[0,4]}})";
}

std::vector<BadFile> bad_files() {
  const std::string four(4, '\0'), eight(8, '\0');
  const std::string good = entry("t", "F32", "[1]", "[0,4]");
  const auto only = [](const std::string& e) { return "{" + e + "}"; };
  return {
      {"empty file", "", "has 0 bytes"},
      {"no header", little_endian(0), "starts with '{'"},
      {"header length above the file", little_endian(3) + "{}", "claims a header of 3 bytes, but ends after 2"},
      {"header length of 100 MB", little_endian(100'000'000) + "{}", "claims a header of 100000000 bytes"},
      {"header length above 100 MB", little_endian(100'000'001) + "{}", "at most 100000000"},
      {"header length that wraps", little_endian(~std::uint64_t{0}) + "{}", "at most 100000000"},
      {"space before the brace", file_of(" {}"), "starts with '{'"},
      {"byte order mark", file_of("\xEF\xBB\xBF{}"), "starts with '{'"},
      {"a list", file_of("[]"), "starts with '{'"},
      {"not JSON", file_of("{]"), "valid UTF-8 JSON"},
      {"comment", file_of("{}//x"), "valid UTF-8 JSON"},
      {"second value", file_of("{}{}"), "valid UTF-8 JSON"},
      {"zero byte hides a second value", file_of(std::string("{}\0{\"", 5)), "zero byte"},
      {"name that is not UTF-8", file_of(only(entry("\xC3\x28", "F32", "[1]", "[0,4]")), four), "valid UTF-8 JSON"},
      {"overlong UTF-8", file_of(only(entry("\xC0\x80", "F32", "[1]", "[0,4]")), four), "valid UTF-8 JSON"},
      {"number out of range", file_of(only(entry("t", "F32", "[1e999]", "[0,4]")), four), "valid UTF-8 JSON"},
      {"depth 65", file_of(nested(65), four), "deeper than 64"},
      {"depth 100000", file_of(nested(100000), four), "deeper than 64"},
      {"duplicate tensor", file_of("{" + good + "," + good + "}", four), "entry 't' is there twice"},
      {"duplicate by escape", file_of("{" + good + "," + entry("\\u0074", "F32", "[1]", "[4,8]") + "}", eight),
       "'t' is there twice"},
      {"duplicate key in an entry",
       file_of(R"({"t":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", four), "key 'dtype' twice"},
      {"duplicate metadata", file_of(R"({"__metadata__":{},"__metadata__":{}})"), "'__metadata__' is there twice"},
      {"duplicate metadata key", file_of(R"({"__metadata__":{"a":"1","a":"2"}})"), "metadata key 'a' twice"},
      {"metadata that is a number", file_of(R"({"__metadata__":{"a":1}})"), "must have strings as metadata"},
      {"metadata that is a list", file_of(R"({"__metadata__":{"a":[]}})"), "must have strings as metadata"},
      {"metadata that is null", file_of(R"({"__metadata__":null})"), "must be an object"},
      {"entry that is a number", file_of(R"({"t":1})"), "entry 't' must be an object"},
      {"entry that is a string", file_of(R"({"t":"F32"})"), "entry 't' must be an object"},
      {"entry that is a list", file_of(R"({"t":[]})"), "entry 't' must be an object"},
      {"no dtype", file_of(R"({"t":{"shape":[1],"data_offsets":[0,4]}})", four), "lacks 'dtype'"},
      {"no shape", file_of(R"({"t":{"dtype":"F32","data_offsets":[0,4]}})", four), "lacks 'shape'"},
      {"no offsets", file_of(R"({"t":{"dtype":"F32","shape":[1]}})", four), "lacks 'data_offsets'"},
      {"unknown dtype", file_of(only(entry("t", "F128", "[1]", "[0,4]")), four), "has the type 'F128'"},
      {"sub-byte dtype", file_of(only(entry("t", "F4", "[8]", "[0,4]")), four), "has the type 'F4'"},
      {"half a byte", file_of(only(entry("t", "F4", "[7]", "[0,4]")), four), "ends within a byte"},
      {"sub-byte shape larger than data", file_of(only(entry("t", "F6_E2M3", "[8]", "[0,4]")), four), "needs 6 bytes"},
      {"dtype in small letters", file_of(only(entry("t", "f32", "[1]", "[0,4]")), four), "has the type 'f32'"},
      {"dtype that is a number", file_of(R"({"t":{"dtype":1,"shape":[1],"data_offsets":[0,4]}})", four),
       "has a number in 'dtype'"},
      {"dtype that is a list", file_of(R"({"t":{"dtype":["F32"],"shape":[1],"data_offsets":[0,4]}})", four),
       "has a list in 'dtype'"},
      {"shape that is a number", file_of(only(entry("t", "F32", "1", "[0,4]")), four), "has a number in 'shape'"},
      {"shape with a list", file_of(only(entry("t", "F32", "[[1]]", "[0,4]")), four), "has a list in 'shape'"},
      {"shape with an object", file_of(only(entry("t", "F32", "[{}]", "[0,4]")), four), "has an object in 'shape'"},
      {"shape with a string", file_of(only(entry("t", "F32", "[\"1\"]", "[0,4]")), four), "has a string in 'shape'"},
      {"shape with null", file_of(only(entry("t", "F32", "[null]", "[0,4]")), four), "has null in 'shape'"},
      {"negative dimension", file_of(only(entry("t", "F32", "[-1]", "[0,4]")), four), "the number -1 in 'shape'"},
      {"negative zero", file_of(only(entry("t", "F32", "[-0]", "[0,0]"))), "the number 0 in 'shape'"},
      {"broken dimension", file_of(only(entry("t", "F32", "[1.0]", "[0,4]")), four), "the number '1.0' in 'shape'"},
      {"seven dimensions", file_of(only(entry("t", "F32", "[1,1,1,1,1,1,1]", "[0,4]")), four),
       "has 7 dimensions; unroll reads at most 6"},
      {"65 dimensions", file_of(only(entry("t", "F32", "[1" + repeated(",1", 64) + "]", "[0,4]")), four),
       "more than 64 dimensions"},
      {"product that wraps to 4", file_of(only(entry("t", "F32", "[4294967296,4294967296,1]", "[0,4]")), four),
       "overflows"},
      {"bytes that wrap to 0", file_of(only(entry("t", "F32", "[4294967296,1073741824]", "[0,0]"))), "overflows"},
      {"a dimension above 2^40 beside a zero", file_of(only(entry("t", "F32", "[1099511627777,0]", "[0,0]"))),
       "too large"},
      {"wrap beside a zero", file_of(only(entry("t", "F32", "[4294967296,4294967296,0]", "[0,0]"))), "overflows"},
      {"dimension above 2^63", file_of(only(entry("t", "F32", "[9223372036854775808,0]", "[0,0]"))), "too large"},
      {"shape larger than data", file_of(only(entry("t", "F32", "[2]", "[0,4]")), four), "needs 8 bytes"},
      {"shape smaller than data", file_of(only(entry("t", "F32", "[1]", "[0,8]")), eight), "needs 4 bytes"},
      {"three offsets", file_of(only(entry("t", "F32", "[1]", "[0,4,4]")), four), "more than two data_offsets"},
      {"one offset", file_of(only(entry("t", "F32", "[1]", "[0]")), four), "must have two data_offsets, has 1"},
      {"offsets that fall", file_of(only(entry("t", "F32", "[1]", "[4,0]")), four), "that fall"},
      {"negative offset", file_of(only(entry("t", "F32", "[1]", "[-4,0]")), four), "the number -4"},
      {"offset above 2^64", file_of(only(entry("t", "F32", "[1]", "[0,18446744073709551620]")), four),
       "in 'data_offsets'"},
      {"end beyond the data", file_of(only(entry("t", "F32", "[2]", "[0,8]")), four),
       "ends at data byte 8, the file has 4"},
      {"bytes after the data", file_of(only(good), eight), "has 8 bytes of data, its entries cover 4"},
      {"data without entries", file_of("{}", four), "its entries cover 0"},
      {"hole at the start", file_of(only(entry("t", "F32", "[1]", "[4,8]")), eight), "entry 't' leaves a hole"},
      {"hole between", file_of("{" + good + "," + entry("u", "U8", "[1]", "[5,6]") + "}", std::string(6, '\0')),
       "entry 'u' leaves a hole"},
      {"overlap", file_of("{" + good + "," + entry("u", "F32", "[1]", "[2,6]") + "}", std::string(6, '\0')),
       "entry 'u' overlaps"},
      {"same place twice", file_of("{" + good + "," + entry("u", "F32", "[1]", "[0,4]") + "}", four), "overlaps"},
      {"I64 out of range", file_of(only(entry("t", "I64", "[1]", "[0,8]")), raw<std::int64_t>({2147483648ll})),
       "has 2147483648 as element 0"},
      {"U64 out of range", file_of(only(entry("t", "U64", "[1]", "[0,8]")), raw<std::uint64_t>({~0ull})),
       "has 18446744073709551615 as element 0"},
      {"U32 out of range", file_of(only(entry("t", "U32", "[1]", "[0,4]")), raw<std::uint32_t>({2147483648u})),
       "has 2147483648 as element 0"},
      {"BOOL of 2", file_of(only(entry("t", "BOOL", "[2]", "[0,2]")), std::string("\1\2")), "has 2 as element 1"},
  };
}

TEST_CASE("every kind of malformed file is refused, naming the file, the place and the rule") {
  for (const BadFile& bad : bad_files()) {
    CAPTURE(bad.why);
    try {
      parse(bad.file);
      FAIL_CHECK("accepted");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::input_file);
      CHECK_FALSE(error.next().empty());
      const std::string text = error.what();
      CHECK_MESSAGE(text.find(bad.text) != std::string::npos, text);
      CHECK(text.starts_with("[given.safetensors] "));
    }
  }
}

TEST_CASE("the limits themselves are allowed") {
  CHECK(parse(file_of(nested(64), std::string(4, '\0'))).tensors.size() == 1);
  CHECK(parse(file_of("{" + entry("t", "F32", "[1,1,1,1,1,1]", "[0,4]") + "}", std::string(4, '\0'))).tensors.size() ==
        1);
  CHECK(parse(file_of("{" + entry("t", "F32", "[0,1099511627776]", "[0,0]") + "}")).tensors.size() == 1);
}

TEST_CASE("more than 2^20 entries are refused") {
  std::string header = R"({"__metadata__":{"":"")";
  for (int i = 0; i < (1 << 20); ++i) header += ",\"" + std::to_string(i) + "\":\"\"";
  CHECK_THROWS_WITH_AS(parse(file_of(header + "}}")), doctest::Contains("more than 1048576 entries"), Error);
}

TEST_CASE("a file cut at any byte is refused") {
  const std::string whole = saved(sample());
  for (std::size_t n = 0; n < whole.size(); ++n) {
    CAPTURE(n);
    CHECK_THROWS_AS(parse(whole.substr(0, n)), Error);
  }
}

TEST_CASE("a file with any one bit of the header changed is read or refused, nothing else") {
  std::string whole = saved(sample());
  const std::size_t header_end = whole.find("}}") + 2;
  for (std::size_t bit = 0; bit < 8 * header_end; ++bit) {
    const char flip = static_cast<char>(1 << bit % 8);
    whole[bit / 8] = static_cast<char>(whole[bit / 8] ^ flip);
    try {
      parse(whole);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::input_file);
    }
    whole[bit / 8] = static_cast<char>(whole[bit / 8] ^ flip);
  }
}

TEST_CASE("missing, empty and folder paths are refused by name") {
  const TempFolder folder;
  disk().create(folder / "empty")->close();
  CHECK_THROWS_WITH_AS(load_safetensors(folder / "absent"), doctest::Contains("absent] cannot open"), Error);
  CHECK_THROWS_WITH_AS(load_safetensors(folder / "empty"), doctest::Contains("empty] has 0 bytes"), Error);
  CHECK_THROWS_WITH_AS(load_safetensors(folder.path()), doctest::Contains("is a folder"), Error);
}

TEST_CASE("what the format cannot hold is not written") {
  MemoryVfs memory;
  const auto save = [&memory](const std::string& name, const std::string& key, Tensor tensor) {
    TensorFile file;
    file.tensors.emplace(name, std::move(tensor));
    file.metadata.emplace(key, "");
    save_safetensors("f", file, memory);
  };
  CHECK_THROWS_WITH_AS(save("__metadata__", "k", Tensor()), doctest::Contains("__metadata__"), Error);
  CHECK_THROWS_WITH_AS(save("\xFF", "k", Tensor()), doctest::Contains("'\\xff'"), Error);
  CHECK_THROWS_WITH_AS(save("t", "\xFF", Tensor()), doctest::Contains("not UTF-8"), Error);
  CHECK_THROWS_WITH_AS(save("t", "k", Tensor::from<std::uint8_t>({1}, {2})), doctest::Contains("must be 0 or 1"),
                       Error);
  CHECK(memory.list().empty());
}

TEST_CASE("whichever operation of a save fails, the old file still loads") {
  for (const Fault fault : k_faults) {
    for (int i = 0;; ++i) {
      MemoryVfs memory;
      TensorFile old;
      old.tensors.emplace("old", Tensor::scalar(DType::f64, 1));
      save_safetensors("run/f", old, memory);
      FailingVfs failing(memory, i, fault);
      bool threw = false;
      try {
        save_safetensors("run/f", sample(), failing);
      } catch (const Error& error) {
        threw = true;
        CHECK(error.kind() == ErrorKind::storage);
      }
      CAPTURE(i);
      CHECK(threw == failing.fired());
      check_equal(threw && failing.failed() != "sync the folder" ? old : sample(), load_safetensors("run/f", memory));
      memory.cut_power();
      check_equal(threw ? old : sample(), load_safetensors("run/f", memory));
      if (!threw) break;
    }
  }
}

}  // namespace
}  // namespace unroll
