// SPDX-License-Identifier: Apache-2.0
// `unroll generate`: text from a run folder's language model, to stdout as it is drawn, or as one JSON object.
#include <cstdio>

#include "frontends/cli/commands.h"
#include "frontends/cli/explain.h"
#include "frontends/cli/job.h"
#include "frontends/cli/run_folder.h"

namespace unroll::cli {

int run_generate(const Options& options) {
  const RunFolder run = open_run(options);
  if (run.config.text("task.kind") != "language-model") {
    run.config.refuse("task.kind", "this run has no language model", "Name the run folder of a language model");
  }
  ExplainingBackend* explaining = nullptr;
  const auto backend = explained_if(options.explain, open_backend(run.config, options.explain), explaining);
  const GenerateOptions generate_options{.prompt = options.prompt,
                                         .length = options.length,
                                         .temperature = options.temperature,
                                         .top_k = options.top_k,
                                         .top_p = options.top_p,
                                         .seed = static_cast<std::uint64_t>(options.seed.value_or(0))};
  std::string all;
  generate(run.model.metadata, run.model.tensors, *backend, generate_options, [&](std::string_view text) {
    if (options.json) {
      all += text;
      return;
    }
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  });
  if (options.json) {
    print_explained(Report().add("prompt", options.prompt).add("text", all), explaining, true);
    return 0;
  }
  std::fputs("\n", stdout);
  std::fflush(stdout);
  print_explained_after(explaining, false);
  return 0;
}

}  // namespace unroll::cli
