// SPDX-License-Identifier: Apache-2.0
// A training loop of your own: batches made on the fly, your learning rate, one optimizer step per call, and
// checkpoints where you want them. usage: own_loop [CHECKPOINT.safetensors]
#include <unroll/unroll.h>

#include <cmath>
#include <cstdio>

using namespace unroll;

constexpr std::int64_t T = 20, B = 16;

// Sine waves of B frequencies: x [T,B,1], and each next value as the target.
Batch next_batch(int update) {
  Batch batch;
  Tensor x(DType::f32, {T, B, 1}), target = x;
  for (std::int64_t t = 0; t < T; ++t)
    for (std::int64_t b = 0; b < B; ++b) {
      const double frequency = 0.2 + 0.05 * static_cast<double>(b), phase = 0.7 * update;
      x.set(t * B + b, std::sin(frequency * static_cast<double>(t) + phase));
      target.set(t * B + b, std::sin(frequency * static_cast<double>(t + 1) + phase));
    }
  batch.inputs = {{"x", x}, {"target", target}};
  return batch;
}

TaskGraph network(Scope& scope, const Inputs& in) {
  const CellLayerResult lstm = recurrent_model(scope.child("lstm"), in["x"], {.cell = "lstm", .hidden = 24});
  const Value y = linear_layer(scope.child("head"), lstm.y, 1);  // [T,B,1]
  TaskGraph task;
  task.outputs = {{"y", y}};
  if (in.has("target")) task.loss = mean(square(y - in["target"]));
  return task;
}

int main(int argc, char** argv) {
  const auto backend = make_backend("cpu");
  TrainerOptions options;
  options.optimizer.name = "adam";
  Trainer trainer(make_task(next_batch(0), network), *backend, options);  // the batch shows names and shapes
  for (int update = 1; update <= 200; ++update) {
    const double lr = update <= 150 ? 1e-2 : 1e-3;
    const UpdateResult step = trainer.update(next_batch(update), lr);
    if (update % 50 == 0)
      std::printf("update %d  loss %.4f  gradient norm %.3f\n", update, step.loss, step.gradient_norm);
  }
  if (argc > 1) {  // parameters and optimizer state; a later process calls load() and continues
    trainer.save(argv[1]);
    trainer.load(argv[1]);
  }
  const double loss = trainer.evaluate(next_batch(1000)).loss;
  Batch questions = next_batch(1000);
  questions.inputs.erase("target");
  const Tensor y = trainer.predict(questions).at("y");
  std::printf("evaluation loss %.4f; next value of the first wave %.3f\n", loss, y.at((T - 1) * B));
  return loss < 0.05 ? 0 : 1;
}
