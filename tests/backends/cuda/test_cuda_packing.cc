// SPDX-License-Identifier: Apache-2.0
// The weights that cuDNN reads: they are copied from the parameters when one of these has changed, whoever has written
// it, and otherwise stay from run to run.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/driver/functions.h"
#include "tests/backends/cuda/cuda_layers.h"

namespace test_cuda_packing {

using namespace unroll;
using namespace unroll::cuda;
using namespace unroll::cuda_layers;

namespace {

int& kernel_launches() {
  static int n = 0;
  return n;
}
void count_launches(Functions& f) {
  static decltype(f.LaunchKernel) real;
  real = f.LaunchKernel;
  f.LaunchKernel = [](CUfunction kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared, CUstream stream, void** arguments, void** extra) {
    ++kernel_launches();
    return real(kernel, gx, gy, gz, bx, by, bz, shared, stream, arguments, extra);
  };
}

// A graph whose buffers are bound by name; programs may share them.
class Buffers {
 public:
  explicit Buffers(Backend& backend) : backend_(backend) {}
  void set(const std::string& name, const Tensor& tensor) {
    auto& buffer = held_[name];
    if (!buffer) buffer = backend_.allocate(tensor.bytes().size());
    backend_.upload(*buffer, 0, tensor.bytes());
  }
  void renew(const std::string& name) { held_.erase(name); }
  Buffer* of(const std::string& name, std::size_t bytes) {
    auto& buffer = held_[name];
    if (!buffer) buffer = backend_.allocate(bytes);
    return buffer.get();
  }

 private:
  Backend& backend_;
  std::map<std::string, std::unique_ptr<Buffer>> held_;
};

class NamedProgram {
 public:
  NamedProgram(const Graph& graph, Backend& backend, const PlanOptions& options = {})
      : backend_(backend), plan_(plan(graph, backend, options)), executable_(backend.compile(plan_)) {}
  // `places`: other names of buffers than those of inputs and outputs.
  TensorMap run(Buffers& buffers, const std::map<std::string, std::string>& places = {}) {
    Bindings bindings;
    const auto bound = [&](const NamedValue& value) {
      const auto at = places.find(value.name);
      return buffers.of(at == places.end() ? value.name : at->second, plan_->graph->type(value.value).bytes());
    };
    for (const NamedValue& input : plan_->graph->inputs()) bindings.inputs.push_back(bound(input));
    for (const NamedValue& output : plan_->graph->outputs()) bindings.outputs.push_back(bound(output));
    executable_->run(bindings);
    TensorMap results;
    for (std::size_t k = 0; k < bindings.outputs.size(); ++k) {
      Tensor tensor(plan_->graph->type(plan_->graph->outputs()[k].value));
      backend_.download(*bindings.outputs[k], 0, tensor.bytes());
      results.emplace(plan_->graph->outputs()[k].name, std::move(tensor));
    }
    return results;
  }
  std::string report() const {
    std::string text;
    for (const ReportLine& line : executable_->report()) text += line.implementation + "\n";
    return text;
  }

 private:
  Backend& backend_;
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<Executable> executable_;
};

Tensor scaled(const Tensor& tensor, double factor) {
  Tensor result(tensor.type());
  for (std::int64_t i = 0; i < tensor.elements(); ++i) result.set(i, factor * tensor.at(i));
  return result;
}

// Scales a parameter where it lies.
std::shared_ptr<Graph> halving(const Type& type) {
  auto g = std::make_shared<Graph>();
  g->output("new", g->input("old", type) * 0.5);
  return g;
}

const char* const k_parameter = "weight_hh0";

}  // namespace

TEST_CASE("parameters are copied in the first run and in runs after a change, and not in others") {
  if (!has_shim()) return;
  const auto reference = make_backend("reference");
  for (const Precision precision : {Precision::f32, Precision::f16}) {
    CAPTURE(std::string(precision_name(precision)));
    const double tolerance = precision == Precision::f32 ? 0x1p-19 : 0x1p-6;  // 32 roundings of f32, of f16
    set_tamper(count_launches);
    const auto cuda = make_backend("cuda", {.specific = {{"graphs", "false"}}});
    set_tamper(nullptr);
    const auto graph = graph_of({Op::gru}, false);
    TensorMap inputs = numbers_for(*graph);
    Buffers buffers(*cuda);
    for (const auto& input : inputs) buffers.set(input.first, input.second);
    PlanOptions options;
    options.precision = precision;
    NamedProgram program(*graph, *cuda, options), halves(*halving(inputs.at(k_parameter).type()), *cuda);
    CHECK(contains(program.report(), "4 launches more in runs that find other parameters than the last one"));
    const auto launches = [&](const std::map<std::string, std::string>& places = {}) {
      const int before = kernel_launches();
      CHECK(difference(program.run(buffers, places), evaluate(*graph, *reference, inputs)) < tolerance);
      return kernel_launches() - before;
    };
    const int with_copies = launches(), without = launches();
    CHECK(with_copies == without + 4);
    CHECK(launches() == without);
    inputs.at("x") = scaled(inputs.at("x"), 0.5);
    buffers.set("x", inputs.at("x"));
    CHECK(launches() == without);
    inputs.at(k_parameter) = scaled(inputs.at(k_parameter), 0.5);
    buffers.set(k_parameter, inputs.at(k_parameter));
    CHECK(launches() == with_copies);
    CHECK(launches() == without);
    // Another program writes it.
    inputs.at(k_parameter) = scaled(inputs.at(k_parameter), 0.5);
    halves.run(buffers, {{"old", k_parameter}, {"new", k_parameter}});
    CHECK(launches() == with_copies);
    CHECK(launches() == without);
    // Another buffer, which may lie where the old one did.
    inputs.at(k_parameter) = scaled(inputs.at(k_parameter), -1);
    buffers.renew(k_parameter);
    buffers.set(k_parameter, inputs.at(k_parameter));
    CHECK(launches() == with_copies);
    // Two sets of parameters in turn.
    const Tensor first = inputs.at(k_parameter), second = scaled(first, 2);
    buffers.set("second", second);
    for (int run = 0; run < 4; ++run) {
      inputs.at(k_parameter) = run % 2 == 0 ? second : first;
      CHECK(launches({{k_parameter, run % 2 == 0 ? "second" : k_parameter}}) == with_copies);
    }
    CHECK(launches() == without);
  }
}

TEST_CASE("an update that overwrites its parameters finds the new ones in the next run, captured or not") {
  if (!has_shim()) return;
  for (const Op cell : {Op::gru, Op::lstm}) {
    const auto graph = graph_of({cell}, true);
    TensorMap inputs = numbers_for(*graph);
    std::size_t number = 0;
    while (graph->inputs()[number].name != k_parameter) ++number;
    const Value gradient = graph->find_output("d" + std::to_string(number));
    graph->output("updated", graph->find_input(k_parameter) - gradient * 0.125);
    PlanOptions options;
    options.donate = {{"updated", k_parameter}};
    const auto cuda = make_backend("cuda"), reference = make_backend("reference");
    NamedProgram program(*graph, *cuda, options);
    Buffers buffers(*cuda);
    for (const auto& input : inputs) buffers.set(input.first, input.second);
    for (int run = 0; run < 4; ++run) {
      CAPTURE(run);
      const TensorMap expected = evaluate(*graph, *reference, inputs);
      CHECK(difference(program.run(buffers, {{"updated", k_parameter}}), expected) < 0x1p-17);
      inputs.at(k_parameter) = expected.at("updated");
    }
  }
}

TEST_CASE("a layer and its gradient share their weights, and every run copies parameters that the plan computes") {
  if (!has_shim()) return;
  const auto cuda = make_backend("cuda"), reference = make_backend("reference");
  const auto graph = graph_of({Op::rnn}, true);
  NamedProgram program(*graph, *cuda);
  const std::string report = program.report(), note = "launches more in runs";
  CHECK(report.find(note) != std::string::npos);
  CHECK(report.find(note) == report.rfind(note));
  // x W^T with W = V + V: W is no input.
  Graph computed, shapes;
  std::vector<Value> wrt;
  const Layer layer{Op::rnn};
  add_layer(shapes, layer, wrt);
  RecurrentInputs in;
  in.x = computed.input("x", wrt[0].type()), in.h0 = computed.input("h0", wrt[1].type());
  for (std::size_t k = 2; k < wrt.size(); ++k) {
    const Value v = computed.input(shapes.inputs()[k].name, wrt[k].type());
    in.parameters.push_back(v + v);
  }
  RecurrentOptions options = layer.options;
  options.hidden = layer.sizes.H;
  const RecurrentResult r = recurrent(Op::rnn, in, options);
  computed.output("y", r.y);
  const Value of_y = computed.input("of_y", r.y.type());
  computed.output("dx", differentiate(std::vector{r.y}, std::vector{of_y}, std::vector{in.x})[0]);
  TensorMap inputs = numbers_for(computed);
  NamedProgram other(computed, *cuda);
  CHECK_FALSE(contains(other.report(), note));
  Buffers buffers(*cuda);
  for (int run = 0; run < 4; ++run) {
    for (const auto& input : inputs) buffers.set(input.first, input.second);
    CHECK(difference(other.run(buffers), evaluate(computed, *reference, inputs)) < 0x1p-18);
    inputs.at(k_parameter) = scaled(inputs.at(k_parameter), -0.5);
  }
}

}  // namespace test_cuda_packing
