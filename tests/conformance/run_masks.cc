// SPDX-License-Identifier: Apache-2.0
// Masks and lengths on every backend: what they hide may be NaN or infinite. Values and gradients are then those of a
// finite number in its place, bit for bit, and nothing is NaN.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "core/tasks/common/pooling.h"
#include "core/tasks/common/task_parts.h"
#include "tests/support/backends.h"
#include "tests/support/cases.h"
#include "tests/support/finite_difference.h"
#include "unroll/autodiff/autodiff.h"
#include "unroll/ir/ops.h"
#include "unroll/model/model.h"
#include "unroll/model/network.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

constexpr std::int64_t T = 4, B = 3, D = 4;

struct Hidden {
  std::string input;
  std::function<bool(std::int64_t index)> at;  // by position in the tensor
};
// A case, and which elements of its inputs are hidden. Inputs in `given` are not random.
struct MaskCase {
  Case of;
  std::vector<Hidden> hidden;
  TensorMap given = {};
};

Tensor flags(Shape shape, const std::function<bool(std::int64_t)>& is_set) {
  Tensor t(Type{DType::b8, std::move(shape)});
  for (std::int64_t i = 0; i < t.elements(); ++i) t.set(i, is_set(i));
  return t;
}
Tensor numbers(DType dtype, Shape shape, const std::vector<double>& values) {
  Tensor t(Type{dtype, std::move(shape)});
  for (std::int64_t i = 0; i < t.elements(); ++i) t.set(i, values[static_cast<std::size_t>(i)]);
  return t;
}

// A mask [T,B] of which a third is false.
bool is_seen(std::int64_t i) { return i % 3 != 1; }
bool is_unseen(std::int64_t i) { return !is_seen(i); }
// Rows of 2, 0 and T steps; position in x [T,B,width].
const std::vector<double> k_lengths{2, 0, T};
std::function<bool(std::int64_t)> behind_end(std::int64_t width, std::int64_t first = 0) {
  return [=](std::int64_t i) {
    const std::int64_t t = i / width / B + first, b = i / width % B;
    return static_cast<double>(t) >= k_lengths[static_cast<std::size_t>(b)];
  };
}

using Loss = std::function<Value(Value p, Value t)>;
// masked_mean of a loss of p and t [T,B], where t, p or both are hidden.
void add_losses(std::vector<MaskCase>& cases) {
  const std::vector<std::pair<std::string, Loss>> losses = {
      {"mse", [](Value p, Value t) { return mse(p, t); }},
      {"mae", [](Value p, Value t) { return mae(p, t); }},
      {"huber", [](Value p, Value t) { return huber(p, t); }},
      {"pinball", [](Value p, Value t) { return pinball(p, t, 0.3); }},
      {"bce", [](Value p, Value t) { return bce(p, t); }},
      {"itself", [](Value p, Value t) { return p + t; }},
      {"a square", [](Value p, Value t) { return square(p - t) * 0.5; }},
      {"a Poisson loss", [](Value p, Value t) { return exp(p) - t * p; }},
      {"a logarithm", [](Value p, Value t) { return -log(sigmoid(p * t)); }},
      {"weights", [](Value p, Value t) { return abs(tanh(p) - t) * cast(less(t, p), p.dtype()); }},
  };
  for (const auto& [name, loss] : losses)
    for (const bool is_float : {false, true}) {
      const auto build = [loss = loss, is_float = is_float](Graph& g, DType d) {
        const Value p = g.input("p", {d, {T, B}}), t = g.input("t", {d, {T, B}});
        const Value mask = g.input("mask", {is_float ? DType::f32 : DType::b8, {T, B}});
        g.output("y", masked_mean(loss(p, t), mask));
      };
      const Tensor mask = flags({T, B}, is_seen);
      Tensor weights(Type{DType::f32, {T, B}});
      for (std::int64_t i = 0; i < mask.elements(); ++i) weights.set(i, mask.at(i) * 0.5);
      cases.push_back({{"masked_mean of " + name + (is_float ? ", f32" : ", b8"), build},
                       {{"p", is_unseen}, {"t", is_unseen}},
                       {{"mask", is_float ? weights : mask}}});
    }
  cases.push_back({{"masked_mean with a mask of rows",
                    [](Graph& g, DType d) {
                      const Value x = g.input("x", {d, {T, B, D}}), mask = g.input("mask", {DType::b8, {T, B, 1}});
                      g.output("y", masked_mean(square(x), mask));
                    }},
                   {{"x", [](std::int64_t i) { return is_unseen(i / D); }}},
                   {{"mask", flags({T, B, 1}, is_seen)}}});
  cases.push_back({{"masked_mean with lengths",
                    [](Graph& g, DType d) {
                      const Value x = g.input("x", {d, {T, B}}), n = g.input("lengths", {DType::i32, {B}});
                      g.output("y", masked_mean(square(x), sequence_mask(n, T)));
                    }},
                   {{"x", behind_end(1)}},
                   {{"lengths", numbers(DType::i32, {B}, k_lengths)}}});
  cases.push_back({{"masked_mean of a cross-entropy",
                    [](Graph& g, DType d) {
                      const Value x = g.input("x", {d, {T, B, D}}), mask = g.input("mask", {DType::b8, {T, B}});
                      const Value labels = g.input("labels", {DType::i32, {T, B}});
                      g.output("y", masked_mean(softmax_cross_entropy(x, labels), mask));
                    }},
                   {{"x", [](std::int64_t i) { return is_unseen(i / D); }}},
                   {{"mask", flags({T, B}, is_seen)},
                    {"labels", numbers(DType::i32, {T, B}, {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3})}}});
}

const std::vector<double> k_labels{0, -1, 2, 3, -1, 1, D, -1, 0, 1, -1, 3};
bool has_no_label(std::int64_t row) {
  return k_labels[static_cast<std::size_t>(row)] < 0 || k_labels[static_cast<std::size_t>(row)] >= D;
}
void add_labels(std::vector<MaskCase>& cases) {
  for (const bool smoothed : {false, true})
    cases.push_back({{smoothed ? "label smoothing without labels" : "softmax_cross_entropy without labels",
                      [=](Graph& g, DType d) {
                        const Value x = g.input("x", {d, {T, B, D}}), labels = g.input("labels", {DType::i32, {T, B}});
                        const Scope scope(g, /*training=*/true, d);
                        g.output("y", smoothed_cross_entropy(scope, x, labels, smoothed ? 0.1 : 0.0));
                      }},
                     {{"x", [](std::int64_t i) { return has_no_label(i / D); }}},
                     {{"labels", numbers(DType::i32, {T, B}, k_labels)}}});
  for (const bool decodes : {false, true})
    cases.push_back({{decodes ? "crf_decode" : "crf_loss",
                      [=](Graph& g, DType d) {
                        const Value x = g.input("x", {d, {T, B, D}}), n = g.input("lengths", {DType::i32, {B}});
                        const Crf crf{g.input("start", {d, {D}}), g.input("transition", {d, {D, D}}),
                                      g.input("end", {d, {D}})};
                        const Value labels = g.input("labels", {DType::i32, {T, B}});
                        g.output("y", decodes ? crf_decode(crf, x, n) : crf_loss(crf, x, labels, n));
                      },
                      {}, {}, !decodes},
                     {{"x", behind_end(D)}},
                     {{"lengths", numbers(DType::i32, {B}, k_lengths)},
                      {"labels", numbers(DType::i32, {T, B}, {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3})}}});
}

// B rows of T queries and T positions, with a mask [b,q,s].
struct AttentionMask {
  std::string name;
  Shape shape;
  std::function<bool(std::int64_t b, std::int64_t q, std::int64_t s)> seen;
};
using Attention = std::function<AttentionResult(Graph&, DType, Value q, Value k, Value v, Value mask)>;
void add_attention(std::vector<MaskCase>& cases) {
  const std::vector<AttentionMask> masks = {
      {"padded positions", {B, 1, T}, [](auto b, auto, auto s) { return s < (b == 0 ? 2 : b == 1 ? 0 : T); }},
      {"positions of all rows", {T}, [](auto, auto, auto s) { return s != 1; }},
      {"queries that see nothing", {B, T, 1}, [](auto b, auto q, auto) { return (b + q) % 2 == 0; }},
      {"each query sees other positions",
       {B, T, T},
       [](auto b, auto q, auto s) { return s != 2 && (q + s + b) % 2 == 0; }},
  };
  const std::vector<std::pair<std::string, Attention>> kinds = {
      {"dot_attention", [](Graph&, DType, Value q, Value k, Value v, Value m) { return dot_attention(q, k, v, m); }},
      {"additive_attention",
       [](Graph& g, DType d, Value q, Value k, Value v, Value m) {
         return additive_attention(q, k, v, g.input("w_q", {d, {2, D}}), g.input("w_k", {d, {2, D}}),
                                   g.input("v_a", {d, {2}}), m);
       }},
      {"multi_head_attention",
       [](Graph& g, DType d, Value q, Value k, Value v, Value m) {
         return multi_head_attention(q, k, v, g.input("in", {d, {3 * D, D}}), g.input("in_bias", {d, {3 * D}}),
                                     g.input("out", {d, {D, D}}), g.input("out_bias", {d, {D}}), 2, m);
       }},
  };
  for (const auto& [kind, attention] : kinds)
    for (const AttentionMask& mask : masks) {
      const auto build = [=, attention = attention](Graph& g, DType d) {
        const Type of_row{d, {B, T, D}};
        const Value q = g.input("q", of_row), k = g.input("k", of_row), v = g.input("v", of_row);
        const AttentionResult r = attention(g, d, q, k, v, g.input("mask", {DType::b8, mask.shape}));
        g.output("y", r.y);
        g.output("weights", r.weights);
      };
      const auto none = [seen = mask.seen](std::int64_t b, bool is_query, std::int64_t at) {
        for (std::int64_t i = 0; i < T; ++i)
          if (is_query ? seen(b, at, i) : seen(b, i, at)) return false;
        return true;
      };
      const auto unseen = [none](bool is_query) {
        return [=](std::int64_t i) { return none(i / D / T, is_query, i / D % T); };
      };
      const Shape& s = mask.shape;
      const std::int64_t S = s[s.rank() - 1], Q = s.rank() > 1 ? s[1] : 1;
      cases.push_back({{kind + ", " + mask.name, build},
                       {{"q", unseen(true)}, {"k", unseen(false)}, {"v", unseen(false)}},
                       {{"mask", flags(s, [=, seen = mask.seen](std::int64_t i) {
                           return seen(i / S / Q, i / S % Q, i % S);
                         })}}});
    }
}

Value gru_layer(Scope scope, Value x, Value h = {}, Value lengths = {}, Value reset = {}) {
  const std::vector<Value> initial(h ? 1 : 0, h);
  return recurrent_model(scope, x, {.cell = "gru", .hidden = D}, initial, lengths, reset).y;
}

void add_recurrent(std::vector<MaskCase>& cases) {
  const TensorMap lengths{{"lengths", numbers(DType::i32, {B}, k_lengths)}};
  const auto add = [&](const std::string& name, const std::function<Value(Scope&, Value, Value)>& build) {
    cases.push_back({{name,
                      [=](Graph& g, DType d) {
                        Scope scope(g, /*training=*/false, d);
                        const Value x = g.input("x", {d, {T, B, D}});
                        g.output("y", build(scope, x, g.input("lengths", {DType::i32, {B}})));
                      }},
                     {{"x", behind_end(D)}},
                     lengths});
  };
  for (const char* cell : {"rnn", "gru", "lstm", "indrnn", "minimal"})
    for (const SkipConnection skip : {SkipConnection::none, SkipConnection::residual, SkipConnection::highway})
      for (const bool both : {false, true}) {
        if (both && cell == std::string("minimal")) continue;
        const std::string name = std::string(cell) + " " + word_of(skip) + (both ? " in two directions" : "");
        add(name, [=](Scope& scope, Value x, Value n) {
          if (cell == std::string("minimal")) {
            const char* step = "f = sigmoid(affine(x, h))\nh' = f * h + (1 - f) * x";
            const TextCell text{.name = "m", .states = {"h"}, .step = step};
            return cell_layer(scope, make_text_cell(text), x, {.hidden = D}, {}, n).y;
          }
          RecurrentModelOptions o;
          o.cell = cell, o.hidden = both ? D / 2 : D, o.layers = 2, o.bidirectional = both, o.skip = skip;
          return recurrent_model(scope, x, o, {}, n).y;
        });
      }
  for (const char* how : {"final", "mean", "max", "attention"})
    add(std::string("pooling: ") + how, [=](Scope& scope, Value x, Value n) {
      return pooled(scope, gru_layer(scope.child("r"), x, {}, n), how, false, n).output;
    });
  add("penalties of activations", [](Scope& scope, Value x, Value n) {
    Scope training(scope.graph(), /*training=*/true, x.dtype());
    activation_penalties(training, x, 0.5, 0.25, n);
    return training.penalties().at(0) + training.penalties().at(1);
  });
  add("without_padding", [](Scope&, Value x, Value n) { return square(without_padding(x, n)); });
  cases.push_back({{"reset",
                    [](Graph& g, DType d) {
                      Scope scope(g, /*training=*/false, d);
                      const Value x = g.input("x", {d, {T, B, D}}), h = g.input("h", {d, {1, B, D}});
                      const Value reset = g.input("reset", {DType::b8, {T, B}});
                      g.output("y", gru_layer(scope, x, h, {}, reset));
                    }},
                   {{"h", [](std::int64_t i) { return i / D != 1; }}},
                   {{"reset", flags({T, B}, [](std::int64_t i) { return i / B == 0 && i % B != 1; })}}});
}

std::vector<MaskCase> mask_cases() {
  std::vector<MaskCase> cases;
  add_losses(cases);
  add_labels(cases);
  add_attention(cases);
  add_recurrent(cases);
  return cases;
}

TensorMap with_hidden(const MaskCase& c, TensorMap inputs, double number) {
  for (const Hidden& hidden : c.hidden) {
    Tensor& t = inputs.at(hidden.input);
    for (std::int64_t i = 0; i < t.elements(); ++i)
      if (hidden.at(i)) t.set(i, number);
  }
  return inputs;
}

void check_case(const MaskCase& c, Backend& backend, DType dtype, int order) {
  const auto graph = gradient_graph(c.of, dtype, order);
  TensorMap inputs = make_inputs(*graph, {}, c.of.name);
  for (const auto& [name, tensor] : c.given) inputs.insert_or_assign(name, tensor);
  const TensorMap wanted = evaluate(*graph, backend, with_hidden(c, inputs, 0.25));
  constexpr double k_infinity = std::numeric_limits<double>::infinity();
  for (const double number : {std::nan(""), k_infinity, -k_infinity}) {
    CAPTURE(number);
    const TensorMap got = evaluate(*graph, backend, with_hidden(c, inputs, number));
    for (const auto& result : wanted) {
      CAPTURE(result.first);
      std::int64_t n_wrong = 0;
      for (std::int64_t i = 0; i < result.second.elements(); ++i)
        n_wrong += !(got.at(result.first).at(i) == result.second.at(i));  // NaN is wrong in both
      CHECK(n_wrong == 0);
    }
  }
}

}  // namespace

TEST_CASE("what a mask or lengths hide changes neither values nor gradients, also NaN and infinity") {
  for (const std::string& name : tested_backends()) {
    CAPTURE(name);
    const auto backend = open_tested(name);
    for (const DType dtype : float_dtypes(name)) {
      if (dtype != DType::f32 && (name != "reference" || is_half(dtype))) continue;
      for (const MaskCase& c : mask_cases()) {
        CAPTURE(c.of.name);
        CAPTURE(dtype_name(dtype));
        for (int order = 0; order <= (c.of.differentiable ? 1 : 0); ++order) {
          CAPTURE(order);
          check_case(c, *backend, dtype, order);
        }
      }
    }
  }
}

TEST_CASE("what some queries see and others do not is NaN for those that see it, and for no other") {
  for (const std::string& name : tested_backends()) {
    CAPTURE(name);
    const auto backend = open_tested(name);
    for (const char* at : {"k", "v"}) {
      CAPTURE(at);
      Graph g;
      const Type of_row{DType::f32, {1, T, D}};
      const Value q = g.input("q", of_row), k = g.input("k", of_row), v = g.input("v", of_row);
      const auto r = dot_attention(q, k, v, g.input("mask", {DType::b8, {T, T}}));
      g.output("y", r.y);
      TensorMap inputs = make_inputs(g, {}, "causal");
      inputs.insert_or_assign("mask", flags({T, T}, [](std::int64_t i) { return i % T <= i / T; }));  // causal
      inputs.at(at).set(2 * D, std::nan(""));
      const Tensor y = evaluate(g, *backend, inputs).at("y");
      for (std::int64_t i = 0; i < y.elements(); ++i) {
        CAPTURE(i);
        const bool sees = i / D >= 2 && (at == std::string("k") || i % D == 0);
        CHECK(std::isnan(y.at(i)) == sees);
      }
    }
  }
}
