// SPDX-License-Identifier: Apache-2.0
// `unroll predict`: a line of text in, what the run's model makes of it out, answered as it comes.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "frontends/cli/commands.h"
#include "frontends/cli/explain.h"
#include "frontends/cli/job.h"
#include "frontends/cli/number_lines.h"
#include "frontends/cli/run_folder.h"
#include "unroll/error.h"

namespace unroll::cli {
namespace {

using Json = nlohmann::ordered_json;
using Answer = std::function<std::string(const std::string& line)>;

std::string json_text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

// A line `token<TAB>label` for each token and an empty line: the form of the training file.
Answer label_lines(const RunFolder& run, Backend& backend, const Options& options) {
  auto labeller = std::make_shared<Labeller>(run.model.metadata, run.model.tensors, backend);
  return [labeller, as_json = options.json](const std::string& line) {
    const std::vector<std::string> tokens = labeller->cut(line), labels = labeller->label(tokens);
    if (as_json) return json_text({{"tokens", tokens}, {"labels", labels}});
    std::string text;
    for (std::size_t i = 0; i < tokens.size(); ++i) text += fmt::format("{}\t{}\n", tokens[i], labels[i]);
    return text + "\n";
  };
}

Answer translated_lines(const RunFolder& run, Backend& backend, const Options& options) {
  auto translator = std::make_shared<Translator>(run.model.metadata, run.model.tensors, backend);
  return [translator, decode = options.decode, as_json = options.json](const std::string& line) {
    const std::string text = translator->translate(line, decode);
    return as_json ? json_text({{"source", line}, {"target", text}}) : text + "\n";
  };
}

Answer document_labels(const RunFolder& run, Backend& backend, const Options& options) {
  auto reader = std::make_shared<DocumentReader>(run.model.metadata, run.model.tensors, backend);
  return [reader, as_json = options.json](const std::string& line) {
    const std::string label = reader->label(line);
    return as_json ? json_text({{"text", line}, {"label", label}}) : label + "\n";
  };
}

struct Row {
  unsigned kind;
  Answer (*make)(const RunFolder&, Backend&, const Options&);
};
constexpr Row k_rows[] = {
    {k_label, label_lines}, {k_translate, translated_lines}, {k_document, document_labels}};

Answer answer_of(const RunFolder& run, Backend& backend, const Options& options) {
  for (const Row& row : k_rows)
    if (row.kind == run.config.uses()) return row.make(run, backend, options);
  run.config.refuse("task.kind", "predict is for tasks that read a line of text", "Use eval, generate or stream");
}

}  // namespace

int run_predict(const Options& options) {
  const RunFolder run = open_run(options);
  ExplainingBackend* explaining = nullptr;
  const auto backend = explained_if(options.explain, open_backend(run.config, options.explain), explaining);
  const Answer answer = answer_of(run, *backend, options);
  LineReader lines(options.input.empty() ? "-" : options.input, /*skips_blank=*/false);
  for (std::string line; lines.next(line);) {
    std::string text;
    try {
      text = answer(line);
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::usage && e.kind() != ErrorKind::input_file) throw;
      throw Error(ErrorKind::input_file, fmt::format("{}:{}", lines.name(), lines.number()), e.what());
    }
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }
  print_explained_after(explaining, options.json);
  return 0;
}

}  // namespace unroll::cli
