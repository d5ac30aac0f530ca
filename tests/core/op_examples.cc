// SPDX-License-Identifier: Apache-2.0
#include "tests/core/op_examples.h"

namespace unroll {

namespace {

// f(2, 3) is f32[2,3], and so on.
template <class... Dims>
Type f(Dims... dims) { return {DType::f32, Shape{static_cast<std::int64_t>(dims)...}}; }
template <class... Dims>
Type i(Dims... dims) { return {DType::i32, Shape{static_cast<std::int64_t>(dims)...}}; }
template <class... Dims>
Type b(Dims... dims) { return {DType::b8, Shape{static_cast<std::int64_t>(dims)...}}; }

using Int = std::int64_t;

Attributes recurrent(const Attributes& changes) {
  Attributes a{{"hidden", Int{4}}, {"layers", Int{1}}, {"bidirectional", false}, {"bias", true},
               {"dropout", 0.0},   {"rng_stream", Int{0}},   {"lengths", false}};
  for (const auto& [name, value] : changes.all()) a.set(name, value);
  return a;
}
const Attributes k_scan{{"steps", Int{5}},  {"states", Int{1}}, {"sequences", Int{1}}, {"reverse", false},
                        {"lengths", false}, {"reset", false},   {"packed", false},     {"segments", false}};
Attributes scan_with(const std::string& name, Attribute value) {
  Attributes a = k_scan;
  a.set(name, std::move(value));
  return a;
}

const char* const k_scan_body = R"(graph {
  %0 = input(){name="h"} : f32[2,3]
  %1 = input(){name="x"} : f32[2,3]
  %2 = add(%0, %1) : f32[2,3]
  output "next" = %2
  output "y" = %2
})";
const char* const k_wrong_state_body = R"(graph {
  %0 = input(){name="h"} : f32[2,3]
  %1 = input(){name="x"} : f32[2,3]
  %2 = reduce_sum(%1){axes=[0], keep=false} : f32[3]
  output "next" = %2
})";
const char* const k_fused_body = R"(graph {
  %0 = input(){name="a"} : f32[2,3]
  %1 = tanh(%0) : f32[2,3]
  output "y" = %1
})";
const char* const k_not_elementwise_body = R"(graph {
  %0 = input(){name="a"} : f32[2,3]
  %1 = transpose(%0){permutation=[1, 0]} : f32[3,2]
  output "y" = %1
})";

const char* const k_row_body = R"(graph {
  %0 = input(){name="a"} : f32[2,3]
  %1 = reduce_sum(%0){axes=[1], keep=true} : f32[2,1]
  %2 = sub(%0, %1) : f32[2,3]
  output "y" = %2
  output "sum" = %1
})";
const Attributes k_sums_of_three{{"sums", Ints{0}}, {"sum_rows", std::int64_t{3}}},
    k_sums_twice{{"sums", Ints{0, 0}}, {"sum_rows", std::int64_t{2}}},
    k_sums_beyond{{"sums", Ints{2}}, {"sum_rows", std::int64_t{2}}};
const char* const k_column_body = R"(graph {
  %0 = input(){name="a"} : f32[2,3]
  %1 = reduce_sum(%0){axes=[0], keep=true} : f32[1,3]
  output "y" = %1
})";

Attribute tensor(Tensor t) { return std::make_shared<const Tensor>(std::move(t)); }

const Attributes k_conv{{"axes", Ints{1}}, {"stride", Ints{2}}, {"dilation", Ints{1}}, {"low", Ints{1}},
                        {"high", Ints{0}}, {"groups", Int{1}}};
const Attributes k_sgd{{"momentum", 0.9}, {"nesterov", true}, {"weight_decay", 0.1}};
const Attributes k_adam{
    {"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 1e-8}, {"weight_decay", 0.1}, {"decoupled", true}};
const Attributes k_rmsprop{{"alpha", 0.99}, {"epsilon", 1e-8}, {"momentum", 0.9}, {"weight_decay", 0.0}};
const Attributes k_adagrad{{"epsilon", 1e-10}, {"weight_decay", 0.0}};
const Attributes k_lion{{"beta1", 0.9}, {"beta2", 0.99}, {"weight_decay", 0.1}};
const Attributes k_gradient{{"of", "mse"}, {"n_inputs", Int{2}}, {"d_outputs", Ints{0}}, {"d_inputs", Ints{0, 1}}};
const Attributes k_plain{{"transpose_a", false}, {"transpose_b", false}};
const Attributes k_stored{{"transpose_a", false}, {"transpose_b", false}, {"dtype", DType::f16}};
const Attributes k_transposed{{"transpose_a", true}, {"transpose_b", true}};

void add_elementwise(std::vector<OpExample>& right, std::vector<OpExample>& wrong) {
  for (const OpInfo& info : op_table()) {
    const Op op = info.op;
    switch (info.kind) {
      case OpKind::unary:
        right.push_back({op, "a matrix", {f(2, 3)}, {}, {}});
        wrong.push_back({op, "two operands", {f(2), f(2)}, {}, {}});
        if (op != Op::stop_gradient) wrong.push_back({op, "a b8 operand", {b(2, 3)}, {}, {}});
        break;
      case OpKind::binary:
      case OpKind::compare:
        right.push_back({op, "shapes that broadcast", {f(2, 1, 3), f(4, 1)}, {}, {}});
        right.push_back({op, "i32", {i(2), i(2)}, {}, {}});
        wrong.push_back({op, "shapes that do not broadcast", {f(2), f(3)}, {}, {}});
        wrong.push_back({op, "two dtypes", {f(2), i(2)}, {}, {}});
        wrong.push_back({op, "one operand", {f(2)}, {}, {}});
        break;
      case OpKind::logical: {
        const bool one = info.max_inputs == 1;
        right.push_back({op, "b8", one ? std::vector<Type>{b(2)} : std::vector<Type>{b(2), b(1)}, {}, {}});
        wrong.push_back({op, "a float", one ? std::vector<Type>{f(2)} : std::vector<Type>{b(2), f(2)}, {}, {}});
        break;
      }
      default: break;
    }
  }
}

void add_basic_right(std::vector<OpExample>& list) {
  const std::vector<OpExample> rows{
      {Op::input, "a typed name", {}, {{"name", "x"}, {"dtype", DType::f32}, {"shape", Ints{2}}}, {}},
      {Op::constant, "a tensor", {}, {{"value", tensor(Tensor::filled(f(2, 3), 1.5))}}, {}},
      {Op::iota, "along the last axis", {}, {{"shape", Ints{2, 3}}, {"axis", Int{1}}}, {}},
      {Op::select, "a scalar branch", {b(2, 3), f(2, 3), f()}, {}, {}},
      {Op::cast, "i32 to f64", {i(3)}, {{"dtype", DType::f64}}, {}},
      {Op::reshape, "as many elements", {f(2, 3)}, {{"shape", Ints{3, 2, 1}}}, {}},
      {Op::transpose, "a rotation", {f(2, 3, 4)}, {{"permutation", Ints{2, 0, 1}}}, {}},
      {Op::slice, "the end", {f(2, 3)}, {{"axis", Int{1}}, {"start", Int{1}}, {"size", Int{2}}}, {}},
      {Op::pad, "both sides", {f(2, 3)}, {{"axis", Int{1}}, {"low", Int{1}}, {"high", Int{2}}}, {}},
      {Op::concat, "three parts", {f(2, 3), f(2, 1), f(2, 0)}, {{"axis", Int{1}}}, {}},
      {Op::broadcast, "a new axis", {f(1, 3)}, {{"shape", Ints{4, 2, 3}}}, {}},
      {Op::windows, "a stride", {f(9, 2, 3)},
       {{"axis", Int{0}}, {"size", Int{3}}, {"stride", Int{2}}, {"dilation", Int{2}}}, {}},
      {Op::matmul, "matrices", {f(2, 3), f(3, 4)}, k_plain, {}},
      {Op::matmul, "a batch, both transposed", {f(5, 3, 2), f(5, 4, 3)}, k_transposed, {}},
      {Op::matmul, "a count of rows", {f(5, 3), f(5, 4), i()}, {{"transpose_a", true}, {"transpose_b", false}}, {}},
      {Op::matmul, "operands of 16 bits", {{DType::bf16, {2, 3}}, {DType::bf16, {3, 4}}}, k_plain, {}},
      {Op::matmul, "stored in 16 bits", {{DType::f16, {2, 3}}, {DType::f16, {3, 4}}}, k_stored, {}},
      {Op::reduce_sum, "16 bits", {{DType::bf16, {2, 3}}}, {{"axes", Ints{0}}, {"keep", false}}, {}},
      {Op::select, "16 bits", {{DType::b8, {2, 3}}, {DType::f16, {2, 3}}, {DType::f16, {3}}}, {}, {}},
      {Op::reduce_sum, "two axes", {f(2, 3, 4)}, {{"axes", Ints{0, 2}}, {"keep", false}}, {}},
      {Op::reduce_max, "kept axis", {f(2, 3)}, {{"axes", Ints{1}}, {"keep", true}}, {}},
      {Op::argmax, "the first axis", {f(2, 3)}, {{"axis", Int{0}}}, {}},
      {Op::gather, "rows", {f(5, 3), i(2, 2)}, {}, {}},
      {Op::scatter_add, "rows", {i(2, 2), f(2, 2, 3)}, {{"rows", Int{5}}}, {}},
      {Op::pack_lengths, "a batch", {i(4)}, {{"steps", Int{3}}}, {}},
      {Op::random_uniform, "a key", {i(3)}, {{"shape", Ints{2, 3}}, {"rng_stream", Int{1}}}, {}},
      {Op::random_uniform, "a key and a step", {i(3), i()}, {{"shape", Ints{2, 3}}, {"rng_stream", Int{1}}}, {}},
      {Op::scan, "one state, one sequence", {f(2, 3), f(5, 2, 3)}, k_scan, parse_graph(k_scan_body)},
      {Op::scan, "lengths", {f(2, 3), f(5, 2, 3), i(2)}, scan_with("lengths", true), parse_graph(k_scan_body)},
      {Op::scan, "a reset mask", {f(2, 3), f(5, 2, 3), b(5, 2)}, scan_with("reset", true), parse_graph(k_scan_body)},
      {Op::scan, "packed rows", {f(2, 3), f(10, 3), i(5)}, scan_with("packed", true), parse_graph(k_scan_body)},
      {Op::fused, "an elementwise body", {f(2, 3)}, {}, parse_graph(k_fused_body)},
      {Op::fused_reduction, "a sum of each row", {f(2, 3)}, {}, parse_graph(k_row_body)},
      {Op::fused_reduction, "a sum of rows", {f(2, 3)}, {{"sums", Ints{0}}, {"sum_rows", Int{2}}},
       parse_graph(k_row_body)},
      {Op::gradient, "of mse", {f(2), f(2), f(2)}, k_gradient, {}},
  };
  list.insert(list.end(), rows.begin(), rows.end());
}

void add_basic_wrong(std::vector<OpExample>& list) {
  const std::vector<OpExample> rows{
      {Op::input, "an operand", {f(2)}, {{"name", "x"}, {"dtype", DType::f32}, {"shape", Ints{2}}}, {}},
      {Op::constant, "an operand", {f(2)}, {{"value", tensor(Tensor::filled(f(2), 1.5))}}, {}},
      {Op::iota, "an axis outside", {}, {{"shape", Ints{2, 3}}, {"axis", Int{2}}}, {}},
      {Op::select, "a float condition", {f(2), f(2), f(2)}, {}, {}},
      {Op::select, "two dtypes", {b(2), f(2), i(2)}, {}, {}},
      {Op::cast, "no operand", {}, {{"dtype", DType::f64}}, {}},
      {Op::reshape, "other elements", {f(2, 3)}, {{"shape", Ints{5}}}, {}},
      {Op::transpose, "an axis twice", {f(2, 3)}, {{"permutation", Ints{0, 0}}}, {}},
      {Op::transpose, "an axis missing", {f(2, 3)}, {{"permutation", Ints{0}}}, {}},
      {Op::slice, "past the end", {f(2, 3)}, {{"axis", Int{1}}, {"start", Int{2}}, {"size", Int{2}}}, {}},
      {Op::slice, "before the start", {f(2, 3)}, {{"axis", Int{1}}, {"start", Int{-1}}, {"size", Int{2}}}, {}},
      {Op::pad, "negative", {f(2, 3)}, {{"axis", Int{1}}, {"low", Int{-1}}, {"high", Int{0}}}, {}},
      {Op::concat, "other dimensions", {f(2, 3), f(3, 3)}, {{"axis", Int{1}}}, {}},
      {Op::concat, "two dtypes", {f(2, 3), i(2, 3)}, {{"axis", Int{1}}}, {}},
      {Op::broadcast, "a shrinking axis", {f(3)}, {{"shape", Ints{1}}}, {}},
      {Op::windows, "the last axis", {f(2, 3)},
       {{"axis", Int{1}}, {"size", Int{2}}, {"stride", Int{1}}, {"dilation", Int{1}}}, {}},
      {Op::windows, "no stride", {f(2, 3)},
       {{"axis", Int{0}}, {"size", Int{2}}, {"stride", Int{0}}, {"dilation", Int{1}}}, {}},
      {Op::matmul, "inner dimensions", {f(2, 3), f(4, 3)}, k_plain, {}},
      {Op::matmul, "operands of two dtypes", {{DType::bf16, {2, 3}}, f(3, 4)}, k_plain, {}},
      {Op::matmul, "f32 stored in 16 bits", {f(2, 3), f(3, 4)}, k_stored, {}},
      {Op::add, "16 bits", {{DType::bf16, {2, 3}}, {DType::bf16, {2, 3}}}, {}, {}},
      {Op::less, "16 bits", {{DType::f16, {2, 3}}, {DType::f16, {2, 3}}}, {}, {}},
      {Op::tanh, "16 bits", {{DType::f16, {2, 3}}}, {}, {}},
      {Op::reduce_max, "16 bits", {{DType::bf16, {2, 3}}}, {{"axes", Ints{1}}, {"keep", false}}, {}},
      {Op::scatter_add, "16 bits", {i(2), {DType::bf16, {2, 3}}}, {{"rows", Int{5}}}, {}},
      {Op::matmul, "batches", {f(2, 2, 3), f(1, 3, 4)}, k_plain, {}},
      {Op::matmul, "a float count of rows", {f(2, 3), f(3, 4), f()}, k_plain, {}},
      {Op::matmul, "a count of rows of a batch", {f(5, 3, 2), f(5, 4, 3), i()}, k_transposed, {}},
      {Op::matmul, "vectors", {f(3), f(3)}, k_plain, {}},
      {Op::matmul, "integers", {i(2, 3), i(3, 4)}, k_plain, {}},
      {Op::reduce_sum, "unordered axes", {f(2, 3)}, {{"axes", Ints{1, 0}}, {"keep", false}}, {}},
      {Op::reduce_max, "an axis outside", {f(2, 3)}, {{"axes", Ints{2}}, {"keep", false}}, {}},
      {Op::reduce_max, "nothing to take the largest of", {f(2, 0)}, {{"axes", Ints{1}}, {"keep", false}}, {}},
      {Op::argmax, "an axis outside", {f(2, 3)}, {{"axis", Int{-1}}}, {}},
      {Op::gather, "float indices", {f(5, 3), f(2)}, {}, {}},
      {Op::gather, "a scalar table", {f(), i(2)}, {}, {}},
      {Op::scatter_add, "updates of another shape", {i(2), f(3, 3)}, {{"rows", Int{5}}}, {}},
      {Op::pack_lengths, "float lengths", {f(4)}, {{"steps", Int{3}}}, {}},
      {Op::pack_lengths, "a matrix of lengths", {i(4, 2)}, {{"steps", Int{3}}}, {}},
      {Op::pack_lengths, "more places than an i32 counts", {i(4)}, {{"steps", Int{1} << 30}}, {}},
      {Op::random_uniform, "a short key", {i(2)}, {{"shape", Ints{2}}, {"rng_stream", Int{1}}}, {}},
      {Op::random_uniform, "a step that is no scalar", {i(3), i(1)}, {{"shape", Ints{2}}, {"rng_stream", Int{1}}}, {}},
      {Op::scan,
       "packed rows of another batch",
       {f(2, 3), f(15, 3), i(5)},
       scan_with("packed", true),
       parse_graph(k_scan_body)},
      {Op::scan,
       "batch sizes of other steps",
       {f(2, 3), f(10, 3), i(4)},
       scan_with("packed", true),
       parse_graph(k_scan_body)},
      {Op::scan, "no body", {f(2, 3), f(5, 2, 3)}, k_scan, {}},
      {Op::scan, "a sequence of another length", {f(2, 3), f(4, 2, 3)}, k_scan, parse_graph(k_scan_body)},
      {Op::scan, "an operand too few", {f(2, 3)}, k_scan, parse_graph(k_scan_body)},
      {Op::scan, "a next state of another shape", {f(2, 3), f(5, 2, 3)}, k_scan, parse_graph(k_wrong_state_body)},
      {Op::scan,
       "lengths of another batch",
       {f(2, 3), f(5, 2, 3), i(3)},
       scan_with("lengths", true),
       parse_graph(k_scan_body)},
      {Op::scan, "negative steps", {f(2, 3), f(5, 2, 3)}, scan_with("steps", Int{-1}), parse_graph(k_scan_body)},
      {Op::scan,
       "more states than operands",
       {f(2, 3), f(5, 2, 3)},
       scan_with("states", Int{4}),
       parse_graph(k_scan_body)},
      {Op::scan,
       "a huge count of states",
       {f(2, 3), f(5, 2, 3)},
       scan_with("states", (Int{1} << 32) + 1),
       parse_graph(k_scan_body)},
      {Op::fused, "no body", {f(2, 3)}, {}, {}},
      {Op::fused, "a body with a transpose", {f(2, 3)}, {}, parse_graph(k_not_elementwise_body)},
      {Op::fused, "another shape than the body's", {f(2, 4)}, {}, parse_graph(k_fused_body)},
      {Op::fused_reduction, "no body", {f(2, 3)}, {}, {}},
      {Op::fused_reduction, "a body that adds up columns", {f(2, 3)}, {}, parse_graph(k_column_body)},
      {Op::fused_reduction, "a body with a transpose", {f(2, 3)}, {}, parse_graph(k_not_elementwise_body)},
      {Op::fused_reduction, "another shape than the body's", {f(2, 4)}, {}, parse_graph(k_row_body)},
      {Op::fused_reduction, "sums of three of two rows", {f(2, 3)}, k_sums_of_three, parse_graph(k_row_body)},
      {Op::fused_reduction, "a sum twice", {f(2, 3)}, k_sums_twice, parse_graph(k_row_body)},
      {Op::fused_reduction, "a sum of no output", {f(2, 3)}, k_sums_beyond, parse_graph(k_row_body)},
      {Op::gradient, "a cotangent of another type", {f(2), f(2), f(3)}, k_gradient, {}},
  };
  list.insert(list.end(), rows.begin(), rows.end());
}

// x, h0, [c0], [lengths], [key], parameters with T=5 B=2 I=3 H=4 unless said otherwise.
void add_recurrent(std::vector<OpExample>& right, std::vector<OpExample>& wrong) {
  const Attributes tanh_cell{{"relu", false}}, relu_cell{{"relu", true}, {"bias", false}};
  right.push_back(
      {Op::rnn, "one layer", {f(5, 2, 3), f(1, 2, 4), f(4, 3), f(4, 4), f(4), f(4)}, recurrent(tanh_cell), {}});
  right.push_back({Op::rnn, "relu without bias", {f(5, 2, 3), f(1, 2, 4), f(4, 3), f(4, 4)}, recurrent(relu_cell), {}});
  wrong.push_back({Op::rnn, "a bias missing", {f(5, 2, 3), f(1, 2, 4), f(4, 3), f(4, 4)}, recurrent(tanh_cell), {}});
  wrong.push_back(
      {Op::rnn, "another h0", {f(5, 2, 3), f(2, 2, 4), f(4, 3), f(4, 4), f(4), f(4)}, recurrent(tanh_cell), {}});
  wrong.push_back(
      {Op::rnn, "an operand too many", {f(5, 2, 3), f(1, 2, 4), f(4, 3), f(4, 4), f(4)}, recurrent(relu_cell), {}});

  const Attributes before{{"reset_after", false}}, after{{"reset_after", true}, {"lengths", true}};
  right.push_back(
      {Op::gru, "reset before", {f(5, 2, 3), f(1, 2, 4), f(12, 3), f(12, 4), f(12), f(12)}, recurrent(before), {}});
  right.push_back(
      {Op::gru, "lengths", {f(5, 2, 3), f(1, 2, 4), i(2), f(12, 3), f(12, 4), f(12), f(12)}, recurrent(after), {}});
  wrong.push_back(
      {Op::gru, "four gates", {f(5, 2, 3), f(1, 2, 4), f(16, 3), f(16, 4), f(16), f(16)}, recurrent(before), {}});
  wrong.push_back({Op::gru,
                   "float lengths",
                   {f(5, 2, 3), f(1, 2, 4), f(2), f(12, 3), f(12, 4), f(12), f(12)},
                   recurrent(after),
                   {}});

  const Attributes plain{{"projection", Int{0}}, {"peephole", false}};
  const Attributes rich{{"projection", Int{2}},  {"peephole", true}, {"layers", Int{2}},
                        {"bidirectional", true}, {"dropout", 0.5},   {"lengths", true}};
  std::vector<Type> in{f(5, 2, 3), f(4, 2, 2), f(4, 2, 4), i(2), i(3)};
  for (int layer = 0; layer < 2; ++layer)
    for (int direction = 0; direction < 2; ++direction)
      for (const Type& t : {f(16, layer == 0 ? 3 : 4), f(16, 2), f(16), f(16), f(2, 4), f(4), f(4), f(4)})
        in.push_back(t);
  right.push_back({Op::lstm,
                   "one layer",
                   {f(5, 2, 3), f(1, 2, 4), f(1, 2, 4), f(16, 3), f(16, 4), f(16), f(16)},
                   recurrent(plain),
                   {}});
  right.push_back({Op::lstm, "everything at once", in, recurrent(rich), {}});
  in.pop_back();
  wrong.push_back({Op::lstm, "a peephole missing", in, recurrent(rich), {}});
  wrong.push_back({Op::lstm,
                   "x without time",
                   {f(2, 3), f(1, 2, 4), f(1, 2, 4), f(16, 3), f(16, 4), f(16), f(16)},
                   recurrent(plain),
                   {}});
  wrong.push_back({Op::lstm,
                   "two dtypes",
                   {f(5, 2, 3), f(1, 2, 4), f(1, 2, 4), i(16, 3), f(16, 4), f(16), f(16)},
                   recurrent(plain),
                   {}});
}

void add_composite_right(std::vector<OpExample>& list) {
  const std::vector<OpExample> rows{
      {Op::softmax, "rows", {f(2, 3)}, {}, {}},
      {Op::log_softmax, "rows", {f(2, 3)}, {}, {}},
      {Op::layer_norm, "rows", {f(2, 3), f(3), f(3)}, {{"epsilon", 1e-5}}, {}},
      {Op::dropout, "a key", {f(2, 3), i(3)}, {{"rate", 0.5}, {"rng_stream", Int{0}}}, {}},
      {Op::dropout, "a key and a step", {f(2, 3), i(3), i()}, {{"rate", 0.5}, {"rng_stream", Int{0}}}, {}},
      {Op::embedding, "ids of a batch", {f(5, 3), i(2, 4)}, {}, {}},
      {Op::conv, "a sequence", {f(2, 7, 3), f(4, 3, 3)}, k_conv, {}},
      {Op::conv, "a bias", {f(2, 7, 3), f(4, 3, 3), f(4)}, k_conv, {}},
      {Op::dot_attention, "no mask", {f(2, 3, 4), f(2, 5, 4), f(2, 5, 6)}, {{"scale", 0.5}}, {}},
      {Op::dot_attention, "a mask", {f(2, 3, 4), f(2, 5, 4), f(2, 5, 6), b(3, 5)}, {{"scale", 0.5}}, {}},
      {Op::additive_attention, "no mask", {f(2, 3, 4), f(2, 5, 6), f(2, 5, 7), f(8, 4), f(8, 6), f(8)}, {}, {}},
      {Op::additive_attention,
       "a mask",
       {f(2, 3, 4), f(2, 5, 6), f(2, 5, 7), f(8, 4), f(8, 6), f(8), b(2, 1, 5)},
       {},
       {}},
      {Op::multi_head_attention,
       "no mask",
       {f(2, 3, 4), f(2, 5, 4), f(2, 5, 4), f(12, 4), f(12), f(4, 4), f(4)},
       {{"heads", Int{2}}},
       {}},
      {Op::multi_head_attention,
       "a mask",
       {f(2, 3, 4), f(2, 5, 4), f(2, 5, 4), f(12, 4), f(12), f(4, 4), f(4), b(5)},
       {{"heads", Int{2}}},
       {}},
      {Op::softmax_cross_entropy, "labels per row", {f(2, 3, 5), i(2, 3)}, {}, {}},
      {Op::mse, "a pair", {f(2, 3), f(2, 3)}, {}, {}},
      {Op::mae, "a pair", {f(2, 3), f(2, 3)}, {}, {}},
      {Op::huber, "a pair", {f(2, 3), f(2, 3)}, {{"delta", 1.0}}, {}},
      {Op::pinball, "a pair", {f(2, 3), f(2, 3)}, {{"quantile", 0.9}}, {}},
      {Op::bce, "a pair", {f(2, 3), f(2, 3)}, {}, {}},
      {Op::sgd, "no momentum", {f(2, 3), f(2, 3), f()}, k_sgd, {}},
      {Op::sgd, "momentum", {f(2, 3), f(2, 3), f(), f(2, 3)}, k_sgd, {}},
      {Op::adam, "both slots", {f(2, 3), f(2, 3), f(2, 3), f(2, 3), f(), i()}, k_adam, {}},
      {Op::rmsprop, "no momentum", {f(2, 3), f(2, 3), f(2, 3), f()}, k_rmsprop, {}},
      {Op::rmsprop, "momentum", {f(2, 3), f(2, 3), f(2, 3), f(), f(2, 3)}, k_rmsprop, {}},
      {Op::adagrad, "one slot", {f(2, 3), f(2, 3), f(2, 3), f()}, k_adagrad, {}},
      {Op::lion, "one slot", {f(2, 3), f(2, 3), f(2, 3), f()}, k_lion, {}},
      {Op::all_reduce,
       "two blocks",
       {f(5), f(5)},
       {{"micro_batches", Int{3}}, {"rank", Int{0}}, {"ranks", Int{1}}},
       {}},
  };
  list.insert(list.end(), rows.begin(), rows.end());
}

void add_composite_wrong(std::vector<OpExample>& list) {
  const std::vector<OpExample> rows{
      {Op::softmax, "integers", {i(2, 3)}, {}, {}},
      {Op::log_softmax, "a scalar", {f()}, {}, {}},
      {Op::conv, "another number of channels", {f(2, 7, 3), f(4, 3, 2)}, k_conv, {}},
      {Op::conv, "a bias of another size", {f(2, 7, 3), f(4, 3, 3), f(3)}, k_conv, {}},
      {Op::layer_norm, "a weight of another width", {f(2, 3), f(2), f(3)}, {{"epsilon", 1e-5}}, {}},
      {Op::dropout, "rate 1", {f(2, 3), i(3)}, {{"rate", 1.0}, {"rng_stream", Int{0}}}, {}},
      {Op::dropout, "a float key", {f(2, 3), f(3)}, {{"rate", 0.5}, {"rng_stream", Int{0}}}, {}},
      {Op::dropout, "a step that is no scalar", {f(2, 3), i(3), i(2)}, {{"rate", 0.5}, {"rng_stream", Int{0}}}, {}},
      {Op::embedding, "float ids", {f(5, 3), f(2)}, {}, {}},
      {Op::dot_attention, "two widths", {f(2, 3, 4), f(2, 5, 3), f(2, 5, 6)}, {{"scale", 0.5}}, {}},
      {Op::dot_attention,
       "a mask of another shape",
       {f(2, 3, 4), f(2, 5, 4), f(2, 5, 6), b(4, 5)},
       {{"scale", 0.5}},
       {}},
      {Op::additive_attention,
       "a weight of another width",
       {f(2, 3, 4), f(2, 5, 6), f(2, 5, 7), f(8, 5), f(8, 6), f(8)},
       {},
       {}},
      {Op::multi_head_attention,
       "heads that do not divide",
       {f(2, 3, 4), f(2, 5, 4), f(2, 5, 4), f(12, 4), f(12), f(4, 4), f(4)},
       {{"heads", Int{3}}},
       {}},
      {Op::softmax_cross_entropy, "labels of another shape", {f(2, 3, 5), i(3)}, {}, {}},
      {Op::mse, "two shapes", {f(2, 3), f(3)}, {}, {}},
      {Op::mae, "two dtypes", {f(2, 3), i(2, 3)}, {}, {}},
      {Op::huber, "delta 0", {f(2, 3), f(2, 3)}, {{"delta", 0.0}}, {}},
      {Op::pinball, "quantile 1", {f(2, 3), f(2, 3)}, {{"quantile", 1.0}}, {}},
      {Op::bce, "integers", {i(2, 3), i(2, 3)}, {}, {}},
      {Op::sgd, "a gradient of another shape", {f(2, 3), f(3), f()}, k_sgd, {}},
      {Op::adam, "a float update", {f(2), f(2), f(2), f(2), f(), f()}, k_adam, {}},
      {Op::rmsprop, "a slot of another shape", {f(2, 3), f(2, 3), f(3), f()}, k_rmsprop, {}},
      {Op::adagrad, "lr per element", {f(2, 3), f(2, 3), f(2, 3), f(2, 3)}, k_adagrad, {}},
      {Op::lion, "a slot of another shape", {f(2, 3), f(2, 3), f(3), f()}, k_lion, {}},
      {Op::all_reduce, "a block too few", {f(5)}, {{"micro_batches", Int{3}}, {"rank", Int{0}}, {"ranks", Int{1}}}, {}},
      {Op::all_reduce, "a rank too high", {f(5)}, {{"micro_batches", Int{4}}, {"rank", Int{2}}, {"ranks", Int{2}}}, {}},
  };
  list.insert(list.end(), rows.begin(), rows.end());
}

struct Examples {
  std::vector<OpExample> right, wrong;
};
Examples all_examples() {
  Examples e;
  add_elementwise(e.right, e.wrong);
  add_basic_right(e.right);
  add_basic_wrong(e.wrong);
  add_recurrent(e.right, e.wrong);
  add_composite_right(e.right);
  add_composite_wrong(e.wrong);
  return e;
}

}  // namespace

std::vector<OpExample> right_examples() { return all_examples().right; }
std::vector<OpExample> wrong_examples() { return all_examples().wrong; }

std::shared_ptr<Graph> example_graph(const OpExample& example) {
  auto graph = std::make_shared<Graph>();
  if (example.op == Op::input) {
    graph->output("y0", graph->input("x", {DType::f32, Shape{2}}));
    return graph;
  }
  std::vector<Value> in;
  for (const Type& type : example.inputs) in.push_back(graph->input("x" + std::to_string(in.size()), type));
  const std::vector<Value> out = graph->append(example.op, in, example.attributes, example.body);
  for (std::size_t k = 0; k < out.size(); ++k) graph->output("y" + std::to_string(k), out[k]);
  return graph;
}

}  // namespace unroll
