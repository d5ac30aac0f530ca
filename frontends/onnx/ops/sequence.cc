// SPDX-License-Identifier: Apache-2.0
// Sequences of tensors that are slices of one tensor. PyTorch's exporter unrolls loops over time with them, with the
// number of steps of its example. All elements of a sequence must be read: a model that reads some has another length.
#include <algorithm>

#include "frontends/onnx/importer.h"

namespace unroll::onnx {
namespace {

constexpr const char* k_other_length = "The model was exported for another length. Run it at that length, or export it "
                                       "with PyTorch's TorchScript exporter (dynamo=False)";

void add_parts(Call& call, std::int64_t elements, Sequence& sequence) {
  const auto add = [&](std::int64_t size) { sequence.begins.push_back(sequence.begins.back() + size); };
  const bool has_sizes = call.has(1) && call.in(1).rank() == 1;
  if (has_sizes) {
    for (const std::int64_t size : call.ints(1)) {
      if (size < 0 || size > elements - sequence.begins.back()) call.refuse("split exceeds the axis");
      add(size);
    }
    if (sequence.begins.back() != elements) call.refuse("split does not add up to " + std::to_string(elements));
    return;
  }
  const std::int64_t size = call.has(1) ? call.integer(1) : 1;  // of all slices but the last
  if (size < 1) call.refuse("split must be positive");
  call.importer.count_nodes(elements / size);
  while (sequence.begins.back() < elements) add(std::min(size, elements - sequence.begins.back()));
}

std::vector<Value> split_to_sequence(Call& call) {
  const Value x = call.in(0);
  if (x.rank() == 0) call.refuse("cannot split a scalar");
  Sequence sequence{.tensor = x, .axis = call.axis(call.integer("axis", 0), x.rank())};
  sequence.keeps_axis = call.integer("keepdims", 1) != 0 || call.has(1);
  add_parts(call, x.shape()[sequence.axis], sequence);
  call.define_sequence(0, std::move(sequence));
  return {};
}

std::vector<Value> sequence_at(Call& call) {
  Sequence& sequence = call.sequence(0);
  const std::int64_t given = call.integer(1), at = given < 0 ? given + sequence.n_parts() : given;
  if (at < 0 || at >= sequence.n_parts())
    call.unsupported("reads element " + std::to_string(given) + " of " + std::to_string(sequence.n_parts()),
                     k_other_length);
  sequence.read.insert(at);
  const std::int64_t* begin = &sequence.begins[at];
  const Value part = slice(sequence.tensor, sequence.axis, begin[0], begin[1] - begin[0]);
  return {sequence.keeps_axis ? part : reshape(part, part.shape().removed(sequence.axis))};
}

constexpr OperatorRow k_sequence_rows[] = {
    {"SequenceAt", 11, sequence_at},
    {"SplitToSequence", 11, split_to_sequence},
};

}  // namespace

std::span<const OperatorRow> sequence_rows() { return k_sequence_rows; }

void Importer::require_whole_sequences(const Names& names) const {
  for (const auto& [name, sequence] : names.sequences)
    if (const auto n_read = static_cast<std::int64_t>(sequence.read.size()); n_read < sequence.n_parts())
      throw Error(ErrorKind::unsupported, model.file,
                  "reads " + std::to_string(n_read) + " of the " + std::to_string(sequence.n_parts()) +
                      " tensors of the sequence '" + name + "'",
                  k_other_length);
}

}  // namespace unroll::onnx
