// SPDX-License-Identifier: Apache-2.0
// Checkpoints that PyTorch wrote are read exactly; hostile ones are refused with the reason. make_checkpoints.py wrote
// the files.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "frontends/checkpoint/read/checkpoint.h"
#include "unroll/io/safetensors.h"
#include "unroll/support/error.h"

namespace unroll::checkpoint {
namespace {

const std::string k_golden = CHECKPOINT_FOLDER "/golden/", k_corpus = CHECKPOINT_FOLDER "/../fuzz/corpus/checkpoint/";

std::vector<std::string> names_of(const Checkpoint& checkpoint) {
  std::vector<std::string> names;
  for (const NamedTensor& each : checkpoint.tensors) names.push_back(each.name);
  return names;
}

void check_equal(const std::string& file, const std::string& expected_file) {
  CAPTURE(file);
  const Checkpoint found = load_checkpoint(k_golden + file);
  const TensorMap expected = load_safetensors(k_golden + expected_file).tensors;
  CHECK(found.tensors.size() == expected.size());
  for (const NamedTensor& each : found.tensors) {
    CAPTURE(each.name);
    REQUIRE(expected.contains(each.name));
    const Tensor& wanted = expected.at(each.name);
    CHECK(each.tensor.type() == wanted.type());
    CHECK(std::ranges::equal(each.tensor.bytes(), wanted.bytes()));
  }
}

TEST_CASE("all dtypes, scalars and empty tensors are read exactly") { check_equal("dtypes.pt", "dtypes.safetensors"); }

TEST_CASE("views of a shared storage are read by their offsets and strides") {
  check_equal("views.pt", "views.safetensors");
}

TEST_CASE("deflated entries are unpacked") { check_equal("deflated.pt", "views.safetensors"); }

TEST_CASE("tensors in dicts, lists and parameters are named by their place, and other values are left out") {
  check_equal("nested.pt", "nested.safetensors");
}

TEST_CASE("a safetensors file is a checkpoint too") { check_equal("views.safetensors", "views.safetensors"); }

TEST_CASE("tensors keep the order of the state dict, and their type in the file") {
  const Checkpoint found = load_checkpoint(k_golden + "dtypes.pt");
  CHECK(found.in_order);
  CHECK(names_of(found) == std::vector<std::string>{"float32", "float64", "float16", "bfloat16", "int64", "int32",
                                                    "int16", "int8", "uint8", "bool", "scalar", "empty"});
  CHECK(found.tensors[3].stored == "bf16[2,3]");
  CHECK_FALSE(load_checkpoint(k_golden + "views.safetensors").in_order);
}

struct Refusal {
  const char* file;
  const char* message;  // a part of it
};
constexpr Refusal k_refusals[] = {
    {"bad_global", "the pickle uses 'posix.system'"},
    {"bad_global_in_argument", "the pickle uses 'posix.system'"},
    {"bad_module", "the pickle uses 'torch.nn.modules.linear.Linear'"},
    {"bad_old_format", "the format of PyTorch before 1.6"},
    {"bad_big_endian", "the data are big-endian"},
    {"bad_expanded", "tensor 'w' f32[1073741824] reads an element of its storage twice"},
    {"bad_overlap", "tensor 'w' f32[3,3] reads an element of its storage twice"},
    {"bad_beyond", "tensor 'w' f32[2,3] reaches beyond its storage of 6 elements"},
    {"bad_negative", "tensor 'w' f32[2] has an impossible size or stride"},
    {"bad_size", "its storage '0' has 24 bytes; 7 elements of f32 are described"},
    {"bad_missing_storage", "the zip file has no entry 'a/data/0'"},
    {"bad_cycle", "dicts and lists are nested too deeply"},
    {"bad_laughs", "dicts and lists are nested too deeply"},
    {"bad_opcode", "the pickle has opcode 147 at byte 2"},
    {"bad_protocol", "the pickle has protocol 5"},
    {"bad_empty_stack", "its stack is empty"},
    {"bad_one_tensor", "one tensor without a name"},
    {"bad_twice", "the file has two tensors 'a.b'"},
    {"bad_cut", "the zip file has no directory; it is cut off"},
    {"bad_no_pickle", "the zip file has no entry FOLDER/data.pkl"},
    {"bad_sharing", "tensors share storages more than 16 times"},
};

TEST_CASE("a hostile checkpoint is refused with its reason, and nothing in it is executed") {
  for (const Refusal& refusal : k_refusals) {
    CAPTURE(refusal.file);
    try {
      load_checkpoint(k_corpus + refusal.file);
      FAIL("was read");
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::input_file);
      CHECK_MESSAGE(std::string(e.what()).find(refusal.message) != std::string::npos, e.what());
      CHECK_FALSE(e.next().empty());
    }
  }
  CHECK_FALSE(disk().exists("unroll-was-here"));
}

TEST_CASE("a tensor with an element that does not fit is read by nobody, and says why") {
  constexpr Refusal k_unusable[] = {{"bad_truth", "has an element that does not fit b8: element 2"},
                                    {"bad_long", "has an element that does not fit i32: element 0"}};
  for (const Refusal& refusal : k_unusable) {
    const Checkpoint found = load_checkpoint(k_corpus + refusal.file);
    REQUIRE(found.tensors.size() == 1);
    REQUIRE(found.tensors[0].unusable.has_value());
    const std::string text = found.tensors[0].unusable->what();
    CHECK_MESSAGE(text.find(refusal.message) != std::string::npos, text);
  }
}

TEST_CASE("a damaged byte of an entry is found by its checksum") {
  Bytes file = disk().read(k_golden + "views.pt", 1 << 20);
  const float last = 23;  // the last element of the storage
  const auto* bytes = reinterpret_cast<const std::byte*>(&last);
  const auto at = std::search(file.data(), file.data() + file.size(), bytes, bytes + sizeof(last));
  REQUIRE(at != file.data() + file.size());
  *at ^= std::byte{1};
  CHECK_THROWS_WITH_AS(parse_checkpoint({file.data(), file.size()}, "f"), doctest::Contains("its checksum differs"),
                       Error);
}

}  // namespace
}  // namespace unroll::checkpoint
