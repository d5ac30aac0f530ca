// SPDX-License-Identifier: Apache-2.0
// Indices that are on the host are checked before a graph reads zeros for them.
#include "core/nn/index_limits.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

using namespace unroll;

namespace {

// The error for these ids i32[2,3], or "".
template <class Build>
std::string refused(const Build& build, const std::vector<std::int32_t>& ids) {
  Graph graph;
  build(graph, graph.input("ids", {DType::i32, {2, 3}}));
  try {
    check_indices(index_limits(graph), {{"ids", Tensor::from<std::int32_t>({2, 3}, ids)}});
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::usage);
    return error.what();
  }
  return "";
}

Value table(Graph& graph) { return graph.input("table", {DType::f32, {5, 4}}); }

}  // namespace

TEST_CASE("ids of an embedding are in its table") {
  const auto build = [](Graph& g, Value ids) { embedding(table(g), ids); };
  CHECK(refused(build, {0, 1, 2, 3, 4, 0}) == "");
  CHECK(refused(build, {0, 1, 2, 3, 5, 0}).find("'ids'[1,1] is 5, which is outside of the 5 rows of the table") !=
        std::string::npos);
  CHECK(refused(build, {0, 1, -1, 3, 5, 0}).find("'ids'[0,2] is -1") != std::string::npos);
  CHECK(refused(build, {2147483647, 1, 0, 3, 0, 0}).find("expected 0 to 4") != std::string::npos);
}

TEST_CASE("ids are followed through other shapes and orders, and the part of a slice is checked") {
  const auto moved = [](Graph& g, Value ids) { embedding(table(g), transpose(reshape(ids, {3, 2}), {1, 0})); };
  CHECK(refused(moved, {0, 1, 2, 3, 9, 0}).find("'ids'[1,1] is 9") != std::string::npos);
  const auto first = [](Graph& g, Value ids) { embedding(table(g), reshape(slice(ids, 1, 0, 1), {2})); };
  CHECK(refused(first, {0, 9, 9, 4, 9, 9}) == "");
  CHECK(refused(first, {0, 9, 9, 5, 9, 9}).find("'ids'[1,0] is 5") != std::string::npos);
  const auto joined = [](Graph& g, Value ids) {
    embedding(table(g), concat(std::vector<Value>{slice(ids, 0, 1, 1), slice(ids, 0, 1, 1)}, 0));
  };
  CHECK(refused(joined, {9, 9, 9, 1, 1, 1}) == "");
  CHECK(refused(joined, {0, 0, 0, 1, 1, 7}).find("'ids'[1,2] is 7") != std::string::npos);
}

TEST_CASE("indices that are computed may be out of range, for which zeros are read") {
  const auto computed = [](Graph& g, Value ids) { embedding(table(g), ids - 1.0); };
  CHECK(refused(computed, {0, 1, 2, 3, 9, 0}) == "");
  const auto plain = [](Graph& g, Value ids) { gather(table(g), ids); };
  CHECK(refused(plain, {0, 1, 2, 3, 9, -1}) == "");
}

TEST_CASE("an index that counts from the end may be negative, as in ONNX") {
  const auto wrapped = [](Graph& g, Value ids) {
    gather(table(g), select(less(ids, scalar_like(ids, 0)), ids + 5.0, ids));
  };
  CHECK(refused(wrapped, {-5, 4, 0, 0, 0, 0}) == "");
  CHECK(refused(wrapped, {0, -6, 0, 0, 0, 0}).find("expected -5 to 4") != std::string::npos);
  CHECK(refused(wrapped, {0, 5, 0, 0, 0, 0}).find("'ids'[0,1] is 5") != std::string::npos);
}

TEST_CASE("a label is a class, or negative to be ignored") {
  const auto labels = [](Graph& g, Value ids) {
    softmax_cross_entropy(g.input("logits", {DType::f32, {2, 3, 4}}), ids);
  };
  CHECK(refused(labels, {0, 3, -1, -100, 2, 1}) == "");
  const std::string error = refused(labels, {1, 2, 3, 4, 1, 2});
  CHECK(error.find("'ids'[1,0] is 4, which is outside of the 4 classes: expected 0 to 3") != std::string::npos);
}
