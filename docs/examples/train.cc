// SPDX-License-Identifier: Apache-2.0
// Trains a small character language model and samples from it. usage: train TEXT_FILE [UPDATES]
#include <unroll/tasks/tasks.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: train TEXT_FILE [UPDATES]\n"), 2;
  std::ifstream file(argv[1]);
  const std::string text{std::istreambuf_iterator<char>(file), {}};

  const auto backend = unroll::make_backend("cpu");
  const auto task = unroll::make_language_model({.model = {.cell = "gru", .hidden = 64}, .batch = 16}, text, argv[1]);
  unroll::TrainerOptions options;
  options.optimizer.lr = 4e-3;
  options.max_updates = argc > 2 ? std::atoi(argv[2]) : 300;
  unroll::Trainer trainer(task, *backend, options);
  trainer.fit(
      [](const unroll::Progress& p) { std::printf("update %d loss %.3f\n", static_cast<int>(p.update), p.loss); });

  const double bits = trainer.evaluate(unroll::Split::test).metrics.at("bits_per_character");
  std::printf("held out: %.2f bits per character\n", bits);
  unroll::generate(task->metadata(), trainer.parameters(), *backend, {.prompt = "And ", .length = 100},
                   [](std::string_view part) { std::printf("%.*s", static_cast<int>(part.size()), part.data()); });
  std::printf("\n");
  return bits < 6 ? 0 : 1;  // 6: slightly more than the entropy of uniform characters
}
