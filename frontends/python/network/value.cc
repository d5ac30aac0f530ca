// SPDX-License-Identifier: Apache-2.0
#include "frontends/python/network/value.h"

#include <nanobind/stl/string.h>

#include <string_view>
#include <utility>

#include "frontends/python/binding/arrays.h"
#include "unroll/support/error.h"

namespace nb = nanobind;

namespace unroll::python {

Value NetworkValue::get() const {
  if (!at->is_open)
    throw Error(ErrorKind::usage, "layers", "a value is used after the function that builds the network returned",
                "Return it from the function");
  return value;
}

Value NetworkValue::get_beside(const NetworkValue& other) const {
  if (other.at != at) throw Error(ErrorKind::usage, "layers", "values of two networks are mixed");
  return get();
}

namespace {

thread_local std::shared_ptr<Building> this_building;

// Exists while the function runs.
class Open {
 public:
  explicit Open(std::shared_ptr<Building> building) : outer_(std::exchange(this_building, std::move(building))) {}
  ~Open() {
    this_building->is_open = false;
    this_building = std::move(outer_);
  }
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;

 private:
  std::shared_ptr<Building> outer_;  // a function may build another network
};

}  // namespace

std::shared_ptr<Building> current_building() {
  if (!this_building)
    throw Error(ErrorKind::usage, "layers.parameter", "no network is being built",
                "Call it in the function that builds the network");
  return this_building;
}

namespace {

// Fails if Python's garbage collector has cleared the function together with the model.
void check_alive(const Function& function) {
  if (!function->is_valid()) throw Error(ErrorKind::usage, "network", "the model is being destroyed");
}

}  // namespace

nb::object called(const Function& function, const nb::dict& named) {
  check_alive(function);
  return (*function)(**named);
}
nb::object called(const Function& function, const nb::object& a, const nb::object& b) {
  check_alive(function);
  return (*function)(a, b);
}

Function shared(const nb::object& function) {
  return Function(new nb::object(function), [](nb::object* object) {
    const nb::gil_scoped_acquire lock;
    delete object;
  });
}

TaskGraph build_in_python(Scope& scope, const Inputs& inputs, const BuildInPython& build) {
  const nb::gil_scoped_acquire lock;
  const auto at = std::make_shared<Building>(Building{scope});
  const Open open(at);
  nb::dict named;
  for (const auto& [name, value] : inputs.all()) {
    constexpr std::string_view k_lengths = ".lengths";
    std::string argument = name;
    if (name.ends_with(k_lengths)) argument[name.size() - k_lengths.size()] = '_';
    named[argument.c_str()] = NetworkValue{at, value};
  }
  return build(at, named);
}

Value value_of(nb::handle object, const std::shared_ptr<Building>& at, const std::string& what) {
  const auto value = cast_to<NetworkValue>(object, "network", "a value of the network as " + what);
  if (value.at != at) throw Error(ErrorKind::usage, "network", what + " belongs to another network");
  return value.get();
}

TaskGraph outputs_of(const nb::object& result, const std::shared_ptr<Building>& at) {
  TaskGraph graph;
  const auto add = [&](const std::string& name, nb::handle value) {
    graph.outputs.emplace_back(name, value_of(value, at, "output '" + name + "'"));
  };
  if (!nb::isinstance<nb::dict>(result)) {
    add("y", result);
    return graph;
  }
  for (const auto& [name, value] : nb::cast<nb::dict>(result))
    add(cast_to<std::string>(name, "network", "a name"), value);
  if (graph.outputs.empty()) throw Error(ErrorKind::usage, "network", "the function returned no output");
  return graph;
}

Network network_of(const Function& function) {
  return [function](Scope& scope, const Inputs& inputs) {
    return build_in_python(scope, inputs, [&](const std::shared_ptr<Building>& at, const nb::dict& named) {
      return outputs_of(called(function, named), at);
    });
  };
}

}  // namespace unroll::python
