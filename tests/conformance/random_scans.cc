// SPDX-License-Identifier: Apache-2.0
// Graphs of random cells: a scan, or two, whose body is grown from what cells are made of.
#include <algorithm>

#include "tests/conformance/random_graphs.h"
#include "tests/conformance/random_grower.h"

namespace unroll::testing {

namespace {

constexpr int k_most_scan_steps = 14;

// Letters: T steps, B rows, H and I widths of states and sequences.
struct Sizes {
  std::int64_t T, B, H, I;
};

// Grows the body of one cell. Its pool holds values whose axis 0 is B, and apart from it what is the same for all rows.
class CellGrower {
 public:
  CellGrower(const StepValues& v, const Sizes& n, DType dtype, Random& random)
      : graph_(v.states[0].graph()), n_(n), dtype_(dtype), random_(random) {
    for (const auto* values : {&v.sequences, &v.states, &v.constants})
      for (const Value& x : *values) sort_in(x, values == &v.constants);
  }

  void grow(std::int64_t steps);
  // The next value of a state: most are kept bounded.
  Value next_of(Value state);
  std::vector<Value> outputs(const std::vector<Value>& states, const std::vector<Value>& next);

 private:
  using Step = void (CellGrower::*)();

  void sort_in(Value x, bool is_constant) {
    if (x.dtype() == DType::b8) truths_.push_back(x);
    else if (x.dtype() == DType::i32) (x.rank() == 0 ? steps_ : is_constant ? keys_ : ids_).push_back(x);
    else if (is_constant) (x.rank() == 2 ? weights_ : vectors_).push_back(x);
    else pool_.push_back(x);
  }
  template <class List>
  auto any(const List& list) {
    return list[static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(list.size())))];
  }
  template <class Fits>
  Value find(const std::vector<Value>& list, Fits fits) {
    std::vector<Value> found;
    for (const Value& x : list)
      if (fits(x)) found.push_back(x);
    if (found.empty()) return {};
    // Half of the time one of the latest three: deep as well as wide.
    if (random_.chance(0.5) && found.size() > 3) found.erase(found.begin(), found.end() - 3);
    return any(found);
  }
  Value rows(std::int64_t width = -1) {  // [B, width]
    return find(pool_, [&](Value x) { return x.rank() == 2 && (width < 0 || x.shape()[1] == width); });
  }
  void keep(Value x) {
    if (x.shape().elements() <= 4096) pool_.push_back(x);
  }
  static std::int64_t width(Value x) { return x.shape()[1]; }

  // A number table of the body itself: what users write as literals, and what binding constants makes.
  Value table(Shape shape) {
    Tensor t(dtype_, shape);
    for (std::int64_t i = 0; i < t.elements(); ++i) t.set(i, static_cast<double>(random_.below(257) - 128) / 128);
    return constant(graph_, std::move(t));
  }
  Value weight(std::int64_t out, std::int64_t in) {  // [out, in]; out < 0: any
    Value w = find(weights_, [&](Value x) { return x.shape()[1] == in && (out < 0 || x.shape()[0] == out); });
    return w ? w : table({out < 0 ? random_.from(1, 6) : out, in});
  }
  Value vector(std::int64_t size) {
    const Value v = find(vectors_, [&](Value x) { return x.shape() == Shape{size}; });
    return v ? v : table({size});
  }
  Value affine(Value x, std::int64_t out = -1) {
    const Value w = weight(out, width(x));
    const double scale = 1 / (1 + 0.25 * static_cast<double>(width(x)));
    return linear(x * scale, w, random_.chance(0.5) ? vector(w.shape()[0]) : Value{});
  }

  void grow_affine() {
    if (const Value x = rows()) keep(affine(x));
  }
  // Sums of products, as gates have them.
  void grow_affines() {
    const Value x = rows(), y = rows();
    if (!x) return;
    const Value a = affine(x);
    keep(a + affine(y, width(a)));
  }
  // A product of a gated value, as in GRU and MGU.
  void grow_nested() {
    const Value x = rows();
    if (!x) return;
    const Value gate = sigmoid(affine(x, width(x)));
    keep(tanh(affine(gate * x)));
  }
  // The constant as it is stored, not transposed.
  void grow_plain_product() {
    const Value x = rows();
    if (!x) return;
    const Value w = find(weights_, [&](Value v) { return v.shape()[0] == width(x); });
    keep(matmul(x, w ? w : table({width(x), random_.from(1, 6)})) * 0.25);
  }
  void grow_unary() {
    const Value x = find(pool_, [](Value) { return true; });
    switch (random_.below(10)) {
      case 0: return keep(tanh(x));
      case 1: return keep(sigmoid(x));
      case 2: return keep(relu(x));
      case 3: return keep(silu(x));
      case 4: return keep(exp(minimum(x, scalar_like(x, 1))));
      case 5: return keep(softplus(x));
      case 6: return keep(1.0 - x);
      case 7: return keep(sqrt(abs(x) + 0.5));
      case 8: return keep(log(abs(x) + 0.5));
      default: return keep(-x * 0.5);
    }
  }
  void grow_binary() {
    const Value x = find(pool_, [](Value) { return true; });
    const Value y = find(pool_, [&](Value v) {
      return v.shape() == x.shape() || (v.rank() == x.rank() && v.rank() == 2 && width(v) == 1);
    });
    switch (random_.below(7)) {
      case 0: return keep(x + y);
      case 1: return keep(x - y);
      case 2: return keep(x * y);
      case 3: return keep(x / (abs(y) + 1.0));
      case 4: return keep(maximum(x, y));
      case 5: return keep(minimum(x, y));
      default: return keep(sigmoid(x) * tanh(y));
    }
  }
  void grow_vector() {
    const Value x = rows();
    if (x) keep(random_.chance(0.5) ? x * vector(width(x)) : x + vector(width(x)));
  }
  void grow_parts() {
    const Value x = rows();
    if (!x) return;
    for (const int n : {4, 3, 2})
      if (width(x) % n == 0) {
        for (const Value& part : split(x, 1, n)) keep(part);
        return;
      }
  }
  void grow_slice() {
    const Value x = rows();
    if (!x) return;
    const std::int64_t start = random_.below(width(x));
    keep(slice(x, 1, start, random_.from(1, width(x) - start)));
  }
  void grow_concat() {
    std::vector<Value> parts;
    for (std::int64_t k = random_.from(2, 3); k > 0; --k)
      if (const Value x = rows()) parts.push_back(x);
    if (!parts.empty()) keep(concat(parts, 1));
  }
  void grow_pad() {
    if (const Value x = rows()) keep(pad(x, 1, random_.below(2), random_.below(3)));
  }
  void grow_row_reduction() {
    const Value x = rows();
    if (!x) return;
    switch (random_.below(4)) {
      case 0: return keep(x - reduce_max(x, {1}, true));
      case 1: return keep(x / (reduce_sum(abs(x), {1}, true) + 1.0));
      case 2: return keep(reduce_sum(x * x, {1}, true) * 0.25);
      default: return keep(reduce_sum(x, {1}) * 0.25);
    }
  }
  void grow_norm() {
    const Value x = rows();
    if (!x) return;
    switch (random_.below(3)) {
      case 0: return keep(layer_norm(x, vector(width(x)), vector(width(x)), 0.1));
      case 1: return keep(softmax(x));
      default: return keep(log_softmax(x));
    }
  }
  void grow_select() {
    const Value x = rows();
    if (!x || truths_.empty()) return;
    Value c = any(truths_);
    if (random_.chance(0.3)) c = logical_not(c);
    keep(select(reshape(c, {n_.B, 1}), x, random_.chance(0.5) ? rows(width(x)) : x * 0.5));
  }
  // A product for each row: outer products, and states that are matrices.
  void grow_batched() {
    const Value m = find(pool_, [](Value x) { return x.rank() == 3; }), x = rows(), y = rows();
    if (!x) return;
    if (!m || random_.chance(0.3)) {
      const Value outer = matmul(reshape(x, {n_.B, width(x), 1}), reshape(y, {n_.B, 1, width(y)}));
      return keep(outer * 0.5);
    }
    const std::int64_t k = m.shape()[1];
    const Value fitting = rows(k);
    const Value q = fitting ? fitting : affine(x, k);
    keep(reshape(matmul(reshape(q, {n_.B, 1, k}), m), {n_.B, m.shape()[2]}) * 0.25);
  }
  // Mixes the rows of the batch: no pass may treat rows apart.
  void grow_mixing() {
    const Value x = rows();
    if (!x) return;
    const double mean = 1 / static_cast<double>(std::max<std::int64_t>(n_.B, 1));
    keep(x - reduce_sum(x, {0}, true) * mean);
  }
  void grow_drawn() {
    const Value x = rows();
    if (!x || keys_.empty() || steps_.empty()) return;
    keep(dropout(x, keys_[0], 0.3, random_.below(99), steps_[0]));
  }
  void grow_looked_up() {
    if (ids_.empty()) return;
    const Value t = weights_.empty() || random_.chance(0.3) ? table({5, random_.from(1, 5)}) : any(weights_);
    keep(gather(t, any(ids_)));
  }

  Graph& graph_;
  const Sizes n_;
  DType dtype_;
  Random& random_;
  std::vector<Value> pool_, weights_, vectors_, truths_, ids_, keys_, steps_;
};

void CellGrower::grow(std::int64_t steps) {
  struct Row {
    int weight;
    Step step;
  };
  static const Row rows[] = {
      {10, &CellGrower::grow_affine}, {5, &CellGrower::grow_affines},       {4, &CellGrower::grow_nested},
      {3, &CellGrower::grow_plain_product}, {10, &CellGrower::grow_unary},  {14, &CellGrower::grow_binary},
      {5, &CellGrower::grow_vector},  {6, &CellGrower::grow_parts},         {4, &CellGrower::grow_slice},
      {5, &CellGrower::grow_concat},  {1, &CellGrower::grow_pad},           {6, &CellGrower::grow_row_reduction},
      {5, &CellGrower::grow_norm},    {4, &CellGrower::grow_select},        {3, &CellGrower::grow_batched},
      {2, &CellGrower::grow_mixing},  {2, &CellGrower::grow_drawn},         {2, &CellGrower::grow_looked_up},
  };
  int total = 0;
  for (const Row& row : rows) total += row.weight;
  for (; steps > 0; --steps) {
    std::int64_t at = random_.below(total);
    const Row* row = rows;
    while (at >= row->weight) at -= (row++)->weight;
    (this->*row->step)();
  }
}

Value CellGrower::next_of(Value state) {
  if (!is_float(state.dtype())) return state + scalar_like(state, 1);  // a count
  const auto fitting = [&] {
    const Value x = find(pool_, [&](Value v) { return v.shape() == state.shape(); });
    return x && random_.chance(0.8) ? x : state.rank() == 2 && rows() ? affine(rows(), width(state)) : x;
  };
  const Value x = fitting(), y = fitting();
  if (!x || !y) return state * 0.5;
  const Value f = sigmoid(x);
  switch (random_.below(9)) {
    case 0: return tanh(x);
    case 1: return tanh(x + state * 0.5);
    case 2: return (1.0 - f) * state + f * tanh(y);
    case 3: return f * state + y * 0.25;     // linear in the state where x and y do not have it
    case 4: return state * 0.5 + tanh(x);
    case 5: return state + tanh(x) * 0.125;  // only adds up
    case 6: return x;                        // another state perhaps: registers that shift, or swap
    case 7: return state;
    default: return stop_gradient(tanh(x)) + state * 0.25;
  }
}

std::vector<Value> CellGrower::outputs(const std::vector<Value>& states, const std::vector<Value>& next) {
  std::vector<Value> list;
  if (random_.chance(0.8)) list.push_back(next[0]);
  if (random_.chance(0.2)) list.push_back(any(states));  // before the step
  if (random_.chance(0.2)) list.push_back(any(next));
  for (std::int64_t k = random_.below(3); k > 0; --k) list.push_back(find(pool_, [](Value) { return true; }));
  return list;
}

// The graph around the scans.
class ScanGraph {
 public:
  ScanGraph(RandomGraph& target, DType dtype, Random& random, std::int64_t most_steps)
      : target_(target), graph_(*target.graph), dtype_(dtype), random_(random), most_steps_(most_steps) {
    const bool wide = random_.chance(0.1);
    n_.T = random_.chance(0.1) ? random_.from(0, 1) : random_.from(2, 8);
    n_.B = wide ? random_.from(4, 20) : random_.from(1, 6);
    n_.H = wide ? random_.from(8, 40) : random_.from(1, 8);
    n_.I = random_.from(1, 7);
  }

  void write() {
    Value x = random_.chance(0.85) ? input({dtype_, {n_.T, n_.B, n_.I}}) : Value{};
    for (std::int64_t layer = random_.chance(0.25) ? 2 : 1; layer > 0; --layer) {
      const ScanResult r = one_scan(x);
      for (std::size_t k = 0; k < r.states.size(); ++k)
        if (layer == 1 || random_.chance(0.5)) use(r.states[k]);
      x = {};
      for (const Value& y : r.outputs) {
        if (y.rank() == 3 && random_.chance(0.7)) x = y;
        else use_sequence(y);
      }
      if (x && layer == 1) use_sequence(x);
      if (x && layer > 1) n_.I = x.shape()[2];
    }
    if (graph_.outputs().empty()) use(input({dtype_, {n_.B}}));
  }

 private:
  Value input(Type type, Range range = {}) {
    const std::string name = "in" + std::to_string(graph_.inputs().size());
    target_.ranges[name] = range;
    return graph_.input(name, type);
  }
  void use(Value x) { graph_.output("out" + std::to_string(graph_.outputs().size()), x); }
  void use_sequence(Value y) {  // [T, ...]
    switch (random_.below(5)) {
      case 0: return n_.T > 0 ? use(row(y, n_.T - 1)) : use(y);
      case 1: return use(reduce_sum(y, {0}) * 0.25);
      case 2:
        if (y.rank() != 3) return use(y);
        return use(linear(y, input({dtype_, {random_.from(1, 5), y.shape()[2]}}, k_unit)));
      default: return use(y);
    }
  }

  ScanResult one_scan(Value x) {
    std::vector<Value> states, sequences, constants;
    const bool zero = random_.chance(0.3);
    const auto state = [&](Shape shape) {
      const Type type{dtype_, std::move(shape)};
      states.push_back(zero ? filled(graph_, type, 0) : input(type));
    };
    for (std::int64_t k = random_.from(1, 3); k > 0; --k)
      state({n_.B, random_.chance(0.8) ? n_.H : random_.from(1, 8)});
    if (random_.chance(0.15)) state({n_.B});
    if (random_.chance(0.15)) state({n_.B, random_.from(1, 4), random_.from(1, 4)});
    if (random_.chance(0.1)) states.push_back(input({DType::i32, {n_.B}}, {.low = 0, .high = 9}));
    if (x) sequences.push_back(x);
    if (random_.chance(0.3)) sequences.push_back(input({dtype_, {n_.T, n_.B, n_.H}}));
    if (random_.chance(0.25)) sequences.push_back(input({DType::b8, {n_.T, n_.B}}));
    if (random_.chance(0.15)) sequences.push_back(input({DType::i32, {n_.T, n_.B}}, {.low = -1, .high = 6}));
    if (random_.chance(0.15)) {
      sequences.push_back(iota(graph_, {n_.T}, 0));
      constants.push_back(input({DType::i32, {3}}, {.low = 0, .high = 99999}));
    }
    const auto width = [&] { return random_.chance(0.5) ? n_.H : random_.chance(0.5) ? n_.I : 4 * n_.H; };
    for (std::int64_t k = random_.below(4); k > 0; --k)
      constants.push_back(input({dtype_, {width(), random_.chance(0.6) ? n_.H : n_.I}}, k_unit));
    for (std::int64_t k = random_.below(3); k > 0; --k) constants.push_back(input({dtype_, {width()}}, k_unit));
    ScanOptions options{.reverse = random_.chance(0.35), .lengths = {}, .reset = {}, .steps = n_.T};
    if (random_.chance(0.35))
      options.lengths = input({DType::i32, {n_.B}}, {.low = 0, .high = static_cast<double>(n_.T)});
    if (random_.chance(0.2)) options.reset = input({DType::b8, {n_.T, n_.B}});

    const auto step = [&](const StepValues& v) {
      CellGrower body(v, n_, dtype_, random_);
      body.grow(std::min(random_.from(1, k_most_scan_steps), most_steps_));
      StepResult result;
      for (const Value& s : v.states) result.states.push_back(body.next_of(s));
      result.outputs = body.outputs(v.states, result.states);
      return result;
    };
    return scan(states, sequences, constants, step, options);
  }

  static inline const Range k_unit{.low = -1, .high = 1};

  RandomGraph& target_;
  Graph& graph_;
  DType dtype_;
  Random& random_;
  std::int64_t most_steps_;
  Sizes n_{};
};

}  // namespace

RandomGraph random_scans(std::uint64_t seed, DType dtype, std::int64_t most_steps) {
  RandomGraph result{std::make_shared<Graph>(), {}};
  Random random(seed);
  ScanGraph(result, dtype, random, most_steps).write();
  return result;
}

}  // namespace unroll::testing
