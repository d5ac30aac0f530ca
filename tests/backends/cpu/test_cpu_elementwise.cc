// SPDX-License-Identifier: Apache-2.0
// Elementwise programs of the cpu backend against one element at a time in plain C++.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "core/support/formats.h"
#include "cpu_kernel_test.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

using namespace unroll;
using namespace unroll::cpu;

namespace {

// A number of any dtype.
struct Number {
  float f = 0;
  double d = 0;
  std::int32_t i = 0;
  bool b = false;
  template <class T>
  T& as() {
    if constexpr (std::is_same_v<T, float>) return f;
    else if constexpr (std::is_same_v<T, double>) return d;
    else return i;
  }
};

template <class T>
T number_of(double x) {
  if (x != x) return 0;
  return static_cast<T>(std::clamp(x, double{std::numeric_limits<T>::min()}, double{std::numeric_limits<T>::max()}));
}
std::int32_t wrap(std::int64_t x) { return static_cast<std::int32_t>(static_cast<std::uint32_t>(x)); }

bool wants_floats(Op op) {
  for (const Op one : {Op::sqrt, Op::is_finite, Op::round_bf16, Op::round_f16, Op::round_tf32})
    if (op == one) return true;
  return false;
}
template <class T>
T rounded(const Format& format, T x) {
  if constexpr (std::is_floating_point_v<T>) return round_to(format, x);
  else return x;
}

template <class T>
void apply_number(Op op, T a, T b, Number& out) {
  constexpr bool k_int = std::is_same_v<T, std::int32_t>;
  const bool nan = a != a || b != b;
  T& y = out.as<T>();
  const auto wide = [](T x) { return static_cast<std::conditional_t<k_int, std::int64_t, T>>(x); };
  const auto narrow = [](auto x) {
    if constexpr (k_int) return wrap(x);
    else return x;
  };
  switch (op) {
    case Op::neg: y = narrow(-wide(a)); break;
    case Op::abs:
      y = narrow(wide(a) < 0 || (!k_int && std::signbit(static_cast<double>(a))) ? -wide(a) : wide(a));
      break;
    case Op::sign: y = a != a ? a : static_cast<T>((a > 0) - (a < 0)); break;
    case Op::sqrt: y = static_cast<T>(std::sqrt(a)); break;
    case Op::add: y = narrow(wide(a) + wide(b)); break;
    case Op::sub: y = narrow(wide(a) - wide(b)); break;
    case Op::mul: y = narrow(wide(a) * wide(b)); break;
    case Op::div: y = k_int && b == 0 ? T{0} : narrow(wide(a) / wide(b)); break;
    case Op::maximum: y = nan ? a + b : std::max(b, a); break;
    case Op::round_bf16: y = rounded(k_bf16, a); break;
    case Op::round_f16: y = rounded(k_f16, a); break;
    case Op::round_tf32: y = rounded(k_tf32, a); break;
    case Op::minimum: y = nan ? a + b : std::min(b, a); break;
    case Op::less: out.b = a < b; break;
    case Op::less_equal: out.b = a <= b; break;
    case Op::equal: out.b = a == b; break;
    case Op::is_finite: out.b = std::isfinite(static_cast<double>(a)); break;
    default: FAIL("op");
  }
}

double value_of(const Number& x, DType dtype) {
  return dtype == DType::f32   ? double{x.f}
         : dtype == DType::f64 ? x.d
         : dtype == DType::i32 ? double(x.i)
                               : double(x.b);
}

Number apply(const Instruction& in, const Number& a, Number b, const Number& c) {
  Number y;
  if (in.op == Op::select) return a.b ? b : c;
  if (in.op == Op::stop_gradient) return a;
  if (in.op == Op::logical_and) y.b = a.b && b.b;
  else if (in.op == Op::logical_or) y.b = a.b || b.b;
  else if (in.op == Op::logical_not) y.b = !a.b;
  else if (in.op == Op::cast) {
    const double x = value_of(a, in.dtype);
    y.f = in.dtype == DType::f32 ? a.f : static_cast<float>(x);
    y.d = x;
    y.i = in.dtype == DType::i32 ? a.i : number_of<std::int32_t>(x);
    y.b = x != 0;
  } else if (in.dtype == DType::b8) {
    y.b = in.op == Op::less ? a.b < b.b : in.op == Op::equal ? a.b == b.b : a.b <= b.b;
  } else {
    if (op_info(in.op).max_inputs == 1) b = a;
    if (in.dtype == DType::f32) apply_number(in.op, a.f, b.f, y);
    if (in.dtype == DType::f64) apply_number(in.op, a.d, b.d, y);
    if (in.dtype == DType::i32) apply_number(in.op, a.i, b.i, y);
  }
  return y;
}

// Random data with the values that break things.
std::vector<std::byte> random_bytes(DType dtype, std::int64_t n) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(n) * dtype_bytes(dtype));
  const auto set = [&]<class T>(T, const std::vector<T>& odd, double scale) {
    for (std::int64_t i = 0; i < n; ++i) {
      const bool special = random_int(0, 9) == 0;
      const T value = special ? odd[static_cast<std::size_t>(random_int(0, static_cast<std::int64_t>(odd.size()) - 1))]
                              : random_values<T>(1, -scale, scale)[0];
      std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
    }
  };
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const auto floats = [&]<class T>(T) {
    set(T{},
        std::vector<T>{0, T(-0.0), 1, T(inf), T(-inf), T(nan), T(3e9), T(-3e9), std::numeric_limits<T>::denorm_min()},
        4);
  };
  if (dtype == DType::f32) floats(float{});
  if (dtype == DType::f64) floats(double{});
  using Limits = std::numeric_limits<std::int32_t>;
  if (dtype == DType::i32) set(std::int32_t{}, std::vector<std::int32_t>{0, -1, 1, Limits::min(), Limits::max()}, 9);
  if (dtype == DType::b8)
    for (auto& b : bytes) b = static_cast<std::byte>(random_int(0, 1));
  return bytes;
}

Number load(const std::vector<std::byte>& bytes, DType dtype, std::int64_t element) {
  const std::byte* at = bytes.data() + static_cast<std::size_t>(element) * dtype_bytes(dtype);
  Number x;
  if (dtype == DType::f32) std::memcpy(&x.f, at, 4);
  if (dtype == DType::f64) std::memcpy(&x.d, at, 8);
  if (dtype == DType::i32) std::memcpy(&x.i, at, 4);
  if (dtype == DType::b8) x.b = *at != std::byte{0};
  return x;
}
bool same(const Number& x, const Number& y, DType dtype) {
  if (dtype == DType::f32) return x.f == y.f || (x.f != x.f && y.f != y.f);
  if (dtype == DType::f64) return x.d == y.d || (x.d != x.d && y.d != y.d);
  return dtype == DType::i32 ? x.i == y.i : x.b == y.b;
}

struct Layout {
  Strides strides{};
  std::int64_t elements = 1;  // that the memory needs
};
// dense; each dimension repeated with some chance; or dense in another order of dimensions with gaps.
Layout random_layout(const Shape& shape, int kind) {
  std::vector<std::size_t> order;
  for (int i = shape.rank() - 1; i >= 0; --i) order.push_back(static_cast<std::size_t>(i));
  if (kind == 2) std::shuffle(order.begin(), order.end(), generator());
  Layout layout;
  for (const std::size_t axis : order) {
    if (kind == 1 && random_int(0, 1)) continue;
    layout.strides[axis] = layout.elements;
    layout.elements *= std::max<std::int64_t>(1, shape[static_cast<int>(axis)]) + (kind == 2 ? random_int(0, 2) : 0);
  }
  return layout;
}

struct TileProgram {
  Expression source;
  std::vector<DType> dtypes;  // of registers
  std::vector<Layout> inputs, results;
};

constexpr DType k_dtypes[] = {DType::f32, DType::f64, DType::i32, DType::b8};
DType random_dtype() { return k_dtypes[random_int(0, 3) == 0 ? random_int(0, 3) : 2 * random_int(0, 1)]; }

// A register of the dtype; a cast is added when there is none.
std::uint16_t pick(TileProgram& p, DType dtype) {
  std::vector<std::uint16_t> fitting;
  for (std::size_t r = 0; r < p.dtypes.size(); ++r)
    if (p.dtypes[r] == dtype) fitting.push_back(static_cast<std::uint16_t>(r));
  if (!fitting.empty() && random_int(0, 9))
    return fitting[static_cast<std::size_t>(random_int(0, static_cast<std::int64_t>(fitting.size()) - 1))];
  const auto from = static_cast<std::uint16_t>(random_int(0, static_cast<std::int64_t>(p.dtypes.size()) - 1));
  p.source.instructions.push_back({Op::cast, p.dtypes[from], dtype, from});
  p.dtypes.push_back(dtype);
  return static_cast<std::uint16_t>(p.dtypes.size() - 1);
}

void add_instruction(TileProgram& p) {
  static const Op ops[] = {Op::neg,        Op::abs,         Op::sign,      Op::sqrt,      Op::add,
                           Op::sub,        Op::mul,         Op::div,       Op::maximum,   Op::minimum,
                           Op::less,       Op::less_equal,  Op::equal,     Op::is_finite, Op::logical_and,
                           Op::logical_or, Op::logical_not, Op::select,    Op::cast,      Op::stop_gradient,
                           Op::round_bf16, Op::round_f16,   Op::round_tf32};
  const Op op = ops[random_int(0, std::size(ops) - 1)];
  const OpInfo& info = op_info(op);
  DType dtype = random_dtype();
  if (wants_floats(op)) dtype = random_int(0, 1) ? DType::f32 : DType::f64;
  if (info.kind == OpKind::logical) dtype = DType::b8;
  const bool any = info.kind == OpKind::compare || op == Op::select || op == Op::cast || op == Op::stop_gradient;
  if (dtype == DType::b8 && !any && info.kind != OpKind::logical) dtype = DType::f32;
  Instruction in{op, dtype, random_dtype()};
  std::uint16_t* const operands[] = {&in.a, &in.b, &in.c};
  for (int k = 0; k < info.max_inputs; ++k) *operands[k] = pick(p, op == Op::select && k == 0 ? DType::b8 : dtype);
  const bool truth = info.kind == OpKind::compare || info.kind == OpKind::logical || op == Op::is_finite;
  p.source.instructions.push_back(in);
  p.dtypes.push_back(truth ? DType::b8 : op == Op::cast ? in.to : dtype);
}

TileProgram random_program(const Shape& shape) {
  TileProgram p;
  p.source.shape = shape;
  for (std::int64_t i = random_int(1, 4); i > 0; --i) {
    const DType dtype = random_dtype();
    p.inputs.push_back(random_layout(shape, static_cast<int>(random_int(0, 2))));
    p.source.inputs.push_back({dtype, p.inputs.back().strides});
    p.dtypes.push_back(dtype);
  }
  for (std::int64_t i = random_int(0, 2); i > 0; --i) {
    const DType dtype = random_dtype();
    p.source.constants.emplace_back(dtype, static_cast<double>(random_int(0, 1)));
    p.dtypes.push_back(dtype);
  }
  for (std::int64_t i = random_int(1, 12); i > 0; --i) add_instruction(p);
  for (std::int64_t i = random_int(1, 3); i > 0; --i) {
    p.results.push_back(random_layout(shape, random_int(0, 3) ? 0 : 2));
    const auto last = static_cast<std::int64_t>(p.dtypes.size()) - 1;
    p.source.results.push_back({static_cast<std::uint16_t>(random_int(0, 2) ? last : random_int(0, last)),
                                p.results.back().strides});
  }
  return p;
}

// Expected numbers of each result, element by element.
std::vector<std::vector<Number>> expected(const TileProgram& p, const std::vector<std::vector<std::byte>>& inputs) {
  std::vector<std::vector<Number>> results(p.source.results.size());
  for (std::int64_t e = 0; e < p.source.shape.elements(); ++e) {
    std::vector<Number> registers;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      registers.push_back(load(inputs[i], p.source.inputs[i].dtype, offset(p.source.shape, p.inputs[i].strides, e)));
    for (const auto& [dtype, value] : p.source.constants)
      registers.push_back({static_cast<float>(value), value, static_cast<std::int32_t>(value), value != 0});
    for (const Instruction& in : p.source.instructions)
      registers.push_back(apply(in, registers[in.a], registers[in.b], registers[in.c]));
    for (std::size_t k = 0; k < results.size(); ++k) results[k].push_back(registers[p.source.results[k].from]);
  }
  return results;
}

std::string text_of(const Expression& source) {
  std::string text;
  for (const Instruction& i : source.instructions)
    text += std::string(op_info(i.op).name) + " " + std::string(dtype_name(i.dtype)) + " " +
            std::string(dtype_name(i.to)) + " " + std::to_string(i.a) + " " + std::to_string(i.b) + " " +
            std::to_string(i.c) + "; ";
  return text;
}

void check_program(const TileProgram& p, bool in_place) {
  std::vector<std::vector<std::byte>> inputs;
  for (std::size_t i = 0; i < p.inputs.size(); ++i)
    inputs.push_back(random_bytes(p.source.inputs[i].dtype, p.inputs[i].elements));
  const auto wanted = expected(p, inputs);
  common::Expression source = p.source;
  for (auto& result : source.results) result.apart = !in_place;
  const Elementwise program(source);
  std::vector<std::vector<std::byte>> first;
  for (int n = 1; n <= 4; ++n) {
    auto ins = inputs;
    std::vector<std::vector<std::byte>> outs;
    std::vector<const void*> in_pointers;
    std::vector<void*> out_pointers;
    for (const auto& in : ins) in_pointers.push_back(in.data());
    std::vector<bool> taken(ins.size(), false);
    for (std::size_t k = 0; k < p.results.size(); ++k) {
      const DType dtype = p.dtypes[p.source.results[k].from];
      outs.emplace_back(static_cast<std::size_t>(p.results[k].elements) * dtype_bytes(dtype));
      out_pointers.push_back(outs.back().data());
      for (std::size_t i = 0; in_place && i < ins.size(); ++i)
        if (!taken[i] && p.inputs[i].strides == p.results[k].strides && ins[i].size() == outs.back().size() &&
            dtype_bytes(p.source.inputs[i].dtype) == dtype_bytes(dtype)) {
          taken[i] = true;
          out_pointers.back() = ins[i].data();
          break;
        }
    }
    pool_of(n).run([&](const Worker& worker) { program.run(in_pointers, out_pointers, worker); });
    for (std::size_t k = 0; k < outs.size(); ++k) {
      if (!outs[k].empty()) std::memcpy(outs[k].data(), out_pointers[k], outs[k].size());
      if (n == 1) {
        const DType dtype = p.dtypes[p.source.results[k].from];
        std::int64_t wrong = 0;
        for (std::size_t e = 0; e < wanted[k].size(); ++e)
          wrong +=
              !same(load(outs[k], dtype, offset(p.source.shape, p.results[k].strides, static_cast<std::int64_t>(e))),
                    wanted[k][e], dtype);
        CHECK_MESSAGE(wrong == 0, p.source.shape.text(), " result ", k, " in place ", in_place, ": ",
                      text_of(p.source));
      } else if (!in_place) {
        CHECK_MESSAGE(outs[k] == first[k], n, " threads");
      }
    }
    if (n == 1) first = outs;
  }
}

void check_every_op() {
  for (const OpInfo& info : op_table()) {
    if (!is_elementwise(info.op) || info.cost == OpCost::expensive) continue;
    for (const DType dtype : k_dtypes)
      for (const DType to : k_dtypes) {
        if (info.op != Op::cast && to != DType::f32) continue;
        TileProgram p;
        p.source.shape = {777};
        const int n = info.max_inputs;
        for (int k = 0; k < n; ++k) {
          const DType operand = info.op == Op::select && k == 0 ? DType::b8 : dtype;
          p.inputs.push_back(random_layout(p.source.shape, 0));
          p.source.inputs.push_back({operand, p.inputs.back().strides});
          p.dtypes.push_back(operand);
        }
        p.source.instructions.push_back({info.op, dtype, to, 0, std::uint16_t(n > 1), std::uint16_t(n > 2 ? 2 : 0)});
        const bool truth = info.kind == OpKind::compare || info.kind == OpKind::logical || info.op == Op::is_finite;
        p.dtypes.push_back(truth ? DType::b8 : info.op == Op::cast ? to : dtype);
        p.results.push_back(random_layout(p.source.shape, 0));
        p.source.results.push_back({static_cast<std::uint16_t>(n), p.results.back().strides});
        const bool numbers = info.kind == OpKind::unary || info.kind == OpKind::binary;
        const bool floats = wants_floats(info.op);
        const bool legal = info.op == Op::stop_gradient || (floats        ? is_float(dtype)
                                                            : numbers     ? dtype != DType::b8
                                                            : info.kind == OpKind::logical ? dtype == DType::b8
                                                                                           : true);
        if (legal) check_program(p, false);
        else CHECK_THROWS_AS(Elementwise{p.source}, Error);
      }
  }
}

}  // namespace

TEST_CASE("random programs over random shapes and strides agree with one element at a time") {
  for_each_instruction_set([](bool best) {
    for (int i = 0; i < (best ? 600 : 100); ++i) {
      const int rank = static_cast<int>(random_int(0, 4));
      const Shape shape = rank == 1 ? Shape{random_int(0, 5000)} : random_shape(rank, rank < 3 ? 100 : 9);
      check_program(random_program(shape), i % 2);
    }
  });
}

TEST_CASE("every op on every legal dtype agrees with one element at a time") {
  for_each_instruction_set([](bool) { check_every_op(); });
}

TEST_CASE("swapping two buffers in place works") {
  TileProgram p;
  p.source.shape = {3000};
  for (int i = 0; i < 2; ++i) {
    p.inputs.push_back(random_layout(p.source.shape, 0));
    p.source.inputs.push_back({DType::f32, p.inputs.back().strides});
  }
  p.source.results = {{1, p.inputs[0].strides}, {0, p.inputs[0].strides}};
  auto a = random_values<float>(3000), b = random_values<float>(3000);
  const auto old_a = a, old_b = b;
  const Elementwise program(p.source);
  pool_of(2).run([&](const Worker& worker) {
    program.run(std::array<const void*, 2>{a.data(), b.data()}, std::array<void*, 2>{a.data(), b.data()}, worker);
  });
  CHECK(a == old_b);
  CHECK(b == old_a);
}

TEST_CASE("a node and a fused body become programs") {
  Graph graph;
  const Value x = graph.input("x", {DType::f32, {5, 70}});
  const Value bias = graph.input("bias", {DType::f32, {70}});
  const Value y = (x + bias) * 2.0;
  graph.output("y", y);
  graph.output("small", less(stop_gradient(y), x));
  const Elementwise program(common::expression_of_body(graph));
  const auto xs = random_values<float>(350), biases = random_values<float>(70);
  std::vector<float> ys(350), sums(350);
  std::vector<std::uint8_t> small(350);
  const Node& add = graph.node(y.node().inputs[0].node);
  const Elementwise one(common::expression_of_node(graph, add));
  pool_of(2).run([&](const Worker& worker) {
    const std::array<const void*, 2> in{xs.data(), biases.data()};
    program.run(in, std::array<void*, 2>{ys.data(), small.data()}, worker);
    one.run(in, std::array<void*, 1>{sums.data()}, worker);
  });
  for (std::size_t i = 0; i < 350; ++i) {
    CHECK(sums[i] == xs[i] + biases[i % 70]);
    CHECK(ys[i] == sums[i] * 2);
    CHECK(small[i] == (ys[i] < xs[i]));
  }
}

TEST_CASE("an operand with one value per row gives the bits of one with all its elements, in every place") {
  constexpr std::int64_t R = 13, C = 70;
  using Body = std::function<Value(const Value& x, const Value& y, const Value& r, const Value& s)>;
  const std::pair<const char*, Body> bodies[] = {
      {"x * r + y", [](auto& x, auto& y, auto& r, auto&) { return x * r + y; }},
      {"y - r * x", [](auto& x, auto& y, auto& r, auto&) { return y - r * x; }},
      {"(r - x) * y", [](auto& x, auto& y, auto& r, auto&) { return (r - x) * y; }},
      {"(x - r) * s", [](auto& x, auto&, auto& r, auto& s) { return (x - r) * s; }},
      {"r / x", [](auto& x, auto&, auto& r, auto&) { return r / x; }},
      {"r * s + x", [](auto& x, auto&, auto& r, auto& s) { return r * s + x; }},
      {"maximum and tanh", [](auto& x, auto&, auto& r, auto& s) { return maximum(x, r) + tanh(s) * x; }},
      {"select", [](auto& x, auto& y, auto& r, auto&) { return select(less(x, r), x, r) * y; }},
      {"r and a copy of it", [](auto& x, auto&, auto& r, auto&) { return stop_gradient(r) * x + r; }}};
  const auto x = random_values<float>(R * C), y = random_values<float>(R * C), r = random_values<float>(R),
             s = random_values<float>(R);
  const auto spread = [&](const std::vector<float>& values) {
    std::vector<float> all;
    for (const float value : values) all.insert(all.end(), C, value);
    return all;
  };
  const auto all_r = spread(r), all_s = spread(s);
  const auto run = [&](const Body& body, bool per_row) {
    Graph fused;
    const auto operand = [&](const char* name) { return fused.input(name, {DType::f32, {R, C}}); };
    fused.output("z", body(operand("x"), operand("y"), operand("r"), operand("s")));
    Expression source = common::expression_of_body(fused);
    if (per_row)
      for (const std::size_t i : {2, 3}) source.inputs[i].strides = {1, 0};
    std::vector<float> z(R * C);
    const std::array<const void*, 4> in{x.data(), y.data(), (per_row ? r : all_r).data(), (per_row ? s : all_s).data()};
    pool_of(2).run([&](const Worker& worker) { Elementwise(source).run(in, std::array<void*, 1>{z.data()}, worker); });
    return z;
  };
  for (const auto& each : bodies) {
    CAPTURE(each.first);
    CHECK(run(each.second, true) == run(each.second, false));
  }
}

TEST_CASE("a program that reads what is not there is refused") {
  Expression source;
  source.shape = {4};
  source.inputs = {{DType::f32, dense_strides(source.shape)}};
  source.instructions = {{Op::neg, DType::f32, DType::f32, 1}};
  CHECK_THROWS_AS(Elementwise{source}, Error);
  source.instructions = {{Op::neg, DType::f64, DType::f64, 0}};
  CHECK_THROWS_AS(Elementwise{source}, Error);
  source.instructions = {{Op::neg, DType::f32, DType::f32, 0}};
  source.results = {{2, dense_strides(source.shape)}};
  CHECK_THROWS_AS(Elementwise{source}, Error);
}
