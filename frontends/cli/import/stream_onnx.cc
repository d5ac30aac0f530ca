// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/import/stream_onnx.h"

#include <fmt/format.h>

#include <charconv>
#include <memory>

#include "frontends/onnx/stream.h"
#include "unroll/support/error.h"

namespace unroll::cli {
namespace {

// NAME=NUMBER
std::pair<std::string, double> parsed(const std::string& text, const char* option) {
  const std::size_t at = text.rfind('=');
  double number = 0;
  const char* const end = text.data() + text.size();
  const char* const begin = at == std::string::npos ? end : text.data() + at + 1;
  const auto [stop, failure] = std::from_chars(begin, end, number);
  if (failure != std::errc() || stop != end || at == 0)
    throw Error(ErrorKind::usage, "stream", fmt::format("{} must be NAME=NUMBER; got '{}'", option, text));
  return {text.substr(0, at), number};
}

std::string text_of(const std::map<std::string, std::string>& pairs) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : pairs) parts.push_back(fmt::format("{} = {}", name, value));
  return fmt::format("{}", fmt::join(parts, ", "));
}
template <class Number>
std::string text_of(const std::map<std::string, Number>& pairs) {
  std::map<std::string, std::string> texts;
  for (const auto& [name, number] : pairs) texts.emplace(name, fmt::format("{}", number));
  return text_of(texts);
}

}  // namespace

onnx::StreamChoices stream_choices(const OnnxStreamArguments& options) {
  onnx::StreamChoices choices{.time = options.time, .sizes = {}, .values = {}, .blocks = {}};
  choices.blocks.look_ahead = options.delay;
  choices.blocks.output = options.output;
  for (const std::string& text : options.values) choices.values.insert(parsed(text, "--value"));
  for (const std::string& text : options.sizes) {
    const auto [name, size] = parsed(text, "--size");
    if (!(size >= 1 && size <= 1e9))
      throw Error(ErrorKind::usage, "stream", fmt::format("--size {}: sizes are 1 to 1e9", text));
    choices.sizes.emplace(name, static_cast<std::int64_t>(size));
  }
  return choices;
}

void add_decisions(const onnx::ModelStream& found, Report& report) {
  if (!found.carried.empty()) report.add("states", text_of(found.carried));
  if (!found.time.empty()) report.add("time", found.time);
  if (!found.sizes.empty()) report.add("sizes", text_of(found.sizes));
  if (!found.values.empty()) report.add("values", text_of(found.values));
}

StreamModel onnx_stream(const std::string& file, const OnnxStreamArguments& options, Report& decided) {
  const auto model = std::make_shared<const onnx::Model>(onnx::load_model_file(file));
  const onnx::StreamChoices choices = stream_choices(options);
  const onnx::ModelStream found = onnx::stream_of(model, choices);
  const BlockStream blocks = block_stream(found.whole, choices.blocks);
  decided.add("input", blocks.input).add("output", blocks.output);
  add_decisions(found, decided);
  if (!blocks.others.empty()) decided.add("left_out", fmt::format("{}", fmt::join(blocks.others, ", ")));
  decided.add("steps_per_block", blocks.block).add("rows_per_block", blocks.rows).add("delay", blocks.delay);
  return graph_stream(found.whole, choices.blocks);
}

}  // namespace unroll::cli
