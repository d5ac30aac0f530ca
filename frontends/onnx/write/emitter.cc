// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/write/emitter.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "unroll/support/error.h"

namespace unroll::onnx {
namespace {

constexpr std::size_t k_least_external = 1024;  // bytes, as in onnx.external_data_helper
constexpr std::size_t k_page = 4096;

Tensor matrix_transposed(const Tensor& m) {
  const std::int64_t rows = m.shape()[0], columns = m.shape()[1];
  Tensor t(m.dtype(), {columns, rows});
  const std::size_t bytes = dtype_bytes(m.dtype());
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      std::memcpy(t.bytes().data() + (c * rows + r) * bytes,
                  m.bytes().data() + (r * columns + c) * bytes, bytes);
  return t;
}

// FNV-1a over words: names a file by its contents; not secure against deliberate collisions.
struct ContentHash {
  std::uint64_t value = 0xcbf29ce484222325;
  void add(std::uint64_t word) {
    value = (value ^ word) * 0x100000001b3;
    value ^= value >> 29;  // mixes high bits into low ones
  }
  void add(std::span<const std::byte> bytes) {
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data() + at, std::min(sizeof word, bytes.size() - at));
      add(word);
    }
  }
};

}  // namespace

Emitter::Emitter(const Inference& inference, const Sizes& sizes, std::string external_data)
    : inference_(inference), sizes_(sizes), external_data_(std::move(external_data)) {
  for (const TensorSpec& spec : inference.inputs) names_.insert(spec.name);
  for (const TensorSpec& spec : inference.outputs) names_.insert(spec.name);
}

std::string Emitter::unique(const std::string& stem) {
  std::string name = stem;
  for (std::int64_t& n = counts_[stem]; !names_.insert(name).second;) name = stem + "_" + std::to_string(++n);
  return name;
}

void Emitter::append(Scope& scope, const std::string& op, const std::vector<std::string>& inputs,
                     const std::vector<std::string>& outputs, const AttributeList& attributes) {
  const auto first = std::find_if(outputs.begin(), outputs.end(), [](const std::string& o) { return !o.empty(); });
  Item item{node_bytes(*first, op, inputs, outputs, attributes), inputs, outputs};
  for (const auto& [key, value] : attributes)
    if (const auto* body = std::get_if<GraphBytes>(&value))
      item.reads.insert(item.reads.end(), body->reads.begin(), body->reads.end());
  scope.nodes.push_back(std::move(item));
  scope.made.insert(outputs.begin(), outputs.end());
}

std::vector<std::string> Emitter::node(const std::string& op, const std::vector<std::string>& inputs,
                                       std::size_t n_outputs, const AttributeList& attributes) {
  std::string stem = op;
  std::transform(stem.begin(), stem.end(), stem.begin(), [](unsigned char c) { return std::tolower(c); });
  std::vector<std::string> outputs;
  for (std::size_t k = 0; k < n_outputs; ++k) outputs.push_back(unique(stem));
  append(*scope_, op, inputs, outputs, attributes);
  return outputs;
}
std::string Emitter::node(const std::string& op, const std::vector<std::string>& inputs,
                          const AttributeList& attributes) {
  return node(op, inputs, 1, attributes)[0];
}

std::string Emitter::initializer(std::shared_ptr<const Tensor> tensor, const std::string& label) {
  std::string name = unique(label.empty() ? "constant" : label);
  const bool is_external = !external_data_.empty() && tensor->bytes().size() >= k_least_external;
  Item item{is_external ? "" : tensor_bytes(name, *tensor), {}, {name}};
  if (is_external) item.external = std::move(tensor);
  initializers_.push_back(std::move(item));
  return name;
}

std::string Emitter::name(const Operand& operand) {
  if (!operand.tensor) return operand.name;
  const Tensor& tensor = *operand.tensor;
  if (operand.label.empty() && tensor.elements() == 1) {  // equal scalars share an initializer
    const std::string key = tensor.type().text() + std::string(reinterpret_cast<const char*>(tensor.bytes().data()),
                                                               tensor.bytes().size());
    std::string& found = small_[key];
    if (found.empty()) found = initializer(operand.tensor, "");
    return found;
  }
  std::string& found = tensors_[{&tensor, false}];
  if (found.empty()) {
    kept_.push_back(operand.tensor);
    found = initializer(operand.tensor, operand.label);
  }
  return found;
}

std::string Emitter::transposed(const Operand& matrix) {
  std::string& found = tensors_[{matrix.tensor.get(), true}];
  if (found.empty()) {
    kept_.push_back(matrix.tensor);
    found = initializer(std::make_shared<const Tensor>(matrix_transposed(*matrix.tensor)),
                        matrix.label.empty() ? "" : matrix.label + ".transposed");
  }
  return found;
}

std::string Emitter::integers(const std::vector<std::int64_t>& values) {
  std::string& found = integers_[values];
  if (found.empty()) {
    found = unique("integers");
    initializers_.push_back({tensor_bytes(found, values), {}, {found}});
  }
  return found;
}

std::string Emitter::scalar(DType dtype, double value) {
  return name({.tensor = std::make_shared<const Tensor>(Tensor::scalar(dtype, value))});
}

template <class Emit>
std::string Emitter::in_prelude(const Emit& emit) {
  Scope* const outer = std::exchange(scope_, &prelude_);
  std::string result = emit();
  scope_ = outer;
  return result;
}

// Derived from an axis that is only this letter, or from a product with known other letters.
std::string Emitter::letter_size(std::size_t letter) {
  if (const auto found = letters_.find(letter); found != letters_.end()) return found->second;
  const std::string& wanted = sizes_.letters()[letter];
  std::string result;
  for (const bool products : {false, true}) {
    for (const TensorSpec& spec : inference_.inputs) {
      for (std::size_t k = 0; k < spec.axes.size() && result.empty(); ++k) {
        const std::vector<std::string> letters = letters_of(spec.axes[k]);
        if ((letters.size() > 1) != products || std::find(letters.begin(), letters.end(), wanted) == letters.end())
          continue;
        const auto at = static_cast<std::int64_t>(k);
        result = in_prelude([&] { return node("Shape", {spec.name}, {{"start", at}, {"end", at + 1}}); });
        for (const std::string& other : letters) {
          if (other == wanted) continue;
          const auto l = std::find(sizes_.letters().begin(), sizes_.letters().end(), other) - sizes_.letters().begin();
          const std::string by = letter_size(l);
          result = in_prelude([&] { return node("Div", {result, by}); });
        }
      }
    }
    if (!result.empty()) break;
  }
  return letters_[letter] = result;
}

std::string Emitter::size(const Extent& extent) {
  if (extent.is_constant()) return integers({extent.constant()});
  if (extent.terms.empty()) site_->refuse("a size is no sum of products of the free sizes, as after a stride");
  if (const auto found = extents_.find(extent); found != extents_.end()) return found->second;
  std::string sum;
  for (std::size_t s = 0; s < extent.terms.size(); ++s) {
    if (extent.terms[s] == 0) continue;
    std::string term = extent.terms[s] == 1 && s != 0 ? "" : integers({extent.terms[s]});
    for (std::size_t l = 0; l < sizes_.letters().size(); ++l) {
      if (!(s >> l & 1)) continue;
      const std::string letter = letter_size(l);
      term = term.empty() ? letter : in_prelude([&] { return node("Mul", {term, letter}); });
    }
    sum = sum.empty() ? term : in_prelude([&] { return node("Add", {sum, term}); });
  }
  return extents_[extent] = sum;
}

std::string Emitter::shape(std::span<const Extent> extents) {
  if (extents.size() == 1) return size(extents[0]);
  std::vector<std::int64_t> known;
  for (const Extent& e : extents)
    if (e.is_constant()) known.push_back(e.constant());
  if (known.size() == extents.size()) return integers(known);
  const std::vector<Extent> key(extents.begin(), extents.end());
  if (const auto found = shapes_.find(key); found != shapes_.end()) return found->second;
  std::vector<std::string> parts;
  for (const Extent& e : extents) parts.push_back(size(e));
  return shapes_[key] = in_prelude([&] { return node("Concat", parts, {{"axis", std::int64_t{0}}}); });
}

std::string Emitter::reshape_target(std::span<const Extent> extents) {
  std::vector<std::int64_t> dims;
  std::int64_t n_free = 0;
  for (const Extent& e : extents) {
    n_free += !e.is_constant();
    dims.push_back(e.is_constant() ? e.constant() : -1);
  }
  const bool has_zero = std::find(dims.begin(), dims.end(), 0) != dims.end();
  return n_free <= 1 && !has_zero ? integers(dims) : shape(extents);
}

// A size that is 0 at run time means 0, not the operand's size.
std::string Emitter::reshaped(const std::string& x, std::span<const Extent> extents) {
  return node("Reshape", {x, reshape_target(extents)}, {{"allowzero", std::int64_t{1}}});
}

std::string Emitter::cast(const std::string& x, DType dtype) {
  return node("Cast", {x}, {{"to", element_code(dtype)}});
}

// ONNX Runtime does not support Where for booleans.
std::string Emitter::select(const std::string& condition, const std::string& a, const std::string& b, DType dtype) {
  if (dtype != DType::b8) return node("Where", {condition, a, b});
  return node("Or", {node("And", {condition, a}), node("And", {node("Not", {condition}), b})});
}

std::string Emitter::indices(const Extent& n) {
  const std::string end = cast(node("Squeeze", {size(n)}), DType::i32);
  return node("Range", {scalar(DType::i32, 0), end, scalar(DType::i32, 1)});
}

GraphBytes Emitter::finish(const std::string& stem, const std::vector<std::pair<std::string, DType>>& inputs,
                           const std::vector<DType>& outputs, std::vector<std::string> names, Scope& inner) {
  GraphParts body{.name = unique(stem + "_body"), .nodes = {}, .initializers = {}, .inputs = {}, .outputs = {}};
  for (const auto& [name, dtype] : inputs) body.inputs.push_back(value_bytes(name, dtype, nullptr));
  std::set<std::string> taken;
  for (std::size_t k = 0; k < names.size(); ++k) {
    // An output of a body must be computed in it, and only once.
    if (!inner.made.contains(names[k]) || !taken.insert(names[k]).second) {
      const std::string copy = unique("identity");
      append(inner, "Identity", {names[k]}, {copy}, {});
      names[k] = copy;
    }
    body.outputs.push_back(value_bytes(names[k], outputs[k], nullptr));
  }
  GraphBytes graph;
  for (Item& item : inner.nodes) {
    body.nodes.push_back(std::move(item.bytes));
    graph.reads.insert(graph.reads.end(), item.reads.begin(), item.reads.end());
  }
  graph.bytes = graph_bytes(body);
  return graph;
}

void Emitter::input(const TensorSpec& spec) {
  inputs_.push_back(value_bytes(spec.name, spec.dtype, &spec.axes));
}

void Emitter::output(const TensorSpec& spec, const Operand& value) {
  append(main_, "Identity", {name(value)}, {spec.name}, {});
  outputs_.push_back(value_bytes(spec.name, spec.dtype, &spec.axes));
  needed_.insert(spec.name);
}

// Places external tensors: the name of the second file, and page-aligned offsets, because readers map files by pages,
// as onnx.proto suggests.
void Emitter::place_external(ExportedModel& model) {
  ContentHash hash;
  std::size_t end = 0;
  std::vector<Item*> placed;
  for (Item& item : initializers_) {
    if (!item.external || !needed_.contains(item.makes[0])) continue;
    const std::size_t offset = (end + k_page - 1) / k_page * k_page, size = item.external->bytes().size();
    hash.add(offset);
    hash.add(item.external->bytes());
    end = offset + size;
    model.external.push_back({offset, item.external});
    placed.push_back(&item);
  }
  if (placed.empty()) return;
  model.location = data_file_name(external_data_, hash.value);
  for (std::size_t k = 0; k < placed.size(); ++k)
    placed[k]->bytes = external_tensor_bytes(placed[k]->makes[0], *placed[k]->external, model.location,
                                             model.external[k].offset);
}

ExportedModel Emitter::model(const std::string& graph_name, const std::map<std::string, std::string>& properties) {
  GraphParts parts{.name = graph_name, .nodes = {}, .initializers = {}, .inputs = inputs_, .outputs = outputs_};
  const auto take_needed = [&](std::vector<Item>& items, std::vector<std::string>& to) {  // the last ones first
    for (std::size_t k = items.size(); k-- > 0;) {
      Item& item = items[k];
      if (std::none_of(item.makes.begin(), item.makes.end(), [&](const auto& n) { return needed_.contains(n); }))
        continue;
      needed_.insert(item.reads.begin(), item.reads.end());
      to.push_back(std::move(item.bytes));
    }
  };
  take_needed(main_.nodes, parts.nodes);
  take_needed(prelude_.nodes, parts.nodes);
  std::reverse(parts.nodes.begin(), parts.nodes.end());
  ExportedModel model;
  place_external(model);
  take_needed(initializers_, parts.initializers);
  model.bytes = model_bytes(graph_bytes(parts), {k_written_ir, k_written_opset, UNROLL_VERSION, properties});
  return model;
}

}  // namespace unroll::onnx
