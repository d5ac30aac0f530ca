// SPDX-License-Identifier: Apache-2.0
// Values of a network under construction by a Python function.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>

#include "unroll/model/network.h"

namespace unroll::python {

// One call of the function. Its values are invalid afterwards, because the graph may be destroyed.
struct Building {
  Scope scope;
  bool is_open = true;
};

struct NetworkValue {
  std::shared_ptr<Building> at;
  Value value;

  Value get() const;  // throws Error(usage) after the call
  Value get_beside(const NetworkValue& other) const;
  NetworkValue with(Value v) const { return {at, v}; }
  Scope scope(const std::string& name) const { return name.empty() ? at->scope : at->scope.child(name); }
};

// Returns this thread's current call. Throws Error(usage) outside of a call.
std::shared_ptr<Building> current_building();

// A Python function that copies of a network share. Its last owner may be a thread without Python's lock.
using Function = std::shared_ptr<nanobind::object>;
Function shared(const nanobind::object& function);

// Calls the function with a dict of arguments by name, or with positional arguments.
nanobind::object called(const Function& function, const nanobind::dict& named);
nanobind::object called(const Function& function, const nanobind::object& a, const nanobind::object& b);

// Calls `build` with Python's lock and the inputs as a dict of NetworkValue by name. Their ".lengths" becomes
// "_lengths", which is a valid argument name. The values are invalid after the call.
using BuildInPython = std::function<TaskGraph(const std::shared_ptr<Building>&, const nanobind::dict&)>;
TaskGraph build_in_python(Scope& scope, const Inputs& inputs, const BuildInPython& build);
// Converts `object` to a value, or throws Error(type), which calls it `what`.
Value value_of(nanobind::handle object, const std::shared_ptr<Building>& at, const std::string& what);
// Returns the outputs of a network function: a value, which becomes "y", or a dict of values.
TaskGraph outputs_of(const nanobind::object& result, const std::shared_ptr<Building>& at);
// Returns a network without a loss.
Network network_of(const Function& function);

}  // namespace unroll::python
