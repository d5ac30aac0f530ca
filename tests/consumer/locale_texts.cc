// SPDX-License-Identifier: Apache-2.0
// Prints texts and files of the library that have numbers in them, under the locale that is named: check_locale.py
// compares what it prints under two of them. usage: locale_texts LOCALE FOLDER
#include <unroll/unroll.h>

#include <clocale>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <locale>
#include <string>
#include <vector>

using namespace unroll;

namespace {

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// A task that learns a mean: x [B,1] and target [B,1].
std::shared_ptr<const Task> task() {
  std::vector<float> x(40), target(40);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 0.125f * static_cast<float>(i % 7), target[i] = 1.5f - x[i];
  const Fields fields{{"x", Tensor::from<float>({40, 1}, x)}, {"target", Tensor::from<float>({40, 1}, target)}};
  const Network network = [](Scope& scope, const Inputs& in) {
    TaskGraph built;
    const Value y = linear_layer(scope.child("head"), in["x"], 1);
    built.outputs = {{"y", y}};
    if (in.has("target")) built.loss = mean(mse(y, in["target"]));
    return built;
  };
  return make_task(TensorDataset(fields, {.batch = 8, .validation = 0.25}), network);
}

std::string trained(const std::string& folder) {
  const auto backend = make_backend("cpu", {.threads = 1});
  TrainerOptions options;
  options.folder = folder;
  options.epochs = 2;
  Trainer trainer(task(), *backend, options);
  trainer.fit({});
  std::string text;
  for (const auto& [key, value] : load_model(folder + "/best.safetensors").metadata) text += key + "=" + value + "\n";
  return text;
}

std::string header() {
  const StreamModel gru = recurrent_stream({.cell = "gru", .hidden = 4}, 3);
  Graph graph;
  Scope scope(graph);
  gru.build(scope, graph.input("x", {DType::f32, {1, 1, 3}}), std::vector{graph.input("h", {DType::f32, {1, 1, 4}})});
  return stream_source(gru, initialize(scope.parameters(), 1), {.name = "Gru", .title = "a test"}).header;
}

std::string cell() {
  Graph graph;
  Scope scope(graph, /*training=*/false);
  const TextCell text{.name = "c", .states = {"h"}, .step = "h' = 0.5 * h + 1.25e-1 * tanh(affine(x))"};
  const Value x = graph.input("x", {DType::f32, {2, 1, 2}});
  graph.output("y", cell_layer(scope, make_text_cell(text), x, {.hidden = 2}).y);
  return print_graph(graph);
}

std::string refused_cell(const std::string& step) {
  return message_of([&] {
    Graph graph;
    Scope scope(graph);
    const TextCell text{.name = "c", .states = {"h"}, .step = step};
    cell_layer(scope, make_text_cell(text), graph.input("x", {DType::f32, {2, 1, 2}}), {.hidden = 2});
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 || !std::setlocale(LC_ALL, argv[1])) return 2;
  std::locale::global(std::locale(argv[1]));
  std::printf("%.1f\n", 0.5);  // the first line differs: that is what the locale does
  Graph graph;
  Scope scope(graph);
  const Value x = graph.input("x", {DType::f32, {2, 3}});
  const std::string texts[] = {
      trained(argv[2]),
      header(),
      cell(),
      refused_cell("h' = dropout(h, 1.25)"),
      refused_cell("h' = h * 1e30 * 1e30"),
      message_of([&] { dropout_layer(scope, x, 1.25); }),
      message_of([&] { activation_penalties(scope, x, -0.5, 0.25); }),
      message_of([&] { recurrent_model(scope, x, {.cell = "gru", .hidden = 2, .dropout = 1.5}); }),
      message_of([&] { make_task(TensorDataset({{"x", Tensor(Type{DType::f32, {4, 1}})}}, {.validation = 1.5}), {}); }),
  };
  for (const std::string& text : texts) std::puts(text.c_str());
}
