// SPDX-License-Identifier: Apache-2.0
// Einsum: operands are contracted one after the other by matmul. A label is a letter; the axes of "..." have the labels
// '0', '1', ... from the right.
#include <algorithm>
#include <cctype>
#include <map>

#include "frontends/onnx/importer.h"

namespace unroll::onnx {
namespace {

struct Term {
  Value x;
  std::string labels;  // one per axis
};
using LabelSizes = std::map<char, std::int64_t>;

bool contains(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

// Replaces "..." by labels; `rank` of the operand, or of the longest "..." for the output.
std::string expanded_labels(Call& call, const std::string& text, std::size_t dots) {
  std::string labels;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 3, "...") == 0) {
      for (std::size_t d = dots; d > 0; --d) labels += static_cast<char>('0' + d - 1);
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(text[i]))) {
      labels += text[i];
    } else {
      call.refuse("the equation has '" + text.substr(i, 1) + "'");
    }
  }
  std::string sorted = labels;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end())
    call.unsupported("a label appears twice in '" + text + "'");
  return labels;
}

struct Equation {
  std::vector<std::string> inputs;
  std::optional<std::string> output;
};
Equation parsed(std::string text) {
  std::erase(text, ' ');
  Equation equation;
  if (const std::size_t arrow = text.find("->"); arrow != std::string::npos) {
    equation.output = text.substr(arrow + 2);
    text.resize(arrow);
  }
  std::size_t from = 0;
  for (std::size_t comma = text.find(','); comma != std::string::npos; comma = text.find(',', from)) {
    equation.inputs.push_back(text.substr(from, comma - from));
    from = comma + 1;
  }
  equation.inputs.push_back(text.substr(from));
  return equation;
}

// Without "->", the output has "..." and the labels that appear once, in alphabetical order.
std::string implicit_output(const std::vector<Term>& terms, std::size_t dots) {
  std::map<char, int> counts;
  for (const Term& term : terms)
    for (const char label : term.labels) ++counts[label];
  std::string labels;
  for (std::size_t d = dots; d > 0; --d) labels += static_cast<char>('0' + d - 1);
  for (const auto& [label, count] : counts)
    if (count == 1 && std::isalpha(static_cast<unsigned char>(label))) labels += label;
  return labels;
}

Term arranged(const Term& term, const std::string& labels) {
  Ints order;
  for (const char label : labels) order.push_back(static_cast<std::int64_t>(term.labels.find(label)));
  return {labels == term.labels ? term.x : transpose(term.x, order), labels};
}

Term without_labels(Call& call, const Term& term, const std::string& kept) {
  Ints axes;
  Term result{term.x, {}};
  for (std::size_t i = 0; i < term.labels.size(); ++i) {
    if (contains(kept, term.labels[i])) {
      result.labels += term.labels[i];
    } else {
      axes.push_back(static_cast<std::int64_t>(i));
    }
  }
  if (axes.empty()) return term;
  if (term.x.dtype() == DType::b8) call.unsupported("sums of booleans are not supported");
  result.x = reduce_sum(term.x, axes);
  return result;
}

std::int64_t size_of_labels(const LabelSizes& sizes, const std::string& labels) {
  Ints dims;
  for (const char label : labels) dims.push_back(sizes.at(label));
  return Shape(dims).elements();  // throws if they are too many
}

// [batch, rows, inner] times [batch, inner, columns]; `kept` are the labels that are needed later.
Term contracted(Call& call, Term a, Term b, const std::string& kept, const LabelSizes& sizes) {
  a = without_labels(call, a, kept + b.labels);
  b = without_labels(call, b, kept + a.labels);
  std::string batch, rows, inner, columns;
  for (const char label : a.labels)
    (!contains(b.labels, label) ? rows : contains(kept, label) ? batch : inner) += label;
  for (const char label : b.labels)
    if (!contains(a.labels, label)) columns += label;
  const std::string labels = batch + rows + columns;
  if (labels.size() > Shape::k_max_rank) call.unsupported("an intermediate result has more than 6 dimensions");
  const std::int64_t n = size_of_labels(sizes, batch), m = size_of_labels(sizes, rows),
                     k = size_of_labels(sizes, inner), c = size_of_labels(sizes, columns);
  const Value left = reshape(arranged(a, batch + rows + inner).x, {n, m, k});
  const Value right = reshape(arranged(b, batch + inner + columns).x, {n, k, c});
  Value product;
  if (is_float(left.dtype()) && !inner.empty()) {
    product = matmul(left, right);
  } else {  // matmul is defined for floats only
    product = reduce_sum(mul(reshape(left, {n, m, k, 1}), reshape(right, {n, 1, k, c})), {2});
  }
  Ints dims;
  for (const char label : labels) dims.push_back(sizes.at(label));
  return {reshape(product, Shape(dims)), labels};
}

// Axes of "..." broadcast: an axis of size 1 gets the size of the label.
Value spread_to_sizes(Call& call, const Term& term, const LabelSizes& sizes) {
  Ints dims;
  for (const char label : term.labels) dims.push_back(sizes.at(label));
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const std::int64_t size = term.x.shape()[static_cast<int>(i)];
    const bool is_dots = term.labels[i] >= '0' && term.labels[i] <= '9';
    if (size != dims[i] && !(is_dots && size == 1))
      call.refuse("the label '" + term.labels.substr(i, 1) + "' has sizes " + std::to_string(size) + " and " +
                  std::to_string(dims[i]));
  }
  return term.x.shape() == Shape(dims) ? term.x : broadcast(term.x, Shape(dims));
}

std::vector<Value> einsum(Call& call) {
  const Equation equation = parsed(call.text("equation", ""));
  const std::vector<Value> operands = call.all_inputs();
  if (equation.inputs.size() != operands.size() || operands.empty())
    call.refuse("the equation has another number of operands");
  std::vector<Term> terms;
  LabelSizes sizes;
  std::size_t most_dots = 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const std::string& text = equation.inputs[i];
    const bool has_dots = text.find("...") != std::string::npos;
    const auto rank = static_cast<std::size_t>(operands[i].rank());
    const std::size_t letters = text.size() - (has_dots ? 3 : 0);
    const std::size_t dots = has_dots && rank > letters ? rank - letters : 0;
    const std::string labels = expanded_labels(call, text, dots);
    if (labels.size() != rank) call.refuse("'" + text + "' does not match " + operands[i].shape().text());
    most_dots = std::max(most_dots, dots);
    for (std::size_t axis = 0; axis < rank; ++axis) {
      const auto [at, is_new] = sizes.emplace(labels[axis], operands[i].shape()[static_cast<int>(axis)]);
      if (!is_new && at->second == 1) at->second = operands[i].shape()[static_cast<int>(axis)];
    }
    terms.push_back({operands[i], labels});
  }
  const std::string output =
      equation.output ? expanded_labels(call, *equation.output, most_dots) : implicit_output(terms, most_dots);
  for (const char label : output)
    if (!sizes.contains(label)) call.refuse("the output has a label that no operand has");
  for (Term& term : terms) term.x = spread_to_sizes(call, term, sizes);
  Term result = terms[0];
  for (std::size_t i = 1; i < terms.size(); ++i) {
    std::string kept = output;
    for (std::size_t later = i + 1; later < terms.size(); ++later) kept += terms[later].labels;
    result = contracted(call, result, terms[i], kept, sizes);
  }
  return {arranged(without_labels(call, result, output), output).x};
}

constexpr OperatorRow k_einsum_rows[] = {
    {"Einsum", 12, einsum},
};

}  // namespace

std::span<const OperatorRow> einsum_rows() { return k_einsum_rows; }

}  // namespace unroll::onnx
