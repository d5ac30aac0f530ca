// SPDX-License-Identifier: Apache-2.0
// A custom cell, defined by its equations, and a custom task: remember the first input for T steps. Gradients, batching
// over time and all backends follow from the function `my_cell`.
#include <unroll/model/model.h>
#include <unroll/ir/ops.h>
#include <unroll/train/trainer.h>

#include <cstdio>
#include <random>

using namespace unroll;

namespace {

// f = s(W_f x + U_f h + b_f);  n = tanh(W_n x + U_n (f * h) + b_n);  h' = (1 - f) * h + f * n
CellStep my_cell(Step& step) {
  const Value x = step.x(), h = step.state(0);
  const Value f = sigmoid(step.affine("f", {x, h}, step.hidden()));
  const Value n = tanh(step.affine("n", {x, f * h}, step.hidden()));
  return {{(1 - f) * h + f * n}, {}};
}
const CellFactory k_my_cell = [](std::int64_t hidden) { return Cell{{hidden}, my_cell}; };

// x [T,B,1]: the symbol (1 or -1) at step 0, then noise. label [B]: the symbol as 0 or 1.
class Remember final : public Task {
 public:
  TaskGraph build(Scope& scope, const Batch& like) const override;
  std::int64_t n_batches(Split split) const override { return split == Split::train ? 64 : 4; }
  Batch batch(Split split, std::uint64_t seed, std::int64_t epoch, std::int64_t index) const override {
    // The batch is a pure function of (seed, epoch, index), so a resumed run reads the same batches.
    std::seed_seq sequence{seed, static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(index),
                           std::uint64_t{split == Split::train}};
    std::mt19937 random(sequence);
    const auto draw = [&] { return static_cast<double>(random()) / 4294967296.0; };
    Tensor x(DType::f32, {T, B, 1}), label(DType::i32, {B});
    for (std::int64_t i = 0; i < x.elements(); ++i) x.set(i, 0.5 * draw() - 0.25);
    for (std::int64_t b = 0; b < B; ++b) {
      label.set(b, draw() < 0.5 ? 0 : 1);
      x.set(b, 2 * label.at(b) - 1);
    }
    return {{{"x", x}, {"label", label}}, false};
  }

 private:
  static constexpr std::int64_t T = 12, B = 32;
};

TaskGraph Remember::build(Scope& scope, const Batch& like) const {
  Graph& graph = scope.graph();
  const Value x = graph.input("x", like.inputs.at("x").type()),
              label = graph.input("label", like.inputs.at("label").type());
  const Value h = row(cell_layer(scope.child("rnn"), k_my_cell, x, {.hidden = 16}).states[0], 0);
  const Value logits = linear_layer(scope.child("output"), h, 2);
  const Value right = cast(equal(argmax(logits, -1), label), scope.dtype());
  TaskGraph task;
  task.loss = mean(softmax_cross_entropy(logits, label));
  task.metrics = {{"accuracy", sum(right), scalar(graph, scope.dtype(), static_cast<double>(B))}};
  return task;
}

}  // namespace

int main() {
  const auto backend = make_backend("cpu");
  TrainerOptions options;
  options.optimizer.lr = 1e-2;
  options.max_updates = 400;
  Trainer trainer(std::make_shared<Remember>(), *backend, options);
  trainer.fit();
  const double accuracy = trainer.evaluate(Split::test).metrics.at("accuracy");
  std::printf("remembers the first of 12 inputs: %.0f %%\n", 100 * accuracy);
  return accuracy > 0.95 ? 0 : 1;
}
