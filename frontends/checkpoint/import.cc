// SPDX-License-Identifier: Apache-2.0
#include "frontends/checkpoint/import.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "core/support/text/in_quotes.h"
#include "frontends/checkpoint/modules.h"
#include "unroll/support/error.h"
#include "unroll/support/result.h"
#include "unroll/tasks/inference.h"

namespace unroll::checkpoint {

namespace {

constexpr std::size_t k_most_listed = 8;

// "a f32[2], b f32[3] and 4 more"
std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t k = 0; k < names.size() && k < k_most_listed; ++k) text += (k == 0 ? "" : ", ") + names[k];
  if (names.size() > k_most_listed) text += " and " + std::to_string(names.size() - k_most_listed) + " more";
  return text;
}

// Returns the first parts of the names: "model.", "optimizer.".
std::vector<std::string> prefixes_of(const Checkpoint& checkpoint) {
  std::set<std::string> prefixes;
  for (const NamedTensor& each : checkpoint.tensors)
    if (const std::size_t dot = each.name.find('.'); dot != std::string::npos)
      prefixes.insert(each.name.substr(0, dot + 1));
  return {prefixes.begin(), prefixes.end()};
}

// Dicts and wrappers around a model in files of training programs, with their dot. Other parts of such a file are
// optimizer_states, optimizer, scheduler, callbacks and so on.
constexpr std::string_view k_wrappers[] = {"state_dict.", "model_state_dict.", "model_state.", "model.",
                                           "module.",     "network.",          "net.",         "_orig_mod."};
constexpr std::string_view k_beside[] = {"optim", "sched", "lr_", "callbacks", "loops", "scaler", "ema", "loss"};

// Returns a wrapper around all tensors behind `prefix`; or around those that do not belong to the training, at the top.
std::string_view wrapper_behind(const Checkpoint& checkpoint, const std::string& prefix) {
  const auto is_beside = [&](std::string_view name) {
    return prefix.empty() && std::ranges::any_of(k_beside, [&](auto word) { return name.starts_with(word); });
  };
  for (const std::string_view wrapper : k_wrappers) {
    bool is_used = false, is_around = true;
    for (const NamedTensor& each : checkpoint.tensors) {
      if (!each.name.starts_with(prefix)) continue;
      const std::string_view rest = std::string_view(each.name).substr(prefix.size());
      is_used |= rest.starts_with(wrapper);
      is_around &= rest.starts_with(wrapper) || is_beside(rest);
    }
    if (is_used && is_around) return wrapper;
  }
  return "";
}

std::string prefix_of(const Checkpoint& checkpoint) {
  std::string prefix;
  for (std::string_view next; !(next = wrapper_behind(checkpoint, prefix)).empty();) prefix += next;
  return prefix;
}

void rename(Checkpoint& checkpoint, const std::vector<std::string>& renames, const std::string& file) {
  for (const std::string& each : renames) {
    const std::size_t equals = each.find('=');
    if (equals == 0 || equals == std::string::npos)
      throw Error(ErrorKind::usage, "import", "--rename " + in_quotes(each) + " is not FROM=TO");
    const std::string from = each.substr(0, equals), to = each.substr(equals + 1);
    bool is_used = false;
    for (NamedTensor& tensor : checkpoint.tensors)
      for (std::size_t at = 0; (at = tensor.name.find(from, at)) != std::string::npos; at += to.size()) {
        tensor.name.replace(at, from.size(), to);
        is_used = true;
      }
    if (!is_used) throw Error(ErrorKind::input_file, file, "no tensor's name has the text " + in_quotes(from));
  }
  std::set<std::string_view> names;
  for (const NamedTensor& tensor : checkpoint.tensors)
    if (!names.insert(tensor.name).second)
      throw Error(ErrorKind::usage, "import", "--rename gives two tensors the name " + in_quotes(tensor.name));
}

std::vector<ParameterSpec> parameters_of(const Sequential& model) {
  const Inference inference = task_inference(sequential_metadata(model));
  Graph graph;
  Scope scope(graph, /*training=*/false);
  std::map<std::string, Value, std::less<>> inputs;
  for (const TensorSpec& spec : inference.inputs)
    inputs.emplace(spec.name, graph.input(spec.name, {spec.dtype, shape_of(spec, {{"T", 2}, {"B", 2}})}));
  inference.network(scope, Inputs(std::move(inputs)));
  return scope.parameters();
}

std::vector<const NamedTensor*> behind_prefix(const Checkpoint& checkpoint, const std::string& prefix,
                                              const std::string& file) {
  std::vector<const NamedTensor*> tensors;
  for (const NamedTensor& each : checkpoint.tensors)
    if (each.name.starts_with(prefix)) tensors.push_back(&each);
  if (!tensors.empty()) return tensors;
  if (checkpoint.tensors.empty())
    throw Error(ErrorKind::input_file, file, "the file has no tensor", "Save a state dict");
  throw Error(ErrorKind::input_file, file, "no tensor's name begins with '" + prefix + "'",
              "Use one of " + list_of(prefixes_of(checkpoint)));
}

}  // namespace

ImportedModel import_model(Checkpoint checkpoint, const ImportOptions& options, const std::string& file) {
  rename(checkpoint, options.renames, file);
  const std::string prefix = options.prefix.empty() ? prefix_of(checkpoint) : options.prefix;
  const auto tensors = behind_prefix(checkpoint, prefix, file);
  const std::vector<Module> modules = find_modules(tensors, prefix, options.nonlinearity, file);
  const std::string parts = list_of(prefixes_of(checkpoint));
  const std::string choose = parts.empty() ? "" : "Read a part of the file with --prefix: " + parts;
  if (modules.empty())
    throw Error(ErrorKind::input_file, file, "no tensor belongs to a recurrent, linear or embedding layer", choose);
  ImportedModel imported{.model = in_a_row(modules, checkpoint.in_order, options.layers, file),
                         .parameters = {}, .mapping = {}, .unused = {}};
  std::map<std::string, const NamedTensor*> by_name;
  for (const Module& m : modules)
    for (const ModuleTensor& t : m.tensors) by_name.emplace(m.path.empty() ? t.own : m.path + "." + t.own, t.tensor);

  std::vector<std::string> missing, misshapen, unused;
  std::set<const NamedTensor*> used;
  for (const ParameterSpec& spec : parameters_of(imported.model)) {
    const auto found = by_name.find(spec.name);
    if (found == by_name.end()) {
      missing.push_back(prefix + spec.name + " " + spec.type.text());
      continue;
    }
    const NamedTensor& given = *found->second;
    if (given.unusable) throw_error(*given.unusable);
    if (!is_float(given.tensor.dtype()))
      throw Error(ErrorKind::input_file, file,
                  "tensor " + in_quotes(given.name) + " is " + given.stored + "; the parameters of a layer are floats",
                  "Save the model before it is quantized");
    if (given.shape != spec.type.shape)
      misshapen.push_back(given.name + " is " + given.stored + ", expected " + spec.type.shape.text());
    used.insert(&given);
    imported.mapping.push_back({given.name, spec.name, given.stored});
    imported.parameters.emplace(spec.name, given.tensor.cast(DType::f32));
  }
  for (const NamedTensor& each : checkpoint.tensors) {
    if (used.contains(&each)) continue;
    imported.unused.push_back({each.name, "", each.stored});
    if (each.name.starts_with(prefix)) unused.push_back(each.name + " " + each.stored);
  }
  if (!missing.empty())
    throw Error(ErrorKind::input_file, file, "these parameters are missing: " + list_of(missing),
                "Save the whole state dict");
  if (!misshapen.empty()) throw Error(ErrorKind::input_file, file, "shapes do not fit: " + list_of(misshapen));
  if (!unused.empty() && !options.ignore_unused)
    throw Error(ErrorKind::input_file, file, "these tensors belong to no layer of the model: " + list_of(unused),
                (choose.empty() ? "" : choose + "; or name") + std::string(choose.empty() ? "Name" : "") +
                    " the layers with --layers, or leave the tensors out with --ignore-unused");
  return imported;
}

}  // namespace unroll::checkpoint
