// SPDX-License-Identifier: Apache-2.0
// Checkpoints that PyTorch wrote are read exactly; hostile ones are refused with the reason. make_checkpoints.py wrote
// the files.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "frontends/checkpoint/import.h"
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

void check_equal(const Checkpoint& found, const std::string& expected_file) {
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

void check_equal(const std::string& file, const std::string& expected_file) {
  CAPTURE(file);
  check_equal(load_checkpoint(k_golden + file), expected_file);
}

TEST_CASE("all dtypes, scalars and empty tensors are read exactly") { check_equal("dtypes.pt", "dtypes.safetensors"); }

TEST_CASE("views of a shared storage are read by their offsets and strides") {
  check_equal("views.pt", "views.safetensors");
}

TEST_CASE("deflated entries are unpacked") { check_equal("deflated.pt", "views.safetensors"); }

TEST_CASE("tensors in dicts, lists and parameters are named by their place, and other values are left out") {
  check_equal("nested.pt", "nested.safetensors");
}

TEST_CASE("files from before PyTorch 1.6 hold the same tensors") { check_equal("old.pt", "old.safetensors"); }

TEST_CASE("whole modules have the names of their state dict, and their classes are named") {
  for (const char* file : {"whole.pt", "whole_old.pt", "whole_protocol4.pt"}) {
    check_equal(file, "whole.safetensors");
    const auto skipped = load_checkpoint(k_golden + file).skipped;
    CHECK(std::ranges::count(skipped, "__main__.Whole") == 1);
    CHECK(std::ranges::count(skipped, "torch.nn.modules.rnn.GRU") == 1);
  }
  check_equal("script.pt", "script.safetensors");
}

TEST_CASE("arrays of NumPy are read, and those of other types are named") {
  for (const char* file : {"arrays.npz", "packed.npz"}) {
    Checkpoint found = load_checkpoint(k_golden + file);
    const auto kept = std::ranges::partition(found.tensors, [](const NamedTensor& t) { return !t.unusable; });
    CHECK(kept.size() == 3);
    for (const NamedTensor& each : kept)
      CHECK(std::string(each.unusable->what()).find("array '" + each.name + "' has the type") != std::string::npos);
    found.tensors.erase(kept.begin(), kept.end());
    check_equal(found, "arrays.safetensors");
  }
  CHECK(names_of(load_checkpoint(k_golden + "arrays.npz"))[0] == "float32");
}

TEST_CASE("weight norm, spectral norm and pruning are folded into the weights, in both forms") {
  const Checkpoint found = load_checkpoint(k_golden + "folded.pt");
  const TensorMap expected = load_safetensors(k_golden + "folded.safetensors").tensors;
  CHECK(found.tensors.size() == expected.size());
  for (const NamedTensor& each : found.tensors) {
    CAPTURE(each.name);
    REQUIRE(expected.contains(each.name));
    const Tensor& wanted = expected.at(each.name);
    REQUIRE(each.tensor.type() == wanted.type());
    for (std::int64_t i = 0; i < wanted.elements(); ++i)
      CHECK(each.tensor.at(i) == doctest::Approx(wanted.at(i)).epsilon(1e-6));
  }
  const auto at = std::ranges::find(found.tensors, "norm.weight_hh_l0", &NamedTensor::name);
  CHECK(at->stored == "f32[12,3] with weight norm");
}

TEST_CASE("a file of a training program is read behind its wrappers, and what is no tensor is named") {
  const Checkpoint found = load_checkpoint(k_golden + "trained.pt");
  CHECK(std::ranges::count(found.skipped, "argparse.Namespace") == 1);
  const ImportedModel model = import_model(found, {}, "trained.pt");
  REQUIRE(model.model.layers.size() == 2);
  CHECK(model.model.layers[0].name == "module");
  CHECK(model.model.layers[1].name == "head");
}

TEST_CASE("names of tensors are replaced as --rename says") {
  const auto renamed = [](std::vector<std::string> renames) {
    return import_model(load_checkpoint(k_golden + "char_lm.pt"), {.renames = std::move(renames), .layers = {}}, "f");
  };
  CHECK(renamed({"rnn=core", "core.=layers."}).parameters.contains("layers.weight_ih_l0"));
  CHECK_THROWS_WITH_AS(renamed({"gru=core"}), doctest::Contains("no tensor's name has the text 'gru'"), Error);
  CHECK_THROWS_WITH_AS(renamed({"rnn"}), doctest::Contains("'rnn' is not FROM=TO"), Error);
  CHECK_THROWS_WITH_AS(renamed({"bias=weight"}), doctest::Contains("two tensors the name"), Error);
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
    {"bad_old_cut", "the file ends too early"},
    {"bad_old_size", "its storage"},
    {"bad_npy_none", "lacks a"},
    {"bad_npy_shape", "has a shape that is none"},
    {"bad_npy_large", "has an impossible size"},
    {"bad_npy_size", "reaches beyond its storage of 6 elements"},
    {"bad_npy_keys", "has not the keys descr, fortran_order and shape"},
    {"bad_npy_key", "has a key 'size'"},
    {"bad_npy_twice", "has a key 'descr', unknown or for the second time"},
    {"bad_npy_type", "has a type without an end"},
    {"bad_big_endian", "the data are big-endian"},
    {"bad_expanded", "tensor 'w' f32[1073741824] reads an element of its storage twice"},
    {"bad_overlap", "tensor 'w' f32[3,3] reads an element of its storage twice"},
    {"bad_beyond", "tensor 'w' f32[2,3] reaches beyond its storage of 6 elements"},
    {"bad_negative", "tensor 'w' f32[2] has an impossible size or stride"},
    {"bad_size", "its storage '0' has 24 bytes; 7 elements of f32 are described"},
    {"bad_missing_storage", "the zip file has no entry 'a/data/0'"},
    {"bad_opcode", "the pickle has opcode 255 at byte 2"},
    {"bad_protocol", "the pickle has protocol 6; 2 to 5 are read"},
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
}

TEST_CASE("what a pickle calls is named, and nothing in it is executed") {
  const Checkpoint found = load_checkpoint(k_corpus + "ok_global");
  CHECK(names_of(found) == std::vector<std::string>{"w"});
  CHECK(found.skipped == std::vector<std::string>{"posix.system"});
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
