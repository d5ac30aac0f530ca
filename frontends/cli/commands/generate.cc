// SPDX-License-Identifier: Apache-2.0
// `unroll generate`: text from a run folder's language model, to stdout as it is drawn, or as one JSON object.
#include <fmt/format.h>

#include <cstdio>

#include "frontends/cli/commands/commands.h"
#include "frontends/cli/config/job.h"
#include "frontends/cli/plan/explain.h"
#include "frontends/cli/run/run_folder.h"
#include "frontends/cli/terminal/activity.h"

namespace unroll::cli {
namespace {

std::string quoted(const std::vector<std::string>& tokens) {
  std::string text;
  for (const std::string& token : tokens) text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", token);
  return text;
}

}  // namespace

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
  const std::vector<std::string> unknown = unknown_tokens(run.model.metadata, options.prompt);
  if (!unknown.empty() && options.prompt != Options().prompt)
    print_line(fmt::format("the vocabulary lacks {} of the prompt; the model reads each as an unknown {}",
                           quoted(unknown), run.config.text("data.tokens") == "words" ? "word" : "character"));
  std::string all = options.echo ? options.prompt : "";
  if (!options.json) std::fputs(all.c_str(), stdout);
  generate(run.model.metadata, run.model.tensors, *backend, generate_options, [&](std::string_view text) {
    if (options.json) {
      all += text;
      return;
    }
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  });
  if (options.json) {
    print_explained(Report().add("prompt", options.prompt).add("text", all).add("unknown", unknown), explaining, true);
    return 0;
  }
  std::fputs("\n", stdout);
  std::fflush(stdout);
  print_explained_after(explaining, false);
  return 0;
}

}  // namespace unroll::cli
