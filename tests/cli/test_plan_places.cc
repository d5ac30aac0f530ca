// SPDX-License-Identifier: Apache-2.0
// The phase and the layer of each node of a plan.
#include <doctest/doctest.h>

#include <map>
#include <set>

#include "core/train/update/update_graph.h"
#include "frontends/cli/explain/plan_places.h"
#include "tests/support/backends.h"
#include "tests/training/compare_models.h"
#include "tests/training/small_tasks.h"
#include "unroll/autodiff/autodiff.h"
#include "unroll/ir/ops.h"
#include "unroll/passes/run.h"
#include "unroll/passes/work.h"

using namespace unroll;
using namespace unroll::testing;
using namespace unroll::cli;

namespace {

struct Placed {
  std::shared_ptr<const Plan> plan;
  std::vector<Origin> places;
  std::map<std::string, std::string> layer_of = {};  // by parameter

  double matmul_flop_of(Origin::Phase phase, const std::string& layer = {}) const {
    double sum = 0;
    for (std::size_t n = 0; n < places.size(); ++n) {
      if (places[n].phase != phase || (!layer.empty() && places[n].layer != layer)) continue;
      const Node& node = plan->graph->nodes()[n];
      if (node.op == Op::matmul) sum += node_work(*plan->graph, node).flop;
      if (node.op == Op::scan) sum += static_cast<double>(scan_layout(node).steps) * matmul_flop(*node.body);
    }
    return sum;
  }
  // The layers of the loops of a phase, in order.
  std::vector<std::string> loops(Origin::Phase phase) const {
    std::vector<std::string> layers;
    for (std::size_t n = 0; n < places.size(); ++n)
      if (plan->graph->nodes()[n].op == Op::scan && places[n].phase == phase) layers.push_back(places[n].layer);
    return layers;
  }
};

Placed placed(const Graph& graph, Backend& backend) {
  const auto made = plan(graph, backend);
  Placed p{made, plan_places(*made)};
  for (const NamedValue& input : graph.inputs()) p.layer_of[input.name] = graph.node(input.value.node).origin.layer;
  return p;
}
Placed place_update(const Task& task, Backend& backend, const TrainerOptions& options = {},
                    Phase phase = Phase::whole) {
  const UpdateConfig recipe(options);
  return placed(*build_update(task, task.batch(Split::train, 1, 0, 0), recipe, phase).graph, backend);
}
// Of a graph that computes nothing but the loss, as training has it.
double forward_matmul_flop(const Task& task, Backend& backend) {
  Graph graph;
  Scope scope(graph);
  graph.output("loss", task.build(scope, task.batch(Split::train, 1, 0, 0)).loss);
  return matmul_flop(*lower(graph, backend));
}

std::vector<std::string> backends_without_claims() { return {"cpu", "reference"}; }

std::vector<ComparedModel> models() {
  std::vector<ComparedModel> all = compare_models();
  all.push_back({"language model with carried state and dropout", small_language_model()});
  LanguageModelOptions tied = small_language_options();
  tied.tied = true;
  tied.embedding = tied.model.hidden;
  tied.model.layers = 2;
  all.push_back({"language model with tied weights", small_language_model(tied)});
  all.push_back({"classify in both directions", small_classify()});
  return all;
}

TEST_CASE("the layer of a parameter is its stack's, or the scope's where it was made") {
  Graph graph;
  Scope scope(graph);
  const auto layer = [&](const Scope& in, const std::string& name) {
    return Scope(in).parameter(name, {1}, Initializer::zeros()).node().origin.layer;
  };
  CHECK(layer(scope.child("recurrent"), "weight_ih_l0") == "recurrent.l0");
  CHECK(layer(scope.child("encoder"), "weight_hh_l12_reverse") == "encoder.l12");
  CHECK(layer(scope.child("recurrent"), "f.weight_0_l1") == "recurrent.l1");
  CHECK(layer(scope, "f.weight_0_l1") == "l1");
  CHECK(layer(scope, "weight_ih_l0_reverse") == "l0");
  CHECK(layer(scope.child("output"), "bias") == "output");
  CHECK(layer(scope.child("bridge").child("0"), "weight") == "bridge.0");
  CHECK(layer(scope, "w") == "w");
  CHECK(layer(scope, "my_label") == "my_label");
  CHECK(layer(scope, "x_l") == "x_l");
}

TEST_CASE("the forward phase of an update has the products of the loss, and the backward phase about twice as many") {
  for (const std::string& name : backends_without_claims()) {
    const auto backend = make_backend(name);
    for (const ComparedModel& model : models()) {
      CAPTURE(name);
      CAPTURE(model.name);
      const Placed update = place_update(*model.task, *backend);
      const double forward = forward_matmul_flop(*model.task, *backend);
      CHECK(update.matmul_flop_of(Origin::Phase::forward) == doctest::Approx(forward));
      CHECK(update.matmul_flop_of(Origin::Phase::update) == 0);
      const double all = matmul_flop(*update.plan->graph);
      CHECK(update.matmul_flop_of(Origin::Phase::backward) == doctest::Approx(all - forward));
      CHECK(all > 2.2 * forward);
    }
  }
}

TEST_CASE("what changes a parameter is of the update phase and of the parameter's layer") {
  for (const std::string& name : backends_without_claims()) {
    const auto backend = make_backend(name);
    for (const ComparedModel& model : models()) {
      CAPTURE(name);
      CAPTURE(model.name);
      Placed update = place_update(*model.task, *backend);
      std::map<std::int32_t, std::set<std::string>> givers;
      for (const NamedValue& output : update.plan->graph->outputs())
        if (!update.layer_of[output.name].empty()) givers[output.value.node].insert(update.layer_of[output.name]);
      CHECK(!givers.empty());
      for (const auto& [node, layers] : givers) {
        const Origin& place = update.places[static_cast<std::size_t>(node)];
        CHECK(place.phase == Origin::Phase::update);
        CHECK(place.layer == (layers.size() == 1 ? *layers.begin() : k_shared));
      }
    }
  }
}

TEST_CASE("a loop is of its layer, forward and backward, and one that reads no parameters too") {
  const auto backend = make_backend("cpu");
  const auto loops_of = [&](const std::string& wanted, Origin::Phase phase) {
    for (const ComparedModel& model : models())
      if (model.name == wanted) return place_update(*model.task, *backend).loops(phase);
    return std::vector<std::string>{};
  };
  using Names = std::vector<std::string>;
  const std::string two = "gru of two layers with dropout, mean absolute error";
  CHECK(loops_of(two, Origin::Phase::forward) == Names{"rnn.l0", "rnn.l1"});
  CHECK(loops_of(two, Origin::Phase::backward) == Names{"rnn.l1", "rnn.l0"});
  const std::string both = "lstm in both directions, binary cross-entropy";
  CHECK(loops_of(both, Origin::Phase::forward) == Names{"rnn.l0", "rnn.l0"});
  CHECK(loops_of(both, Origin::Phase::backward) == Names{"rnn.l0", "rnn.l0"});
  const std::string attending = "encoder and decoder with dot attention";
  CHECK(loops_of(attending, Origin::Phase::forward) == Names{"encoder.l0", "decoder.l0"});
  CHECK(loops_of(attending, Origin::Phase::backward) == Names{"decoder.l0", "encoder.l0"});
  const std::string field = "labels by a conditional random field";
  CHECK(loops_of(field, Origin::Phase::forward).back() == "crf");
  CHECK(loops_of(field, Origin::Phase::backward).front() == "crf");
  CHECK(loops_of(two, Origin::Phase::update).empty());
}

TEST_CASE("every product is of a layer, attention without parameters too, and none is of the loss") {
  const auto backend = make_backend("cpu");
  for (const ComparedModel& model : models()) {
    CAPTURE(model.name);
    const Placed update = place_update(*model.task, *backend);
    for (const Origin::Phase phase : {Origin::Phase::forward, Origin::Phase::backward}) {
      CHECK(update.matmul_flop_of(phase, k_shared) == 0);
      CHECK(update.matmul_flop_of(phase, k_loss_layer) == 0);
    }
  }
}

TEST_CASE("the phases are found in sums over batches, with a scaled loss, and whatever is clipped") {
  const auto backend = make_backend("cpu");
  const auto task = small_language_model();
  const double forward = forward_matmul_flop(*task, *backend);
  const auto check = [&](TrainerOptions options, Phase phase) {
    const Placed update = place_update(*task, *backend, options, phase);
    CHECK(update.matmul_flop_of(Origin::Phase::forward) == doctest::Approx(forward));
    CHECK(update.matmul_flop_of(Origin::Phase::update) == 0);
    CHECK(update.loops(Origin::Phase::backward) == std::vector<std::string>{"recurrent.l0"});
  };
  TrainerOptions plain;
  check(plain, Phase::accumulate);
  TrainerOptions halves;
  halves.precision = Precision::f16;
  check(halves, Phase::whole);
  TrainerOptions sgd;
  sgd.optimizer.name = "sgd";
  sgd.clip.norm = 0;
  sgd.average.kind = Average::ema;
  check(sgd, Phase::whole);
  TrainerOptions clipped;
  clipped.clip.value = 0.5;
  clipped.clip.adaptive = 0.01;
  check(clipped, Phase::whole);
  TrainerOptions frozen;
  frozen.groups = {{.match = "output.*", .lr_scale = 0}};
  check(frozen, Phase::whole);
}

TEST_CASE("an evaluation is all forward") {
  const auto backend = make_backend("cpu");
  const auto task = small_language_model();
  const EvaluationGraph e = build_evaluation(*task, task->batch(Split::validation, 1, 0, 0));
  const Placed evaluation = placed(*e.graph, *backend);
  for (const Origin& place : evaluation.places) CHECK(place.phase == Origin::Phase::forward);
  CHECK(evaluation.loops(Origin::Phase::forward) == std::vector<std::string>{"recurrent.l0"});
  CHECK(evaluation.matmul_flop_of(Origin::Phase::forward, "output") > 0);
}

TEST_CASE("a loss with gradients as outputs has a forward and a backward phase") {
  const auto backend = make_backend("cpu");
  Graph graph;
  Scope scope(graph);
  const Value x = graph.input("x", {DType::f32, {5, 3, 4}});
  const RecurrentModelOptions model{.cell = "gru", .hidden = 6, .layers = 2};
  const Value loss = mean(square(recurrent_model(scope, x, model).y));
  graph.output("loss", loss);
  std::vector<Value> parameters;
  for (const ParameterSpec& p : scope.parameters()) parameters.push_back(graph.find_input(p.name));
  const std::vector<Value> gradients = differentiate(loss, parameters);
  for (std::size_t i = 0; i < gradients.size(); ++i) graph.output("d_" + scope.parameters()[i].name, gradients[i]);
  const Placed pass = placed(graph, *backend);
  CHECK(pass.loops(Origin::Phase::forward) == std::vector<std::string>{"l0", "l1"});
  CHECK(pass.loops(Origin::Phase::backward) == std::vector<std::string>{"l1", "l0"});
}

TEST_CASE("a line in a loop is of the loop's place, a line in a branch of its own") {
  using P = Origin::Phase;
  const std::vector<Origin> nodes{{"a", P::forward}, {"b", P::backward}, {"c", P::update}};
  const auto line = [](int depth, std::int32_t node) {
    ReportLine l;
    l.depth = depth;
    l.node = node;
    return l;
  };
  const std::vector<ReportLine> lines{line(0, 1), line(1, 0), line(2, 2), line(0, -1), line(1, 0),
                                      line(2, 1), line(1, 2), line(0, 7), line(0, 0)};
  const std::vector<Origin> places = line_places(lines, nodes);
  const Origin nobody{k_shared, P::forward};
  CHECK(places == std::vector<Origin>{nodes[1], nodes[1], nodes[1], nobody, nodes[0], nodes[0], nodes[2], nobody,
                                         nodes[0]});
}

}  // namespace
