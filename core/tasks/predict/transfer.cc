// SPDX-License-Identifier: Apache-2.0
#include "unroll/tasks/transfer.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/data/text/entry_lines.h"
#include "core/data/tokens/tokenizer.h"
#include "core/tasks/common/task_parts.h"
#include "unroll/support/error.h"
#include "unroll/support/result.h"
#include "unroll/tasks/inference.h"

namespace unroll {

namespace {

using Specs = std::map<std::string, ParameterSpec>;

// Keys of metadata with a list of texts; their order gives the ids.
constexpr const char* k_lists[] = {"vocabulary", "source.vocabulary", "target.vocabulary", "labels"};

Specs specs_of(const Metadata& metadata) {
  const Inference inference = task_inference(metadata);
  Graph graph;
  Scope scope(graph, /*training=*/false);
  std::map<std::string, std::int64_t> sizes;
  for (const TensorSpec& input : inference.inputs)
    for (const Axis& axis : input.axes) sizes.emplace(axis.letter, 2);
  std::map<std::string, Value, std::less<>> inputs;
  for (const TensorSpec& input : inference.inputs)
    inputs.emplace(input.name, graph.input(input.name, {input.dtype, shape_of(input, sizes)}));
  inference.network(scope, Inputs(std::move(inputs)));
  Specs specs;
  for (const ParameterSpec& spec : scope.parameters()) specs.emplace(spec.name, spec);
  return specs;
}

// The kind of the tokenizer that has written a list; empty: a list of lines.
std::string tokenizer_of(const Metadata& metadata, const std::string& key) {
  const std::string& task = get_text(metadata, "task");
  if (key == "labels" || (task != "language_model" && task != "translate" && task != "summarize")) return {};
  const auto at = metadata.find("tokens");
  return at == metadata.end() ? "characters" : at->second;
}

std::vector<std::string> texts_of(const Metadata& metadata, const std::string& key) {
  const std::string kind = tokenizer_of(metadata, key);
  if (kind.empty()) return entries_of(get_text(metadata, key));
  const Tokenizer tokenizer = Tokenizer::from_stored(kind, get_text(metadata, key), key);
  std::vector<std::string> texts;
  const std::int64_t n = tokenizer.unknown() < 0 ? tokenizer.size() : tokenizer.unknown();
  for (std::int64_t id = 0; id < n; ++id) texts.push_back(tokenizer.text(static_cast<std::int32_t>(id)));
  return texts;
}

// The list without its last entry, to see which axes follow its length.
std::string shortened(const Metadata& metadata, const std::string& key) {
  std::string text = get_text(metadata, key);
  if (tokenizer_of(metadata, key) == "characters") {
    while (!text.empty() && (text.back() & 0xC0) == 0x80) text.pop_back();
    if (!text.empty()) text.pop_back();
    return text;
  }
  std::vector<std::string> lines = entries_of(text);
  if (!lines.empty()) lines.pop_back();
  return entry_lines(lines);
}

bool have_equal_lists(const Metadata& a, const Metadata& b, const std::string& key) {
  return get_text(a, key) == get_text(b, key) && tokenizer_of(a, key) == tokenizer_of(b, key);
}

// For each parameter, the list that an axis follows, if the models have different ones; empty: none. Throws
// Error(unsupported) if no axis is found for such a list: rows that are kept would stand for other texts.
std::map<std::string, std::vector<std::string>> listed_axes(const Metadata& metadata, const Specs& specs,
                                                            const Metadata& trained) {
  std::map<std::string, std::vector<std::string>> axes;
  for (const auto& [name, spec] : specs) axes[name].resize(static_cast<std::size_t>(spec.type.shape.rank()));
  for (const char* key : k_lists) {
    if (!metadata.contains(key) || !trained.contains(key) || have_equal_lists(metadata, trained, key)) continue;
    Metadata shorter = metadata;
    shorter[key] = shortened(metadata, key);
    const Result<Specs> other = attempt([&] { return specs_of(shorter); });
    bool found = false;
    for (const auto& [name, spec] : other.ok() ? *other : Specs()) {
      const Shape& longer = specs.at(name).type.shape;
      for (int axis = 0; axis < longer.rank(); ++axis) {
        if (spec.type.shape[axis] != longer[axis] - 1) continue;
        axes[name][axis] = key;
        found = true;
      }
    }
    if (!found)
      throw Error(ErrorKind::unsupported, "transfer_parameters",
                  std::string("the models have different texts in '") + key + "', which cannot be matched",
                  "Use the tokenizer of the trained model, or train without it");
  }
  return axes;
}

// For each position of an axis, the position in the trained model; -1: none. Positions after the texts, such as that of
// the unknown token, correspond by their order.
std::vector<std::int64_t> positions(const std::vector<std::string>& texts, std::int64_t size,
                                    const std::vector<std::string>& trained, std::int64_t trained_size) {
  std::map<std::string, std::int64_t> known;
  for (std::size_t k = 0; k < trained.size(); ++k) known.emplace(trained[k], k);
  std::vector<std::int64_t> from(static_cast<std::size_t>(size), -1);
  for (std::int64_t k = 0; k < size; ++k) {
    if (k >= std::ssize(texts)) {
      const std::int64_t other = std::ssize(trained) + k - std::ssize(texts);
      from[k] = other < trained_size ? other : -1;
    } else if (const auto at = known.find(texts[k]); at != known.end()) {
      from[k] = at->second;
    }
  }
  return from;
}

class Copying {
 public:
  Copying(const Metadata& model, const Metadata& trained_model) : model_(model), trained_model_(trained_model) {}

  // Copies what corresponds. `axes` are the lists of the axes.
  Transfer::Row copy(const std::string& name, const std::vector<std::string>& axes, const Tensor& trained, Tensor& to) {
    const Shape &from = trained.shape(), &shape = to.shape();
    const std::string shapes = "was " + from.text() + ", is " + shape.text();
    if (from.rank() != shape.rank() || trained.dtype() != to.dtype()) return {name, Transfer::Kind::fresh, shapes};
    std::vector<std::vector<std::int64_t>> maps;
    std::string note;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const std::string& key = axes[axis];
      if (key.empty()) {
        if (from[axis] != shape[axis]) return {name, Transfer::Kind::fresh, shapes};
        maps.emplace_back();
        continue;
      }
      maps.push_back(positions(texts_of(model_, key), shape[axis], texts_of(trained_model_, key), from[axis]));
      const auto n = std::ranges::count_if(maps.back(), [](std::int64_t k) { return k >= 0; });
      if (n < shape[axis] || from[axis] != shape[axis])
        note = std::to_string(n) + " of " + std::to_string(shape[axis]) + " " + (key == "labels" ? "labels" : "tokens");
    }
    copy_elements(trained, maps, to);
    return {name, note.empty() ? Transfer::Kind::kept : Transfer::Kind::rows, note};
  }

 private:
  static void copy_elements(const Tensor& trained, const std::vector<std::vector<std::int64_t>>& maps, Tensor& to) {
    const Shape &from = trained.shape(), &shape = to.shape();
    for (std::int64_t k = 0; k < to.elements(); ++k) {
      std::int64_t rest = k, at = 0, stride = 1;
      bool exists = true;
      for (int axis = shape.rank() - 1; axis >= 0; --axis) {
        const std::int64_t here = rest % shape[axis];
        const std::int64_t there = maps[axis].empty() ? here : maps[axis][here];
        exists = exists && there >= 0;
        at += there * stride;
        stride *= from[axis];
        rest /= shape[axis];
      }
      if (exists) to.set(k, trained.at(at));
    }
  }

  const Metadata &model_, &trained_model_;
};

}  // namespace

Transfer transfer_parameters(const Metadata& model, std::uint64_t seed, const Metadata& trained_model,
                             const TensorMap& trained) {
  const Specs specs = specs_of(model);
  std::vector<ParameterSpec> list;
  for (const auto& [name, spec] : specs) list.push_back(spec);
  Transfer transfer{initialize(list, seed), {}};
  const auto axes = listed_axes(model, specs, trained_model);
  Copying copying(model, trained_model);
  for (auto& [name, tensor] : transfer.parameters) {
    const auto at = trained.find(name);
    transfer.rows.push_back(at == trained.end() ? Transfer::Row{name, Transfer::Kind::fresh, ""}
                                                : copying.copy(name, axes.at(name), at->second, tensor));
  }
  if (std::ranges::all_of(transfer.rows, [](const Transfer::Row& row) { return row.kind == Transfer::Kind::fresh; }))
    throw Error(ErrorKind::usage, "transfer_parameters", "the models have no parameter in common",
                "Compare them with `unroll inspect`");
  for (const auto& [name, tensor] : trained)
    if (!specs.contains(name)) transfer.rows.push_back({name, Transfer::Kind::dropped, ""});
  return transfer;
}

}  // namespace unroll
