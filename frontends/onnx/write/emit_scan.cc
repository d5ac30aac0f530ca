// SPDX-License-Identifier: Apache-2.0
// Emits loops as Scan nodes. The body reads constants of the loop as outer values.
#include "frontends/onnx/write/emitter.h"
#include "unroll/ir/ops.h"

namespace unroll::onnx {
namespace {

struct Loop {
  const Site& at;
  ScanLayout layout;
  std::size_t n_states, n_sequences, n_constants;
  std::string lengths, reset;  // names, or empty
};

Loop loop_of(const Site& at) {
  const ScanLayout l = scan_layout(at.node());
  if (l.packed) at.refuse("packed loops are not written");
  Loop loop{at, l, static_cast<std::size_t>(l.n_states), static_cast<std::size_t>(l.n_sequences),
            static_cast<std::size_t>(l.n_constants), {}, {}};
  std::size_t next = loop.n_states + loop.n_sequences + loop.n_constants;
  if (l.has_lengths) loop.lengths = at.in(next++);
  if (l.has_reset) loop.reset = at.in(next);
  return loop;
}

// t < lengths[b], b8 [T,B]
std::string live_rows(const Loop& loop) {
  Emitter& e = loop.at.emit;
  const std::string t = e.node("Reshape", {e.indices(loop.at.extent("steps")), e.integers({-1, 1})});
  return e.node("Less", {t, loop.lengths});
}

// Broadcasts a mask [B] over the rows of a value with more axes.
std::string over_rows(Emitter& e, const std::string& mask, int rank) {
  if (rank <= 1) return mask;
  std::vector<std::int64_t> axes;
  for (int k = 1; k < rank; ++k) axes.push_back(k);
  return e.node("Unsqueeze", {mask, e.integers(axes)});
}

Builds bodies_of(const Site& at) {
  Builds bodies;
  for (const Graph* graph : at.builds) bodies.push_back(graph->node(at.id).body.get());
  return bodies;
}

struct Step {
  std::vector<std::pair<std::string, DType>> inputs;  // states, sequences, masks
  std::string live, reset;                            // names of the masks of this step
};

// Returns the outputs of one step: next states, then per-step outputs.
std::vector<std::string> step_outputs(const Loop& loop, const Step& step) {
  Emitter& e = loop.at.emit;
  const Builds bodies = bodies_of(loop.at);
  const Graph& body = *bodies[0];
  const std::size_t n_data = loop.n_states + loop.n_sequences;
  std::vector<Operand> operands;
  for (std::size_t k = 0; k < body.inputs().size(); ++k) {
    if (k >= n_data) {
      operands.push_back(loop.at.inputs[k]);  // a constant, by its outer name
      continue;
    }
    std::string name = step.inputs[k].first;
    const Type& type = body.type(body.inputs()[k].value);
    if (k < loop.n_states && !step.reset.empty())
      name = e.select(over_rows(e, step.reset, type.shape.rank()), e.scalar(type.dtype, 0), name, type.dtype);
    operands.push_back({name});
  }
  const std::vector<Operand> results = e.graph(bodies, operands);
  std::vector<std::string> names;
  for (std::size_t k = 0; k < results.size(); ++k) {
    std::string name = e.name(results[k]);
    const Type& type = body.type(body.outputs()[k].value);
    if (!step.live.empty()) {
      const std::string otherwise = k < loop.n_states ? step.inputs[k].first : e.scalar(type.dtype, 0);
      name = e.select(over_rows(e, step.live, type.shape.rank()), name, otherwise, type.dtype);
    }
    names.push_back(name);
  }
  return names;
}

std::vector<Operand> scan(const Site& at) {
  const Loop loop = loop_of(at);
  Emitter& e = at.emit;
  const Graph& body = *at.node().body;
  std::vector<std::string> inputs;
  Step step;
  for (std::size_t k = 0; k < loop.n_states + loop.n_sequences; ++k) {
    inputs.push_back(at.in(k));
    step.inputs.emplace_back(e.unique(k < loop.n_states ? "state" : "slice"), body.type(body.inputs()[k].value).dtype);
  }
  const auto add_sequence = [&](const std::string& sequence, const char* stem, DType dtype) {
    inputs.push_back(sequence);
    step.inputs.emplace_back(e.unique(stem), dtype);
    return step.inputs.back().first;
  };
  if (!loop.lengths.empty()) step.live = add_sequence(live_rows(loop), "live", DType::b8);
  if (!loop.reset.empty()) step.reset = add_sequence(loop.reset, "reset", DType::b8);
  if (inputs.size() == loop.n_states) add_sequence(e.indices(at.extent("steps")), "step", DType::i32);

  std::vector<DType> dtypes;
  for (const NamedValue& output : body.outputs()) dtypes.push_back(body.type(output.value).dtype);
  const GraphBytes graph = e.body("scan", step.inputs, dtypes, [&] { return step_outputs(loop, step); });
  const std::size_t n_sequences = inputs.size() - loop.n_states, n_outputs = dtypes.size() - loop.n_states;
  AttributeList attributes{{"body", graph}, {"num_scan_inputs", static_cast<std::int64_t>(n_sequences)}};
  if (loop.layout.reverse) {  // the output of step t stays at position t
    attributes.emplace_back("scan_input_directions", std::vector<std::int64_t>(n_sequences, 1));
    if (n_outputs > 0) attributes.emplace_back("scan_output_directions", std::vector<std::int64_t>(n_outputs, 1));
  }
  std::vector<Operand> outputs;
  for (const std::string& name : e.node("Scan", inputs, dtypes.size(), attributes)) outputs.push_back({name});
  return outputs;
}

constexpr EmitRow k_scan_rows[] = {
    {Op::scan, scan}, {Op::rnn, emit_recurrent}, {Op::gru, emit_recurrent}, {Op::lstm, emit_recurrent},
};

}  // namespace

std::span<const EmitRow> structured_rows() { return k_scan_rows; }

}  // namespace unroll::onnx
