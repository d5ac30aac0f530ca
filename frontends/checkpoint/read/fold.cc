// SPDX-License-Identifier: Apache-2.0
#include "frontends/checkpoint/read/fold.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "unroll/support/error.h"

namespace unroll::checkpoint {

namespace {

// A tensor in f64: each weight is rounded once.
struct Wide {
  Tensor tensor;
  std::span<const double> values;
  explicit Wide(const Tensor& t) : tensor(t.cast(DType::f64)), values(tensor.values<double>()) {}
};

// The axes of `g` with more than one element are those over which no norm is taken. Returns the row of `g` for each
// element of `v`, or nothing if their shapes do not fit.
std::vector<std::int64_t> rows_of_g(const Shape& v, const Shape& g) {
  if (g.elements() == 1) return std::vector<std::int64_t>(v.elements(), 0);
  if (g.rank() != v.rank()) return {};
  std::vector<std::int64_t> rows(1, 0);
  for (int axis = 0; axis < v.rank(); ++axis) {
    if (g[axis] != v[axis] && g[axis] != 1) return {};
    std::vector<std::int64_t> next;
    next.reserve(rows.size() * v[axis]);
    for (const std::int64_t row : rows)
      for (std::int64_t k = 0; k < v[axis]; ++k) next.push_back(row * g[axis] + (g[axis] == 1 ? 0 : k));
    rows = std::move(next);
  }
  return rows;
}

std::optional<Tensor> weight_norm(const std::vector<const Tensor*>& parts) {
  const Wide g(*parts[0]), v(*parts[1]);
  const std::vector<std::int64_t> rows = rows_of_g(parts[1]->shape(), parts[0]->shape());
  if (rows.size() != v.values.size()) return std::nullopt;
  std::vector<double> squares(g.values.size(), 0);
  for (std::size_t i = 0; i < rows.size(); ++i) squares[rows[i]] += v.values[i] * v.values[i];
  Tensor weight(DType::f64, parts[1]->shape());
  for (std::size_t i = 0; i < rows.size(); ++i)
    weight.values<double>()[i] = v.values[i] * (g.values[rows[i]] / std::sqrt(squares[rows[i]]));
  return weight;
}

// The rows of W are those of its first axis, or of its second, as in transposed convolutions; the length of u decides.
std::optional<Tensor> spectral_norm(const std::vector<const Tensor*>& parts) {
  const Wide w(*parts[0]), u(*parts[1]), v(*parts[2]);
  const Shape& shape = parts[0]->shape();
  if (shape.rank() < 2 || shape.elements() == 0) return std::nullopt;
  const auto fits = [&](std::int64_t rows) {
    return parts[1]->elements() == rows && parts[2]->elements() * rows == shape.elements();
  };
  const bool is_first = fits(shape[0]);
  if (!is_first && !fits(shape[1])) return std::nullopt;
  const std::int64_t inner = shape.elements() / shape[0], rest = inner / shape[1];
  double sigma = 0;
  for (std::int64_t i = 0; i < shape.elements(); ++i) {
    const std::int64_t a = i / inner, b = i % inner / rest, c = i % rest;
    sigma += is_first ? u.values[a] * w.values[i] * v.values[i % inner]
                      : u.values[b] * w.values[i] * v.values[a * rest + c];
  }
  Tensor weight(DType::f64, shape);
  for (std::int64_t i = 0; i < shape.elements(); ++i) weight.values<double>()[i] = w.values[i] / sigma;
  return weight;
}

std::optional<Tensor> pruned(const std::vector<const Tensor*>& parts) {
  if (parts[0]->shape() != parts[1]->shape()) return std::nullopt;
  const Wide w(*parts[0]), mask(*parts[1]);
  Tensor weight(DType::f64, parts[0]->shape());
  for (std::size_t i = 0; i < w.values.size(); ++i) weight.values<double>()[i] = w.values[i] * mask.values[i];
  return weight;
}

// The names of the parts are PATH, begin, NAME, and an end each.
struct Fold {
  std::string_view what, begin;
  std::vector<std::string_view> ends;
  std::optional<Tensor> (*weight)(const std::vector<const Tensor*>& parts);
};
const Fold k_folds[] = {
    {"weight norm", "parametrizations.", {".original0", ".original1"}, weight_norm},
    {"weight norm", "", {"_g", "_v"}, weight_norm},
    {"spectral norm", "parametrizations.", {".original", ".0._u", ".0._v"}, spectral_norm},
    {"spectral norm", "", {"_orig", "_u", "_v"}, spectral_norm},
    {"a pruning mask", "", {"_orig", "_mask"}, pruned},
};

// "PATH.NAME" of a name that ends as the first part of the fold, or nothing.
std::optional<std::pair<std::string, std::string>> path_and_name(const Fold& fold, std::string_view name) {
  if (!name.ends_with(fold.ends[0])) return std::nullopt;
  name.remove_suffix(fold.ends[0].size());
  const std::size_t dot = name.rfind('.');
  const std::size_t begin = dot == std::string_view::npos ? 0 : dot + 1;
  std::string path(name.substr(0, begin));
  if (!path.ends_with(fold.begin)) return std::nullopt;
  path.resize(path.size() - fold.begin.size());
  return std::pair(path, std::string(name.substr(begin)));
}

}  // namespace

void fold_parametrizations(Checkpoint& checkpoint) {
  std::map<std::string, std::size_t, std::less<>> places;
  for (std::size_t i = 0; i < checkpoint.tensors.size(); ++i) places.emplace(checkpoint.tensors[i].name, i);
  std::set<std::size_t> folded;
  for (const Fold& fold : k_folds)
    for (std::size_t i = 0; i < checkpoint.tensors.size(); ++i) {
      const auto weight = path_and_name(fold, checkpoint.tensors[i].name);
      if (!weight || folded.contains(i) || places.contains(weight->first + weight->second)) continue;
      std::vector<std::size_t> at;
      std::vector<const Tensor*> parts;
      for (const std::string_view end : fold.ends) {
        const auto found =
            places.find(weight->first + std::string(fold.begin) + weight->second + std::string(end));
        if (found == places.end()) break;
        const NamedTensor& part = checkpoint.tensors[found->second];
        if (part.unusable || !is_float(part.tensor.dtype())) break;
        at.push_back(found->second);
        parts.push_back(&part.tensor);
      }
      if (parts.size() != fold.ends.size()) continue;
      const std::optional<Tensor> value = fold.weight(parts);
      if (!value) continue;
      const auto is_wide = [](const Tensor* part) { return part->dtype() == DType::f64; };
      const DType dtype = std::ranges::any_of(parts, is_wide) ? DType::f64 : DType::f32;
      NamedTensor made{weight->first + weight->second, value->cast(dtype),
                       std::string(dtype_name(dtype)) + value->shape().text() + " with " + std::string(fold.what),
                       value->shape(), std::nullopt};
      folded.insert(at.begin(), at.end());
      folded.erase(i);
      checkpoint.tensors[i] = std::move(made);
    }
  std::vector<NamedTensor> kept;
  for (std::size_t i = 0; i < checkpoint.tensors.size(); ++i)
    if (!folded.contains(i)) kept.push_back(std::move(checkpoint.tensors[i]));
  checkpoint.tensors = std::move(kept);
}

}  // namespace unroll::checkpoint
