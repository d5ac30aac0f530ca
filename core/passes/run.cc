// SPDX-License-Identifier: Apache-2.0
// The checked wrapper around an executable. Backends may trust all arguments that pass through it.
#include "unroll/passes/run.h"

#include <algorithm>

#include "core/ir/input_range.h"
#include "core/support/interruption.h"
#include "core/support/process/abandoned.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

constexpr std::string_view k_who = "Program::run";

std::string joined_names(std::span<const NamedValue> list) {
  std::string names;
  for (const NamedValue& named : list) names.append(names.empty() ? "" : ", ").append(named.name);
  return names.empty() ? "none" : names;
}

const Tensor& require_input(const TensorMap& given, const NamedValue& wanted, const Graph& graph) {
  const auto at = given.find(wanted.name);
  if (at == given.end())
    throw Error(ErrorKind::usage, k_who, "input '" + wanted.name + "' is missing",
                "the inputs are " + joined_names(graph.inputs()));
  const Type &type = graph.type(wanted.value), &got = at->second.type();
  if (got == type) {
    check_range(graph, wanted, at->second, ErrorKind::usage, k_who);
    return at->second;
  }
  throw Error(got.dtype == type.dtype ? ErrorKind::shape : ErrorKind::type, k_who,
              "input '" + wanted.name + "' must be " + type.text() + "; got " + got.text());
}

void require_known(const TensorMap& given, const Graph& graph) {
  for (const auto& [name, tensor] : given) {
    const auto inputs = graph.inputs();
    if (std::none_of(inputs.begin(), inputs.end(),
                     [&given_name = name](const NamedValue& input) { return input.name == given_name; }))
      throw Error(ErrorKind::usage, k_who, "there is no input '" + name + "'",
                  "the inputs are " + joined_names(inputs));
  }
}

void require_buffers(std::span<Buffer* const> buffers, std::span<const NamedValue> wanted, const Graph& graph,
                     const std::string& what) {
  if (buffers.size() != wanted.size())
    throw Error(ErrorKind::usage, k_who, "takes " + std::to_string(wanted.size()) + " " + what + " buffers; got " +
                                             std::to_string(buffers.size()));
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const Type& type = graph.type(wanted[i].value);
    if (!buffers[i])
      throw Error(ErrorKind::usage, k_who, "the buffer of " + what + " '" + wanted[i].name + "' is null");
    if (buffers[i]->bytes() < type.bytes())
      throw Error(ErrorKind::usage, k_who,
                  "the buffer of " + what + " '" + wanted[i].name + "' holds " + std::to_string(buffers[i]->bytes()) +
                      " bytes; " + type.text() + " needs " + std::to_string(type.bytes()));
  }
}

// An output may use the buffer of its donor and no other.
void require_apart(const Bindings& bindings, const Plan& plan) {
  const auto outputs = plan.graph->outputs(), inputs = plan.graph->inputs();
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (bindings.outputs[k] == bindings.inputs[i] && plan.donors[k] != static_cast<int>(i))
        throw Error(ErrorKind::usage, k_who,
                    "output '" + outputs[k].name + "' must not use the buffer of input '" + inputs[i].name + "'",
                    "name the pair in PlanOptions.donate");
    for (std::size_t other = 0; other < k; ++other)
      if (bindings.outputs[k] == bindings.outputs[other])
        throw Error(ErrorKind::usage, k_who,
                    "outputs '" + outputs[other].name + "' and '" + outputs[k].name + "' must not share a buffer");
  }
}

}  // namespace

BackendHandle::BackendHandle(std::shared_ptr<Backend> backend) : owner_(std::move(backend)), backend_(owner_.get()) {
  if (!backend_)
    throw Error(ErrorKind::usage, "BackendHandle", "the backend is null", "Pass the result of make_backend");
  lifetime_ = backend_->lifetime_;
}

Backend& BackendHandle::get(std::string_view who) const {
  if (is_over())
    throw Error(ErrorKind::usage, who, "the backend has been destroyed",
                "Keep the result of make_backend in a variable that outlives what uses it");
  return *backend_;
}

Program::Program(const Graph& graph, BackendHandle backend, const PlanOptions& options)
    : backend_(std::move(backend)),
      plan_(unroll::plan(graph, backend_.get(k_who), options)),
      executable_(backend_.get(k_who).compile(plan_)) {}

Program::~Program() {
  if (backend_.is_over()) abandon(executable_.release());
}

Result<std::unique_ptr<Backend>> try_make_backend(const std::string& name, const BackendOptions& options) noexcept {
  return attempt([&] { return make_backend(name, options); });
}

Result<Program> Program::try_create(const Graph& graph, BackendHandle backend, const PlanOptions& options) noexcept {
  return attempt([&] { return Program(graph, std::move(backend), options); });
}
Result<TensorMap> Program::try_run(const TensorMap& inputs) noexcept {
  return attempt([&] { return run(inputs); });
}

void Program::run(const Bindings& bindings) {
  backend_.get(k_who);
  check_interruption();
  require_buffers(bindings.inputs, plan_->graph->inputs(), *plan_->graph, "input");
  require_buffers(bindings.outputs, plan_->graph->outputs(), *plan_->graph, "output");
  require_apart(bindings, *plan_);
  executable_->run(bindings);
}

TensorMap Program::run(const TensorMap& inputs) {
  Backend& backend = backend_.get(k_who);
  const Graph& graph = *plan_->graph;
  require_known(inputs, graph);
  std::vector<std::unique_ptr<Buffer>> buffers;
  Bindings bindings;
  // Tensors are read and written where they are, if the backend works in host memory; true if so.
  const auto bind = [&](std::span<std::byte> memory, std::vector<Buffer*>& to) {
    std::unique_ptr<Buffer> borrowed = backend.borrow(memory);
    const bool is_borrowed = borrowed != nullptr;
    buffers.push_back(is_borrowed ? std::move(borrowed) : backend.allocate(memory.size()));
    to.push_back(buffers.back().get());
    return is_borrowed;
  };
  for (const NamedValue& input : graph.inputs()) {
    const std::span<const std::byte> bytes = require_input(inputs, input, graph).bytes();
    // Only a donor's buffer is written, and an output of this run never has the buffer of an input.
    if (!bind({const_cast<std::byte*>(bytes.data()), bytes.size()}, bindings.inputs))
      backend.upload(*bindings.inputs.back(), 0, bytes);
  }
  std::vector<Tensor> tensors;
  std::vector<bool> copied;
  for (const NamedValue& output : graph.outputs()) {
    tensors.emplace_back(graph.type(output.value));
    copied.push_back(!bind(tensors.back().bytes(), bindings.outputs));
  }
  run(bindings);
  backend.wait();
  TensorMap results;
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    if (copied[k]) backend.download(*bindings.outputs[k], 0, tensors[k].bytes());
    results.insert_or_assign(graph.outputs()[k].name, std::move(tensors[k]));
  }
  return results;
}

TensorMap evaluate(const Graph& graph, BackendHandle backend, const TensorMap& inputs, const PlanOptions& options) {
  return Program(graph, std::move(backend), options).run(inputs);
}

}  // namespace unroll
