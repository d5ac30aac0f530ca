// SPDX-License-Identifier: Apache-2.0
#include "unroll/passes/block_stream.h"

#include <numeric>

#include "core/passes/streaming/emit.h"
#include "unroll/support/error.h"

namespace unroll {

namespace streaming {

namespace {

const NamedValue& chosen_output(const Graph& graph, const PerNode<NodeFlow>& flows, const std::string& name) {
  const auto flow = [&](const NamedValue& v) { return flows[v.value.node].outputs[v.value.output]; };
  for (const NamedValue& output : graph.outputs())
    if (name.empty() ? flow(output).is_sequence() : output.name == name) {
      if (flow(output).outer > 1)
        throw Error(ErrorKind::unsupported, k_who, "the time axis of output '" + output.name + "' has others in it");
      if (flow(output).is_sequence()) return output;
      throw Error(ErrorKind::unsupported, k_who, "output '" + name + "' is no stream: " + flow(output).why);
    }
  if (!name.empty()) throw Error(ErrorKind::usage, k_who, "the graph has no output '" + name + "'");
  const NamedValue& first = graph.outputs()[0];
  const std::string why = flow(first).why;
  throw Error(ErrorKind::unsupported, k_who, "output '" + first.name + "' is no stream: " +
                                                 (why.empty() ? "it does not depend on the input" : why));
}

// The smallest block for which all sequences have whole numbers of positions.
std::int64_t smallest_block(const PerNode<NodeFlow>& flows) {
  std::int64_t block = 1;
  for (const NodeFlow& node : flows)
    for (const Flow& f : node.outputs)
      if (f.is_sequence()) block = std::lcm(block, f.down);
  return block;
}

// Steps that must follow the last step of a sequence of whole blocks before its output is complete.
std::int64_t look_ahead_of(const Flow& f, std::int64_t block) {
  std::int64_t steps = 0;
  const std::int64_t T = k_steps / block * block;
  while ((T + steps) * f.up / f.down - f.delay < f.length(T)) steps += block;
  return steps;
}

BlockStream stream_of(const GraphOfLength& graph_of, const BlockStreamOptions& options) {
  const Lengths graphs = lengths_of(graph_of);
  const Graph& graph = *graphs.one;
  if (graph.inputs().size() != 1 || graph.outputs().empty())
    throw Error(ErrorKind::usage, k_who, "a stream has one input, and at least one output; the graph has " +
                                             std::to_string(graph.inputs().size()) + " inputs",
                "Replace the others by constants");
  const PerNode<NodeFlow> flows = find_flows(graphs);
  const NamedValue& output = chosen_output(graph, flows, options.output);
  const std::int64_t smallest = smallest_block(flows), block = options.block > 0 ? options.block : smallest;
  if (block % smallest != 0)
    throw Error(ErrorKind::usage, k_who, "a block must be a multiple of " + std::to_string(smallest) +
                                             " steps; got " + std::to_string(block));
  const Flow& flow = flows[output.value.node].outputs[output.value.output];
  const std::int64_t look_ahead = look_ahead_of(flow, smallest);
  if (look_ahead > options.look_ahead)
    throw Error(ErrorKind::unsupported, k_who, "output '" + output.name + "' looks ahead " +
                                                   std::to_string(look_ahead) + " steps",
                "Allow this delay, or use whole sequences");
  BlockStream stream = emit_blocks(graph, flows, output, block);
  stream.look_ahead = look_ahead;
  for (const NamedValue& other : graph.outputs())
    if (other.name != output.name) stream.others.push_back(other.name);
  return stream;
}

}  // namespace

}  // namespace streaming

BlockStream block_stream(const GraphOfLength& graph_of, const BlockStreamOptions& options) {
  return streaming::stream_of(graph_of, options);
}

}  // namespace unroll
