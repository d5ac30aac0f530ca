// SPDX-License-Identifier: Apache-2.0
// Values of a network while a Python function builds it.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>

#include "unroll/model/network.h"

namespace unroll::python {

// One call of the function. Its values are of no use afterwards: the graph may be gone.
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

// The call that this thread is in. Throws Error(usage) outside of one.
std::shared_ptr<Building> current_building();

// A function of Python, which copies of a network share. Its last owner may be a thread without Python's lock.
using Function = std::shared_ptr<nanobind::object>;
Function shared(const nanobind::object& function);

// The result of the function, with a dict of arguments by name, or with arguments.
nanobind::object called(const Function& function, const nanobind::dict& named);
nanobind::object called(const Function& function, const nanobind::object& a, const nanobind::object& b);

// Calls `build` with Python's lock and with the inputs as a dict of NetworkValue by name. Their ".lengths" becomes
// "_lengths", which can name an argument. The values cannot be used after the call.
using BuildInPython = std::function<TaskGraph(const std::shared_ptr<Building>&, const nanobind::dict&)>;
TaskGraph build_in_python(Scope& scope, const Inputs& inputs, const BuildInPython& build);
// The value that `object` must be, or Error(type) that calls it `what`.
Value value_of(nanobind::handle object, const std::shared_ptr<Building>& at, const std::string& what);
// The outputs that the function of a network returned: a value, which becomes "y", or a dict of them.
TaskGraph outputs_of(const nanobind::object& result, const std::shared_ptr<Building>& at);
// A network without a loss.
Network network_of(const Function& function);

}  // namespace unroll::python
