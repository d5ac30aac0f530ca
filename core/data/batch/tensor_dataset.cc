// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <numeric>
#include <span>

#include "core/data/batch/per_split.h"
#include "core/data/batch/shuffle.h"
#include "core/support/text/exact_text.h"
#include "unroll/data/dataset.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

constexpr const char* k_dataset = "TensorDataset";

using Sequences = std::vector<Tensor>;

[[noreturn]] void refuse(ErrorKind kind, const std::string& what, const std::string& next = {}) {
  throw Error(kind, k_dataset, what, next);
}

int axis_of(const DatasetOptions& options, const std::string& field) {
  const auto at = options.axes.find(field);
  return at == options.axes.end() ? 0 : at->second;
}

std::int64_t examples_of(const std::string& name, const Field& field, const DatasetOptions& options) {
  if (const auto* sequences = std::get_if<Sequences>(&field)) return static_cast<std::int64_t>(sequences->size());
  const Shape& shape = std::get<Tensor>(field).shape();
  const int axis = axis_of(options, name);
  if (axis < 0 || axis >= shape.rank())
    refuse(ErrorKind::shape,
           "field '" + name + "' " + shape.text() + " has no axis " + std::to_string(axis) + " of examples",
           "Set DatasetOptions::axes");
  return shape[axis];
}

// Checks that sequences of one field differ only in length.
void check_sequences(const std::string& name, const Sequences& sequences) {
  const auto rest = [](const Tensor& t) { return Type{t.dtype(), t.shape().removed(0)}; };
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const std::string which = "sequence " + std::to_string(i) + " of field '" + name + "' is " +
                              sequences[i].type().text();
    if (sequences[i].shape().rank() < 1) refuse(ErrorKind::shape, which, "A sequence is [T,...]");
    if (rest(sequences[i]) != rest(sequences[0]))
      refuse(ErrorKind::shape, which + "; sequence 0 is " + sequences[0].type().text(),
             "Only the first dimension, the length, may differ");
  }
}

// Returns the common number of examples.
std::int64_t check_fields(const Fields& fields, const DatasetOptions& options) {
  std::int64_t n = -1;
  for (const auto& [name, field] : fields) {
    if (const auto* sequences = std::get_if<Sequences>(&field)) check_sequences(name, *sequences);
    const std::int64_t here = examples_of(name, field, options);
    if (n >= 0 && here != n)
      refuse(ErrorKind::shape,
             "field '" + name + "' has " + std::to_string(here) + " examples; field '" + fields.begin()->first +
                 "' has " + std::to_string(n));
    n = here;
  }
  return std::max<std::int64_t>(n, 0);
}

// Returns the elements at `indices` of one axis.
Tensor gathered(const Tensor& from, int axis, std::span<const std::int64_t> indices) {
  const Shape& shape = from.shape();
  std::size_t outer = 1, inner = dtype_bytes(from.dtype());
  for (int i = 0; i < shape.rank(); ++i)
    (i < axis ? outer : inner) *= i == axis ? 1 : shape[i];
  Tensor to(Type{from.dtype(), shape.with(axis, std::ssize(indices))});
  const std::byte* source = from.bytes().data();
  std::byte* target = to.bytes().data();
  const std::size_t n = shape[axis];
  for (std::size_t o = 0; o < outer; ++o)
    for (const std::int64_t i : indices) {
      if (inner > 0) std::memcpy(target, source + (o * n + i) * inner, inner);
      target += inner;
    }
  return to;
}

struct Padded {
  Tensor values, lengths;  // [T,B,...], i32 [B]
};
Padded padded(const Sequences& sequences, std::span<const std::int64_t> indices, std::int64_t steps) {
  const auto n = std::ssize(indices);
  const Tensor& first = sequences[0];
  const Shape rest = first.shape().removed(0);
  Padded p{Tensor(Type{first.dtype(), rest.inserted(0, n).inserted(0, steps)}), Tensor(DType::i32, {n})};
  const std::size_t row = rest.elements() * dtype_bytes(first.dtype());
  for (std::int64_t b = 0; b < n; ++b) {
    const Tensor& sequence = sequences[indices[b]];
    const std::int64_t length = sequence.shape()[0];
    p.lengths.values<std::int32_t>()[b] = static_cast<std::int32_t>(length);
    for (std::int64_t t = 0; t < length && row > 0; ++t)
      std::memcpy(p.values.bytes().data() + (t * n + b) * row, sequence.bytes().data() + t * row, row);
  }
  return p;
}

std::int64_t longest(const Sequences& sequences, std::span<const std::int64_t> indices) {
  std::int64_t most = 0;
  for (const std::int64_t i : indices) most = std::max(most, sequences[i].shape()[0]);
  return most;
}

}  // namespace

struct TensorDataset::State {
  struct Part {
    std::shared_ptr<const Fields> fields;
    std::vector<std::int64_t> examples;  // indices into the fields
  };
  DatasetOptions options;
  PerSplit<Part> parts;
  std::map<std::string, std::int64_t> longest;  // of each sequence field, over all parts
  mutable std::mutex mutex;                     // guards `shuffle`
  mutable Shuffle shuffle;

  const Part& part(Split split) const { return parts[split]; }
  std::int64_t steps(const std::string& field, const Sequences& sequences,
                     std::span<const std::int64_t> indices) const {
    const std::int64_t m = options.pad_to_multiple, all = longest.at(field);
    return m > 0 ? std::min((unroll::longest(sequences, indices) + m - 1) / m * m, all) : all;
  }
  // Call after all parts are set.
  void finish() {
    if (options.batch < 1) refuse(ErrorKind::usage, "batch must be at least 1; got " + std::to_string(options.batch));
    if (options.pad_to_multiple < 0) refuse(ErrorKind::usage, "pad_to_multiple must not be negative");
    if (part(Split::train).examples.empty()) refuse(ErrorKind::usage, "the training split has no examples");
    for (const auto& [name, axis] : options.axes) {
      const auto at = part(Split::train).fields->find(name);
      if (at == part(Split::train).fields->end() || !std::holds_alternative<Tensor>(at->second))
        refuse(ErrorKind::usage, "axes names '" + name + "', which is not a field that holds one tensor");
    }
    for (const Part& p : parts)
      if (p.fields)
        for (const auto& [name, field] : *p.fields)
          if (const auto* sequences = std::get_if<Sequences>(&field))
            for (const Tensor& s : *sequences) longest[name] = std::max(longest[name], s.shape()[0]);
  }
};

TensorDataset::TensorDataset(Fields fields, DatasetOptions options) {
  auto state = std::make_shared<State>();
  for (const auto& [what, share] : {std::pair("validation", options.validation), std::pair("test", options.test)})
    if (!(share >= 0 && share < 1))
      refuse(ErrorKind::usage, std::string(what) + " must be a share in [0,1); got " + exact_text(share));
  const std::int64_t n = check_fields(fields, options);
  const auto count = [&](double share) {
    return static_cast<std::int64_t>(std::floor(share * static_cast<double>(n)));
  };
  const PerSplit<std::int64_t> sizes{n - count(options.validation) - count(options.test),
                                          count(options.validation), count(options.test)};
  const PerSplit<bool> wanted{true, options.validation > 0, options.test > 0};
  std::vector<std::int64_t> order(n);
  if (options.random_splits)
    order = permutation(n, options.split_seed, 0);
  else
    std::iota(order.begin(), order.end(), std::int64_t{0});
  const auto shared = std::make_shared<const Fields>(std::move(fields));
  auto from = order.begin();
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    if (wanted[k] && sizes[k] < 1)
      refuse(ErrorKind::usage, "the " + std::string(k_split_names[k]) + " split of " + std::to_string(n) +
                                   " examples would be empty",
             "Give more examples, or change validation and test");
    state->parts[k] = {shared, {from, from + std::max<std::int64_t>(sizes[k], 0)}};
    from += std::max<std::int64_t>(sizes[k], 0);
  }
  state->options = std::move(options);
  state->finish();
  state_ = std::move(state);
}

TensorDataset::TensorDataset(Fields train, Fields validation, Fields test, DatasetOptions options) {
  auto state = std::make_shared<State>();
  PerSplit<Fields> given{std::move(train), std::move(validation), std::move(test)};
  for (std::size_t k = 0; k < given.size(); ++k) {
    const std::int64_t n = check_fields(given[k], options);
    for (const auto& [name, field] : given[0])
      if (n > 0 && !given[k].contains(name))
        refuse(ErrorKind::usage, "the " + std::string(k_split_names[k]) + " split has no field '" + name + "'");
    State::Part& part = state->parts[k];
    part.examples.resize(n);
    std::iota(part.examples.begin(), part.examples.end(), std::int64_t{0});
  }
  for (std::size_t k = 0; k < given.size(); ++k)
    state->parts[k].fields = std::make_shared<const Fields>(std::move(given[k]));
  state->options = std::move(options);
  state->finish();
  state_ = std::move(state);
}

Result<TensorDataset> TensorDataset::try_create(Fields fields, DatasetOptions options) noexcept {
  return attempt([&] { return TensorDataset(std::move(fields), std::move(options)); });
}

const DatasetOptions& TensorDataset::options() const { return state_->options; }

std::int64_t TensorDataset::examples(Split split) const {
  return static_cast<std::int64_t>(state_->part(split).examples.size());
}

std::int64_t TensorDataset::n_batches(Split split) const {
  const std::int64_t n = examples(split), size = state_->options.batch;
  if (split == Split::train && state_->options.drop_last && n >= size) return n / size;
  return (n + size - 1) / size;
}

std::vector<std::int64_t> TensorDataset::indices(Split split, std::uint64_t seed, std::int64_t epoch,
                                                 std::int64_t index) const {
  if (index < 0 || index >= n_batches(split))
    refuse(ErrorKind::usage, "there are " + std::to_string(n_batches(split)) + " " +
                                 std::string(k_split_names[split]) + " batches; asked for batch " +
                                 std::to_string(index));
  const std::vector<std::int64_t>& examples = state_->part(split).examples;
  const auto n = std::ssize(examples), begin = index * state_->options.batch;
  const bool shuffles = split == Split::train && state_->options.shuffle;
  const std::lock_guard lock(state_->mutex);
  const std::vector<std::int64_t>* order = shuffles ? &state_->shuffle.order(n, seed, epoch) : nullptr;
  std::vector<std::int64_t> found;
  for (std::int64_t i = begin; i < std::min(begin + state_->options.batch, n); ++i)
    found.push_back(examples[order ? (*order)[i] : i]);
  return found;
}

Batch TensorDataset::batch(Split split, std::uint64_t seed, std::int64_t epoch, std::int64_t index) const {
  return batch(split, indices(split, seed, epoch, index));
}

Batch TensorDataset::batch(Split split, std::span<const std::int64_t> indices) const {
  const State::Part& part = state_->part(split);
  for (const auto& [name, field] : *part.fields) {
    const std::int64_t n = examples_of(name, field, state_->options);
    for (const std::int64_t i : indices)
      if (i < 0 || i >= n)
        refuse(ErrorKind::usage, "there is no example " + std::to_string(i) + " among " + std::to_string(n));
    break;  // all fields have the same number
  }
  Batch batch;
  batch.starts_stream = true;  // examples are independent
  for (const auto& [name, field] : *part.fields) {
    if (const auto* tensor = std::get_if<Tensor>(&field)) {
      batch.inputs.emplace(name, gathered(*tensor, axis_of(state_->options, name), indices));
      continue;
    }
    const auto& sequences = std::get<Sequences>(field);
    Padded p = padded(sequences, indices, state_->steps(name, sequences, indices));
    batch.inputs.emplace(name, std::move(p.values));
    batch.inputs.emplace(name + ".lengths", std::move(p.lengths));
  }
  return batch;
}

}  // namespace unroll
