// SPDX-License-Identifier: Apache-2.0
#include "frontends/tasks/decode/bound_program.h"

#include "unroll/error.h"

namespace unroll {

BoundProgram::BoundProgram(std::shared_ptr<Program> program) : program_(std::move(program)) {
  const Graph& graph = *program_->plan().graph;
  const auto allocate = [&](ValueId value) {
    buffers_.push_back(program_->backend().allocate(graph.type(value).bytes()));
    return buffers_.back().get();
  };
  for (const NamedValue& input : graph.inputs()) bindings_.inputs.push_back(allocate(input.value));
  for (const NamedValue& output : graph.outputs()) {
    bindings_.outputs.push_back(allocate(output.value));
    outputs_.emplace(output.name, Tensor(graph.type(output.value)));
  }
}

void BoundProgram::set(std::string_view name, const Tensor& tensor) {
  const Graph& graph = *program_->plan().graph;
  for (std::size_t k = 0; k < graph.inputs().size(); ++k) {
    if (graph.inputs()[k].name != name) continue;
    const Type& type = graph.type(graph.inputs()[k].value);
    if (tensor.type() != type)
      throw Error(ErrorKind::shape, "BoundProgram",
                  "input '" + std::string(name) + "' must be " + type.text() + "; got " + tensor.type().text());
    return program_->backend().upload(*bindings_.inputs[k], 0, tensor.bytes());
  }
  throw Error(ErrorKind::usage, "BoundProgram", "there is no input '" + std::string(name) + "'");
}

const TensorMap& BoundProgram::run() {
  const Graph& graph = *program_->plan().graph;
  program_->run(bindings_);
  program_->backend().wait();
  for (std::size_t k = 0; k < graph.outputs().size(); ++k)
    program_->backend().download(*bindings_.outputs[k], 0, outputs_.at(graph.outputs()[k].name).bytes());
  return outputs_;
}

}  // namespace unroll
